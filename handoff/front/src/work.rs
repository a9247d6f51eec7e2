//! What work costs: time on a processor.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::time::Duration;

use handoff_protocol::What;
use rustix::time::{ClockId, clock_gettime};

/// Behind so many answers, those before them count half.
const REMEMBERED: f64 = 1024.0;

/// Does the work of `future`, and adds to `spent` what it takes of this thread's time on a processor, with its system calls:
/// other work of the thread, which goes on in between, is not counted. What the kernel does in interrupts is nobody's.
pub async fn metered<T>(future: impl Future<Output = T>, spent: &Cell<Duration>) -> T {
    let mut future = pin!(future);
    poll_fn(|cx| {
        let since = thread_time();
        let polled = future.as_mut().poll(cx);
        spent.set(spent.get() + thread_time().saturating_sub(since));
        polled
    })
    .await
}

fn thread_time() -> Duration {
    // It counts up from 0.
    clock_gettime(ClockId::ThreadCPUTime)
        .try_into()
        .unwrap_or_default()
}

/// What it takes to hear and to tell back ends and the switch. Messages of all connections go together, so that it can be
/// told for all of them only.
#[derive(Debug, Default)]
pub struct Overhead {
    /// Since it was shared out last.
    pub spent: Cell<Duration>,
    sums: Cell<Sums>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    seconds: f64,
    messages: f64,
    /// Those that would come without any hand-over.
    beats: f64,
    answers: f64,
}

impl Overhead {
    /// One more message came.
    pub fn heard(&self, what: &What) {
        let one = |is_one: bool| f64::from(u8::from(is_one));
        let sums = self.sums.get();
        self.sums.set(Sums {
            messages: sums.messages + 1.0,
            beats: sums.beats + one(matches!(what, What::Alive)),
            answers: sums.answers + one(matches!(what, What::Returned { .. } | What::Ended { .. })),
            ..sums
        });
    }

    /// For one answer; nothing before the first one.
    pub fn of_an_answer(&self) -> Duration {
        let mut sums = self.sums.get();
        sums.seconds += self.spent.take().as_secs_f64();
        if sums.answers >= REMEMBERED {
            sums = Sums {
                seconds: sums.seconds / 2.0,
                messages: sums.messages / 2.0,
                beats: sums.beats / 2.0,
                answers: sums.answers / 2.0,
            };
        }
        self.sums.set(sums);
        let share = (sums.messages - sums.beats) / sums.messages;
        Duration::try_from_secs_f64(sums.seconds * share / sums.answers).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use tokio::task::yield_now;

    use super::*;

    #[tokio::test]
    async fn work_between_the_steps_of_a_future_is_not_its_own() {
        let (own, all) = (Cell::default(), Cell::default());
        let idle = async {
            for _ in 0..3 {
                yield_now().await;
            }
        };
        let busy = async {
            for _ in 0..3 {
                black_box((0..3_000_000_u64).fold(0, |sum, each| black_box(sum ^ each)));
                yield_now().await;
            }
        };
        metered(
            async {
                tokio::join!(metered(idle, &own), busy);
            },
            &all,
        )
        .await;
        assert!(own.get() > Duration::ZERO);
        assert!(all.get() > 20 * own.get(), "{all:?} {own:?}");
    }

    #[test]
    fn beats_are_no_answers_costs() {
        let overhead = Overhead::default();
        assert_eq!(overhead.of_an_answer(), Duration::ZERO);
        for _ in 0..10 {
            overhead.heard(&What::Taken);
            overhead.heard(&What::Ended { sent: 0 });
            overhead.heard(&What::Alive);
            overhead.heard(&What::Alive);
        }
        overhead.spent.set(Duration::from_millis(8));
        assert_eq!(overhead.of_an_answer(), Duration::from_micros(400));
    }

    #[test]
    fn what_was_long_ago_counts_less() {
        let overhead = Overhead::default();
        for cost in [100, 900] {
            for _ in 0..10_000 {
                overhead.heard(&What::Ended { sent: 0 });
                overhead.spent.set(Duration::from_micros(cost));
                overhead.of_an_answer();
            }
        }
        let cost = overhead.of_an_answer().as_secs_f64();
        assert!((cost / 900e-6 - 1.0).abs() < 0.01, "{cost}");
    }
}
