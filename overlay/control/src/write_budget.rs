//! How much a controller writes: etcd keeps an hour's history, and takes nothing new when 2 GB of it are full.

use std::time::{Duration, Instant};

/// What may be written at once ...
const BURST_BYTES: u64 = 256 << 20;
/// ... and in the long run: less than 1 GB an hour.
const BYTES_PER_SECOND: u64 = 256 << 10;

#[derive(Debug)]
pub struct WriteBudget {
    spent: u64,
    since: Instant,
}

impl WriteBudget {
    pub fn new(now: Instant) -> Self {
        Self { spent: 0, since: now }
    }

    /// Counts what was written by `now`.
    pub fn spend(&mut self, bytes: u64, now: Instant) {
        self.regain(now);
        self.spent = self.spent.saturating_add(bytes);
    }

    /// Counts what others wrote, at an unknown time before `now`, of which this process may have counted some itself.
    pub fn spend_at_least(&mut self, bytes: u64, now: Instant) {
        self.regain(now);
        self.spent = self.spent.max(bytes);
    }

    /// How long to write nothing more.
    pub fn pause(&mut self, now: Instant) -> Duration {
        self.regain(now);
        let over = self.spent.saturating_sub(BURST_BYTES);
        Duration::from_secs(over.div_ceil(BYTES_PER_SECOND))
    }

    /// What was not used until `now` makes up for what was spent before, and for nothing that is spent later.
    fn regain(&mut self, now: Instant) {
        let seconds = now.duration_since(self.since).as_secs();
        self.since += Duration::from_secs(seconds);
        self.spent = self.spent.saturating_sub(seconds.saturating_mul(BYTES_PER_SECOND));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_comes_and_goes_does_not_fill_etcd() {
        let begin = Instant::now();
        let (mut budget, mut now) = (WriteBudget::new(begin), begin);
        // All tables of 1,000 nodes, again and again.
        let (all, mut written) = (100 << 20, 0);
        let write = |budget: &mut WriteBudget, now| {
            budget.spend(all, now);
            budget.pause(now)
        };
        assert_eq!(write(&mut budget, now), Duration::ZERO);
        while now < begin + Duration::from_secs(3600) {
            now += write(&mut budget, now) + Duration::from_secs(3);
            written += all;
        }
        assert!(written < 1_500_000_000, "{written}");
        // Half an hour of quiet makes up for it.
        now += Duration::from_secs(1800);
        assert_eq!(write(&mut budget, now), Duration::ZERO);
    }

    #[test]
    fn what_was_published_before_counts_once() {
        let begin = Instant::now();
        let mut budget = WriteBudget::new(begin);
        for _ in 0..9 {
            budget.spend_at_least(BURST_BYTES, begin);
            assert_eq!(budget.pause(begin), Duration::ZERO);
        }
        budget.spend(10 * BYTES_PER_SECOND, begin);
        assert_eq!(budget.pause(begin), Duration::from_secs(10));
        budget.spend_at_least(BURST_BYTES, begin);
        assert_eq!(budget.pause(begin), Duration::from_secs(10));
    }
    #[test]
    fn a_day_as_a_standby_makes_up_for_nothing_that_is_written_afterwards() {
        let begin = Instant::now();
        let elected = begin + Duration::from_secs(86_400);
        let mut budget = WriteBudget::new(begin);
        budget.spend_at_least(BURST_BYTES, elected);
        budget.spend(10 * BYTES_PER_SECOND, elected);
        assert_eq!(budget.pause(elected), Duration::from_secs(10));
    }
}
