//! The health of a node: the pressure on its processors, and whether its converter answers.

use serde::{Deserialize, Serialize};

/// Pressure is published again when it has changed by so many percentage points. So pressure that swings by less than twice
/// as much is published once at most.
const CHANGE: u8 = 10;

/// Published once it is not the default, which means healthy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Health {
    pub pressure_percent: Pressure,
    /// Whether the node has a converter that does not answer. Until it answers, the node is published without it.
    #[serde(default)]
    pub converter_silent: bool,
}

impl Health {
    /// The value to publish in place of `self`; None if nothing has changed.
    pub fn next(&self, pressure: Pressure, converter_silent: bool) -> Option<Self> {
        let before = self.pressure_percent;
        let next = Self {
            pressure_percent: if before.percent().abs_diff(pressure.percent()) < CHANGE {
                before
            } else {
                pressure
            },
            converter_silent,
        };
        (next != *self).then_some(next)
    }
}

/// The share of time in which tasks waited for a processor, 0 to 100 percent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "i64")]
pub struct Pressure(u8);

impl Pressure {
    /// Parses the average of the last ten seconds from the kernel's file (Documentation/accounting/psi.rst).
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut lines = text.lines();
        let number = lines.find_map(|line| line.strip_prefix("some avg10="));
        let whole = number.and_then(|number| number.split(['.', ' ']).next()?.parse().ok());
        whole
            .map(Self)
            .filter(|found| found.0 <= 100)
            .ok_or_else(|| "no processor pressure: accepted: a file such as /proc/pressure/cpu".into())
    }

    pub fn percent(self) -> u8 {
        self.0
    }
}

impl TryFrom<i64> for Pressure {
    type Error = String;

    fn try_from(percent: i64) -> Result<Self, String> {
        let accepted = u8::try_from(percent).ok().filter(|percent| *percent <= 100);
        accepted
            .map(Self)
            .ok_or_else(|| format!("{percent} is no pressure: accepted: percent from 0 to 100"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_text_is_read_and_nothing_else_is() {
        let text = "some avg10=24.99 avg60=1.00 avg300=0.50 total=7\nfull avg10=90.00 avg60=0.00 avg300=0.00 total=0\n";
        assert_eq!(Pressure::parse(text), Ok(Pressure(24)));
        let all = "some avg10=100.00 avg60=0.00 avg300=0.00 total=0\n";
        assert_eq!(Pressure::parse(all), Ok(Pressure(100)));
        let other = "some avg10=101.00 avg60=0.00 avg300=0.00 total=0\n";
        for text in [
            "",
            "some",
            "some avg10=",
            "some avg10=x avg60=1",
            "full avg10=1.00",
            other,
        ] {
            assert!(Pressure::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn pressure_that_swings_about_a_border_is_published_once_and_one_that_creeps_away_in_the_end() {
        let mut published = Health::default();
        let mut seen = Vec::new();
        for percent in [9, 18, 22, 18, 27, 9, 8, 4, 0, 9] {
            if let Some(next) = published.next(Pressure(percent), false) {
                seen.push(next.pressure_percent.percent());
                published = next;
            }
        }
        assert_eq!(seen, [18, 8]);
        let creeping = (8..100).find(|&percent| published.next(Pressure(percent), false).is_some());
        assert_eq!(creeping, Some(18));
    }

    #[test]
    fn a_converter_that_falls_silent_is_published_at_once_with_the_pressure_as_it_was() {
        let published = Health::default();
        let next = published.next(Pressure(5), true);
        let silent = Health {
            converter_silent: true,
            ..Health::default()
        };
        assert_eq!(next.as_ref(), Some(&silent));
        assert_eq!(silent.next(Pressure(9), true), None);
    }
}
