//! When slow start is over: what passes grows no more.

use std::time::Duration;

/// Rounds without growth after which it is over, and what counts as growth: by a quarter (as BBR leaves its own,
/// draft-ietf-ccwg-bbr section 5.3.1.2).
const FLAT: u32 = 3;

/// Watches a connection from round to round. A round is as long as a byte and its acknowledgement take at least.
#[derive(Clone, Copy, Debug, Default)]
pub struct SlowStartDetector {
    /// When the round began, and the bytes that had passed.
    begun: Option<(Duration, u64)>,
    /// Bytes a second of the fastest round.
    best: u64,
    flat: u32,
}

impl SlowStartDetector {
    /// Whether slow start is over, at the time `now`, when `passed` bytes have passed in all. Time without any data is no
    /// round.
    pub fn watch(&mut self, now: Duration, passed: u64, round: Duration) -> bool {
        let (begun, before) = *self.begun.get_or_insert((now, passed));
        let took = now.saturating_sub(begun);
        if took >= round && passed > before {
            self.begun = Some((now, passed));
            self.end_of_round(per_second(passed - before, took));
        }
        self.flat >= FLAT
    }

    fn end_of_round(&mut self, rate: u64) {
        if rate > self.best.saturating_add(self.best / 4) {
            self.best = rate;
            self.flat = 0;
        } else {
            self.flat += 1;
        }
    }
}

fn per_second(bytes: u64, took: Duration) -> u64 {
    let microseconds = took.as_micros().max(1);
    u64::try_from(u128::from(bytes) * 1_000_000 / microseconds).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND: Duration = Duration::from_millis(10);

    /// How many rounds it takes until it is over; each brings so many bytes.
    fn rounds(bytes: impl IntoIterator<Item = u64>) -> Option<usize> {
        let (mut detector, mut now, mut passed) = (SlowStartDetector::default(), Duration::ZERO, 0);
        assert!(!detector.watch(now, passed, ROUND));
        bytes.into_iter().position(|more| {
            now += ROUND;
            passed += more;
            detector.watch(now, passed, ROUND)
        })
    }

    #[test]
    fn while_it_doubles_it_is_not_over() {
        assert_eq!(rounds((0..20).map(|round| 1000 << round)), None);
    }

    #[test]
    fn three_rounds_without_growth_end_it() {
        assert_eq!(rounds([1000, 2000, 4000, 4100, 4900, 3000]), Some(5));
        assert_eq!(rounds([1000, 2000, 2100, 2200, 4000, 4000, 4000]), None);
    }

    #[test]
    fn silence_is_no_round() {
        assert_eq!(rounds([1000, 0, 0, 0, 0, 0]), None);
    }

    #[test]
    fn within_a_round_nothing_is_judged() {
        let mut detector = SlowStartDetector::default();
        for microseconds in 0..10_000 {
            let now = Duration::from_micros(microseconds);
            assert!(!detector.watch(now, microseconds, ROUND));
        }
    }
}
