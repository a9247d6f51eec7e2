//! What work costs: time on a processor.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::time::Duration;

use handoff_protocol::What;
use rustix::time::{ClockId, clock_gettime};

/// Behind so many answers, those before them count half.
const REMEMBERED: f64 = 1024.0;

/// Adds up this thread's time on a processor that work takes, or does not where nobody reads it: to ask the kernel for it at
/// each step is work, too.
#[derive(Debug, Default)]
pub struct Meter {
    runs: bool,
    spent: Cell<Duration>,
}

impl Meter {
    /// One that `runs`, or not.
    pub fn new(runs: bool) -> Self {
        let spent = Cell::default();
        Self { runs, spent }
    }

    /// Does the work of `future`, whose time counts with its system calls. Other work of the thread, which goes on in between,
    /// does not count. What the kernel does in interrupts is nobody's.
    pub async fn run<T>(&self, future: impl Future<Output = T>) -> T {
        if !self.runs {
            return future.await;
        }
        let mut future = pin!(future);
        poll_fn(|cx| {
            let since = thread_time();
            let polled = future.as_mut().poll(cx);
            self.add(thread_time().saturating_sub(since));
            polled
        })
        .await
    }

    /// What was added up since the last call; zero if it does not run.
    pub fn take(&self) -> Duration {
        self.spent.take()
    }

    fn add(&self, time: Duration) {
        self.spent.set(self.spent.get() + time);
    }
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
    /// Of what was done since it was shared out last.
    pub meter: Meter,
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
    /// Nothing yet; nothing ever, unless it is `metered`.
    pub fn new(metered: bool) -> Self {
        Self {
            meter: Meter::new(metered),
            ..Self::default()
        }
    }

    /// One more message came.
    pub fn heard(&self, what: &What) {
        let one = |is_one: bool| f64::from(u8::from(is_one));
        let sums = self.sums.get();
        self.sums.set(Sums {
            messages: sums.messages + 1.0,
            beats: sums.beats + one(matches!(what, What::Alive { .. })),
            answers: sums.answers
                + one(matches!(
                    what,
                    What::Returned { .. } | What::Stuck { .. } | What::Ended { .. }
                )),
            ..sums
        });
    }

    /// For one answer; nothing before the first one.
    pub fn of_an_answer(&self) -> Duration {
        let mut sums = self.sums.get();
        sums.seconds += self.meter.take().as_secs_f64();
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
        let (own, all, off) = (Meter::new(true), Meter::new(true), Meter::new(false));
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
        let both = async {
            tokio::join!(own.run(idle), busy);
        };
        all.run(off.run(both)).await;
        let (own, all) = (own.take(), all.take());
        assert!(own > Duration::ZERO);
        assert!(all > 20 * own, "{all:?} {own:?}");
        assert_eq!(off.take(), Duration::ZERO);
    }

    #[test]
    fn beats_are_no_answers_costs() {
        let overhead = Overhead::default();
        assert_eq!(overhead.of_an_answer(), Duration::ZERO);
        for _ in 0..10 {
            overhead.heard(&What::Taken);
            overhead.heard(&What::Ended { sent: 0 });
            overhead.heard(&What::Alive { taken: 0 });
            overhead.heard(&What::Alive { taken: 0 });
        }
        overhead.meter.add(Duration::from_millis(8));
        assert_eq!(overhead.of_an_answer(), Duration::from_micros(400));
    }

    #[test]
    fn what_was_long_ago_counts_less() {
        let overhead = Overhead::default();
        for cost in [100, 900] {
            for _ in 0..10_000 {
                overhead.heard(&What::Ended { sent: 0 });
                overhead.meter.add(Duration::from_micros(cost));
                overhead.of_an_answer();
            }
        }
        let cost = overhead.of_an_answer().as_secs_f64();
        assert!((cost / 900e-6 - 1.0).abs() < 0.01, "{cost}");
    }
}
