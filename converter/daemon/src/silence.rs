//! How long nothing has moved.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// A timer that is cheap to put off: it looks at the last sign of life only when it goes off.
pub struct Silence {
    since: Instant,
    moved: bool,
    sleep: Pin<Box<Sleep>>,
}

impl Silence {
    /// It begins now; `time` is the first limit that is expected.
    pub fn after(time: Duration) -> Self {
        let since = Instant::now();
        Self {
            since,
            moved: false,
            sleep: Box::pin(sleep_until(since + time)),
        }
    }

    /// Something moved.
    pub fn broken(self: Pin<&mut Self>) {
        self.get_mut().moved = true;
    }

    /// Ready when nothing moved for `time`.
    pub fn poll_after(self: Pin<&mut Self>, cx: &mut Context<'_>, time: Duration) -> Poll<()> {
        let this = self.get_mut();
        if std::mem::take(&mut this.moved) {
            this.since = Instant::now();
        }
        let deadline = this.since + time;
        if this.sleep.deadline() > deadline {
            this.sleep.as_mut().reset(deadline);
        }
        while this.sleep.as_mut().poll(cx).is_ready() {
            if Instant::now() >= deadline {
                return Poll::Ready(());
            }
            this.sleep.as_mut().reset(deadline);
        }
        Poll::Pending
    }
}
