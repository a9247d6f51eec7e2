//! How long single things took.

use std::time::Duration;

use serde_json::{Value, json};

#[derive(Debug, Default)]
pub struct Latencies {
    microseconds: Vec<u32>,
}

impl Latencies {
    pub fn add(&mut self, time: Duration) {
        self.microseconds
            .push(u32::try_from(time.as_micros()).unwrap_or(u32::MAX));
    }

    pub fn join(&mut self, mut others: Self) {
        self.microseconds.append(&mut others.microseconds);
    }

    pub fn count(&self) -> usize {
        self.microseconds.len()
    }

    /// The median and the 99th percentile (nearest rank) in microseconds, as JSON; 0 without any time.
    pub fn quantiles(mut self) -> Value {
        self.microseconds.sort_unstable();
        json!({"p50_us": self.ranked(50), "p99_us": self.ranked(99)})
    }

    fn ranked(&self, percent: usize) -> u32 {
        let rank = (self.count() * percent).div_ceil(100);
        self.microseconds.get(rank.saturating_sub(1)).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_sorted_times() {
        for (microseconds, p50, p99) in [((1..=1000).rev().collect(), 500, 990), (vec![7], 7, 7), (vec![], 0, 0)] {
            let found = Latencies { microseconds }.quantiles();
            assert_eq!(found, json!({"p50_us": p50, "p99_us": p99}));
        }
    }
}
