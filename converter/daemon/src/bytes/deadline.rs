//! A timer that is cheap to put off: where the deadline moved on, it finds out when it goes off.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::time::{Instant, Sleep, sleep_until};

/// Takes no memory before it is first used.
#[derive(Debug, Default)]
pub struct Deadline(Option<Pin<Box<Sleep>>>);

impl Deadline {
    /// Ready at `deadline`, which may be another one at each call.
    pub fn poll_until(&mut self, cx: &mut Context<'_>, deadline: Instant) -> Poll<()> {
        let sleep = self
            .0
            .get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if sleep.deadline() > deadline {
            sleep.as_mut().reset(deadline);
        }
        while sleep.as_mut().poll(cx).is_ready() {
            if Instant::now() >= deadline {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(deadline);
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_goes_off_at_the_deadline_of_the_last_call() {
        let mut timer = Deadline::default();
        let start = Instant::now();
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        for (before, deadline) in [(50, 20), (10, 90), (5, 100)] {
            let first = poll_fn(|cx| Poll::Ready(timer.poll_until(cx, at(before + 100)))).await;
            assert!(first.is_pending());
            poll_fn(|cx| timer.poll_until(cx, at(deadline))).await;
            assert_eq!(start.elapsed(), Duration::from_millis(deadline));
        }
    }
}
