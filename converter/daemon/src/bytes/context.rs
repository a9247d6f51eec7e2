//! What moving bytes may use, and where it counts.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use super::buffers::Budget;

/// Bytes taken at a time while the budget for slow readers is spent.
const LITTLE: usize = 16 << 10;

/// What a relay may use, and where it counts.
#[derive(Debug)]
pub struct RelayContext<'a> {
    /// For bytes that a slow reader leaves.
    pub budget: &'a Budget,
    /// Bytes moved at a time.
    pub buffer: usize,
    /// Without a byte in either direction.
    pub idle: Duration,
    /// The same, once one side has ended.
    pub half_closed: Duration,
    /// Bytes that reached the server.
    pub up: &'a AtomicU64,
    /// Bytes that reached the client.
    pub down: &'a AtomicU64,
}

impl RelayContext<'_> {
    /// How much to read at a time. What a reader does not take of it is kept for it.
    pub fn read_size(&self) -> usize {
        if self.budget.is_exhausted() {
            LITTLE.min(self.buffer)
        } else {
            self.buffer
        }
    }
}
