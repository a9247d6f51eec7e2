//! When slow start is over: what passes grows no more.

use std::time::Duration;

/// Rounds without growth after which it is over, and what counts as growth: by a quarter (as BBR leaves its own,
/// draft-ietf-ccwg-bbr section 5.3.1.2).
const FLAT: u32 = 3;
/// Silence, beyond a round, after which slow start begins again, as the kernel has it (RFC 5681 section 4.1;
/// `tcp_slow_start_after_idle`): its shortest retransmission time-out.
const SILENCE: Duration = Duration::from_millis(200);

/// Watches a connection from round to round. A round is as long as a byte and its acknowledgement take at least.
#[derive(Clone, Copy, Debug, Default)]
pub struct SlowStartDetector {
    /// When the round began, and the bytes that had passed.
    begun: Option<(Duration, u64)>,
    /// Bytes a second of the fastest round.
    best: u64,
    flat: u32,
    heard: Heard,
}

/// When bytes passed last, and how many had by then.
#[derive(Clone, Copy, Debug, Default)]
struct Heard {
    at: Duration,
    passed: u64,
    /// Whether the relay has waited for more since: where one end takes bytes slowly, some are on their way meanwhile.
    waits: bool,
}

impl SlowStartDetector {
    /// Starts again if silence has ended. To be called before `watch`, and also whenever else bytes may have passed; `waits`:
    /// whether all that was read was passed on. Else the first bytes of each burst would end a long round without growth.
    pub fn hear(&mut self, now: Duration, passed: u64, waits: bool, round: Duration) {
        let before = self.heard;
        if passed == before.passed {
            self.heard.waits = waits;
            return;
        }
        if before.waits && now.saturating_sub(before.at) >= round + SILENCE {
            *self = Self::default();
        }
        self.heard = Heard { at: now, passed, waits };
    }

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

    /// How many looks it takes until it is over; each comes so many milliseconds after the one before, with so many bytes.
    fn looks(pieces: impl IntoIterator<Item = (u64, u64)>, waits: bool) -> Option<usize> {
        let (mut detector, mut now, mut passed) = (SlowStartDetector::default(), Duration::ZERO, 0);
        pieces.into_iter().position(|(after, more)| {
            now += Duration::from_millis(after);
            passed += more;
            detector.hear(now, passed, waits, ROUND);
            detector.watch(now, passed, ROUND)
        })
    }

    #[test]
    fn bursts_are_no_rounds() {
        let burst = [(1000, 1000), (1, 9000), (9, 20_000), (10, 40_000)];
        assert_eq!(looks(burst.repeat(10), true), None);
        let long = [&burst[..], &[(10, 41_000), (10, 42_000), (10, 43_000)]].concat();
        assert_eq!(looks([&burst[..], &long].concat(), true), Some(10));
    }

    #[test]
    fn what_pauses_for_a_moment_or_is_taken_slowly_goes_on() {
        assert_eq!(looks([(100, 1000); 10], true), Some(4));
        assert_eq!(looks([(1000, 1_000_000); 10], false), Some(4));
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
