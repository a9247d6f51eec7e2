//! Sending no faster than a rate.
//!
//! By the sender's own clock: `SO_MAX_PACING_RATE` (socket(7)) is in no library, and an MPTCP socket does not pass it on.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// So often a piece is sent.
const TICK: Duration = Duration::from_millis(1);
/// What was not sent in time is not made up for, but for so much of it.
const BURST: Duration = Duration::from_millis(10);

/// How much may be sent now.
pub struct RateLimit {
    bytes_per_second: f64,
    allowance: f64,
    counted: Instant,
}

impl RateLimit {
    /// From now on so many bits per second, or as many as there are.
    pub fn new(bits_per_second: Option<u64>) -> Self {
        Self {
            bytes_per_second: bits_per_second.map_or(f64::INFINITY, |bits| bits as f64 / 8.0),
            allowance: 0.0,
            counted: Instant::now(),
        }
    }

    /// How many bytes may be sent, at least one; waits until there are some.
    pub async fn room(&mut self) -> u64 {
        while self.bytes_per_second.is_finite() {
            let now = Instant::now();
            let earned = (now - self.counted).as_secs_f64() * self.bytes_per_second;
            let most = (BURST.as_secs_f64() * self.bytes_per_second).max(1.0);
            self.allowance = (self.allowance + earned).min(most);
            self.counted = now;
            if self.allowance >= 1.0 {
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // from 1 on
                return self.allowance as u64;
            }
            sleep_until(now + TICK).await;
        }
        u64::MAX
    }

    /// So many bytes were.
    pub fn spent(&mut self, bytes: u64) {
        self.allowance -= bytes as f64;
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    async fn within_a_second(rate_limit: &mut RateLimit) -> u64 {
        let (begun, mut sent) = (Instant::now(), 0);
        while begun.elapsed() < Duration::from_secs(1) {
            let room = rate_limit.room().await;
            rate_limit.spent(room);
            sent += room;
        }
        sent
    }

    #[tokio::test(start_paused = true)]
    async fn as_much_as_the_rate_allows_and_no_more_after_a_stall() {
        let mut rate_limit = RateLimit::new(Some(8_000_000));
        let sent = within_a_second(&mut rate_limit).await;
        assert!((990_000..=1_001_000).contains(&sent), "{sent}");
        advance(Duration::from_secs(5)).await;
        let sent = within_a_second(&mut rate_limit).await;
        assert!((990_000..=1_011_000).contains(&sent), "{sent}");
    }
}
