//! The time of the last use, for `timeouts.unused`.

use std::time::{Duration, Instant};

use super::active_config::ActiveConfig;

/// The time of the last use, and how many connections had been accepted by then.
pub struct LastUse {
    accepted: u64,
    at: Instant,
}

impl LastUse {
    /// Counts the start as a use.
    pub fn now() -> Self {
        Self {
            accepted: 0,
            at: Instant::now(),
        }
    }

    /// How long ago it was; `open` connections are open now. Connections that were accepted and ended since the last call
    /// count as a use now.
    pub fn age(&mut self, active: &ActiveConfig, open: usize) -> Duration {
        let accepted = active
            .bound
            .iter()
            .map(|bound| bound.counters.accepted.get());
        let accepted = accepted.sum();
        if open > 0 || accepted != self.accepted {
            *self = Self {
                accepted,
                at: Instant::now(),
            };
        }
        self.at.elapsed()
    }
}
