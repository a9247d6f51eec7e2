//! How long nothing has moved.

use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;

use crate::bytes::deadline::Deadline;

/// The time since something moved.
#[derive(Debug)]
pub struct IdleTimer {
    since: Instant,
    deadline: Deadline,
}

impl Default for IdleTimer {
    /// It begins now.
    fn default() -> Self {
        Self {
            since: Instant::now(),
            deadline: Deadline::default(),
        }
    }
}

impl IdleTimer {
    /// Something moved.
    pub fn restart(&mut self) {
        self.since = Instant::now();
    }

    /// Ready when nothing moved for `time`.
    pub fn poll_after(&mut self, cx: &mut Context<'_>, time: Duration) -> Poll<()> {
        self.deadline.poll_until(cx, self.since + time)
    }
}
