//! When somebody was here last, for a converter that ends when nobody comes.

use std::time::{Duration, Instant};

use super::active_config::ActiveConfig;

/// When somebody was here last, and how many had been accepted by then.
pub struct LastUse {
    accepted: u64,
    at: Instant,
}

impl LastUse {
    /// As if somebody were here now.
    pub fn now() -> Self {
        Self {
            accepted: 0,
            at: Instant::now(),
        }
    }

    /// How long ago it was; `open` connections stand now. Who came and went since the look before this one counts as
    /// here now.
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
