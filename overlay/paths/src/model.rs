//! The time of a transfer, by the model of MOSTO.

use std::num::NonZeroU8;

/// The initial window: ten segments (RFC 6928), 15 kB.
const FIRST_WINDOW: u64 = 15_000;
/// The largest size class that tables distinguish: 30 rounds are 16 TB.
pub const MAX_ROUNDS: u8 = 30;

/// A size class: the round trips of slow start that a transfer takes, each with twice the bytes of the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rounds(NonZeroU8);

impl Rounds {
    /// None for 0.
    pub fn new(count: u8) -> Option<Self> {
        NonZeroU8::new(count).map(Self)
    }

    /// The rounds of a transfer of so many bytes: 1 up to 15 kB, 2 up to 45 kB, r up to 15 kB * (2^r - 1).
    pub fn of_size(bytes: u64) -> Self {
        let windows = u128::from(bytes.div_ceil(FIRST_WINDOW).max(1)) + 1;
        let further = windows.next_power_of_two().trailing_zeros() - 1;
        Self(NonZeroU8::MIN.saturating_add(u8::try_from(further).unwrap_or(u8::MAX)))
    }

    /// The largest transfer of so many rounds, in bytes.
    pub fn most_bytes(self) -> u64 {
        let windows = 1_u64.checked_shl(self.0.get().into());
        FIRST_WINDOW.saturating_mul(windows.map_or(u64::MAX, |windows| windows - 1))
    }

    /// At least 1.
    pub fn count(self) -> u8 {
        self.0.get()
    }
}

/// What determines a chain's time, and the number of its converters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Figures {
    /// The sum of its round-trip times in microseconds.
    pub length: u32,
    /// The largest of its round-trip times in microseconds.
    pub longest: u32,
    /// The number of links: one less than nodes.
    pub hops: u16,
}

impl Figures {
    /// Of a chain of hops with these round-trip times in microseconds.
    pub fn of(hops: &[u32]) -> Self {
        hops.iter().fold(Self::default(), |chain, &hop| chain.then(hop))
    }

    /// With a further hop of so many microseconds.
    #[must_use]
    pub fn then(self, hop: u32) -> Self {
        Self {
            length: self.length + hop,
            longest: self.longest.max(hop),
            hops: self.hops + 1,
        }
    }

    /// The time in microseconds of a transfer: 1/2 * length + (r - 1) * longest.
    pub fn time(self, rounds: Rounds) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "2^52 microseconds are a hundred years")]
        let doubled = self.doubled_time(rounds) as f64;
        doubled / 2.0
    }

    /// Twice the time, which is an integer.
    pub(crate) fn doubled_time(self, rounds: Rounds) -> u64 {
        u64::from(self.length) + 2 * u64::from(rounds.count() - 1) * u64::from(self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_more_for_twice_the_bytes() {
        let cases = [
            (0, 1),
            (1, 1),
            (15_000, 1),
            (15_001, 2),
            (45_000, 2),
            (45_001, 3),
            (465_000, 5),
            (465_001, 6),
            (15_345_000, 10),
            (u64::MAX, 51),
        ];
        for (bytes, rounds) in cases {
            assert_eq!(Rounds::of_size(bytes).count(), rounds, "{bytes} bytes");
        }
        for (rounds, bytes) in [(1, 15_000), (2, 45_000), (5, 465_000), (255, u64::MAX)] {
            assert_eq!(Rounds::new(rounds).map(Rounds::most_bytes), Some(bytes));
        }
    }

    #[test]
    fn half_the_length_once_and_the_longest_hop_for_each_further_round() {
        for (hops, rounds, time) in [(&[40, 60][..], 1, 50.0), (&[40, 60], 5, 290.0), (&[7], 2, 10.5)] {
            let found = Figures::of(hops).time(Rounds::new(rounds).unwrap());
            assert_eq!(found.to_bits(), f64::to_bits(time));
        }
    }
}
