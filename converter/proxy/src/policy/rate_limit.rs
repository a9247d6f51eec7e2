//! So many in each second, for one thread.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// A limit that is reset each second.
#[derive(Debug)]
pub struct RateLimit {
    per_second: u32,
    taken: Cell<u32>,
    since: Cell<Instant>,
}

impl RateLimit {
    pub fn per_second(count: u32) -> Self {
        Self {
            per_second: count,
            taken: Cell::new(0),
            since: Cell::new(Instant::now()),
        }
    }

    /// Whether there may be one more now.
    pub fn take(&self) -> bool {
        if self.since.get().elapsed() >= Duration::from_secs(1) {
            self.since.set(Instant::now());
            self.taken.set(0);
        }
        self.taken.set(self.taken.get().saturating_add(1));
        self.taken.get() <= self.per_second
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_pass_and_no_more_within_the_second() {
        let limit = RateLimit::per_second(3);
        assert_eq!([(); 5].map(|()| limit.take()), [true, true, true, false, false]);
        limit.since.set(
            Instant::now()
                .checked_sub(Duration::from_secs(1))
                .expect("a machine that is up"),
        );
        assert!(limit.take());
    }
}
