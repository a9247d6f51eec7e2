//! Sending no faster than a rate.
//!
//! By the sender's own clock: `SO_MAX_PACING_RATE` (socket(7)) is in no library, and an MPTCP socket does not pass it on.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// So often a piece is sent.
const TICK: Duration = Duration::from_millis(1);

/// How much may have been sent by now.
pub struct Pace {
    bytes_per_second: f64,
    begun: Instant,
}

impl Pace {
    /// From now on so many bits per second.
    pub fn new(bits_per_second: u64) -> Self {
        Self {
            bytes_per_second: bits_per_second as f64 / 8.0,
            begun: Instant::now(),
        }
    }

    /// How many bytes may follow the `sent` ones, at least one; waits until there are some.
    pub async fn room(&self, sent: u64) -> u64 {
        loop {
            let due = self.begun.elapsed().as_secs_f64() * self.bytes_per_second;
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // it is not negative
            let room = (due as u64).saturating_sub(sent);
            if room > 0 {
                return room;
            }
            sleep_until(Instant::now() + TICK).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn as_much_as_the_time_that_has_gone_by_allows() {
        let pace = Pace::new(8_000_000);
        let (begun, mut sent) = (Instant::now(), 0);
        while begun.elapsed() < Duration::from_secs(1) {
            sent += pace.room(sent).await;
        }
        assert!((990_000..=1_001_000).contains(&sent), "{sent}");
    }
}
