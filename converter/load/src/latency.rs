//! How long single things took.

use std::time::Duration;

use serde::Serialize;

/// Times of one kind.
#[derive(Debug, Default)]
pub struct Latencies {
    microseconds: Vec<u32>,
}

/// Two quantiles, in microseconds; 0 without any time.
#[derive(Debug, PartialEq, Serialize)]
pub struct Quantiles {
    p50_us: u32,
    p99_us: u32,
}

impl Latencies {
    /// Takes `time` in.
    pub fn add(&mut self, time: Duration) {
        self.microseconds
            .push(u32::try_from(time.as_micros()).unwrap_or(u32::MAX));
    }

    /// Takes all of `others` in.
    pub fn join(&mut self, mut others: Self) {
        self.microseconds.append(&mut others.microseconds);
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.microseconds.len()
    }

    /// The median and the 99th percentile (nearest rank).
    pub fn quantiles(mut self) -> Quantiles {
        self.microseconds.sort_unstable();
        Quantiles {
            p50_us: self.ranked(50),
            p99_us: self.ranked(99),
        }
    }

    fn ranked(&self, percent: usize) -> u32 {
        let rank = (self.count() * percent).div_ceil(100);
        self.microseconds
            .get(rank.saturating_sub(1))
            .copied()
            .unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantiles(microseconds: Vec<u32>) -> (u32, u32) {
        let found = Latencies { microseconds }.quantiles();
        (found.p50_us, found.p99_us)
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_times() {
        assert_eq!(quantiles((1..=1000).rev().collect()), (500, 990));
        assert_eq!(quantiles(vec![7]), (7, 7));
        assert_eq!(quantiles(vec![]), (0, 0));
    }
}
