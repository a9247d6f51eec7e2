//! When an agent publishes a delay again: not at each small change.

use std::collections::BTreeMap;

use crate::schema::Delay;
use crate::window::Reading;

/// How far a delay must be from the published one to be published again: by both.
///
/// The distance to the published delay counts, not to the previous sample. So a delay that swings by less than twice the
/// threshold is published once at most, and one that creeps away is published in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threshold {
    /// Of the published delay.
    pub percent: u32,
    pub least_us: u32,
}

impl Threshold {
    /// What agents publish by default. Smaller differences are noise wherever delays are compared.
    pub const DEFAULT: Self = Self {
        percent: 10,
        least_us: 2000,
    };

    /// Whether `now` is too far from `published`.
    pub fn exceeded(self, published: Delay, now: Delay) -> bool {
        let [published, now] = [published, now].map(|delay| u64::from(delay.microseconds()));
        let distance = published.abs_diff(now);
        distance > u64::from(self.least_us) && distance * 100 > published * u64::from(self.percent)
    }
}

/// The delays to publish in place of `published`; None if nothing has changed enough.
///
/// A place without a reading is no longer measured; its delay disappears with the next publication.
pub fn next<Place: Ord + Clone>(
    published: &BTreeMap<Place, Delay>,
    readings: &BTreeMap<Place, Reading>,
    threshold: Threshold,
) -> Option<BTreeMap<Place, Delay>> {
    let mut changed = false;
    let mut next = BTreeMap::new();
    for (place, reading) in readings {
        let before = published.get(place).copied();
        let now = match (reading, before) {
            (Reading::Known(now), Some(before)) if !threshold.exceeded(before, *now) => Some(before),
            (Reading::Known(now), _) => Some(*now),
            (Reading::Unknown, before) => before,
            (Reading::Silent, _) => None,
        };
        changed |= now != before;
        next.extend(now.map(|delay| (place.clone(), delay)));
    }
    changed.then_some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULT: Threshold = Threshold::DEFAULT;

    fn delay(milliseconds: f64) -> Delay {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "of a test")]
        Delay::of_microseconds((milliseconds * 1000.0) as u128)
    }

    fn delays<'a>(all: &[(&'a str, f64)]) -> BTreeMap<&'a str, Delay> {
        all.iter().map(|(peer, ms)| (*peer, delay(*ms))).collect()
    }

    fn readings<'a>(all: &[(&'a str, Reading)]) -> BTreeMap<&'a str, Reading> {
        all.iter().copied().collect()
    }

    #[test]
    fn the_larger_of_the_two_decides() {
        let cases = [
            (5.0, 6.9, false), // 38 %, but 1.9 ms
            (5.0, 7.1, true),
            (5.0, 2.9, true),
            (100.0, 109.9, false), // 9.9 ms, but 9.9 %
            (100.0, 110.1, true),
            (100.0, 89.9, true),
        ];
        for (before, now, exceeded) in cases {
            assert_eq!(DEFAULT.exceeded(delay(before), delay(now)), exceeded, "{before} {now}");
        }
    }

    #[test]
    fn a_delay_that_swings_about_the_border_is_published_once() {
        let mut published = delays(&[("B", 20.0)]);
        let mut times = 0;
        for ms in [21.9, 22.1, 21.9, 22.1, 20.2, 22.1, 20.2, 24.0] {
            let now = readings(&[("B", Reading::Known(delay(ms)))]);
            if let Some(next) = next(&published, &now, DEFAULT) {
                published = next;
                times += 1;
            }
        }
        assert_eq!((times, published), (1, delays(&[("B", 22.1)])));
    }

    #[test]
    fn a_delay_that_creeps_away_is_published_in_the_end() {
        let published = delays(&[("B", 20.0)]);
        let changes = (0..40)
            .map(|step| 20.0 + 0.1 * f64::from(step))
            .find(|ms| next(&published, &readings(&[("B", Reading::Known(delay(*ms)))]), DEFAULT).is_some());
        assert!(changes.is_some_and(|ms| (22.0..22.2).contains(&ms)));
    }

    #[test]
    fn new_silent_and_unknown_peers() {
        let published = delays(&[("B", 20.0), ("gone", 5.0)]);
        let twenty = Reading::Known(delay(20.5));
        let same = [("B", twenty), ("C", Reading::Unknown), ("D", Reading::Silent)];
        assert_eq!(next(&published, &readings(&same), DEFAULT), None);
        let unknown = [("B", Reading::Unknown)];
        assert_eq!(next(&published, &readings(&unknown), DEFAULT), None);
        let new = [("B", twenty), ("C", Reading::Known(delay(7.0)))];
        let both = delays(&[("B", 20.0), ("C", 7.0)]);
        assert_eq!(next(&published, &readings(&new), DEFAULT), Some(both));
        let silent = [("B", Reading::Silent)];
        assert_eq!(next(&published, &readings(&silent), DEFAULT), Some(delays(&[])));
    }
}
