//! Random numbers that are the same for the same seed.

use std::time::Duration;

/// `SplitMix64` (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Any 64 bits.
    pub fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to `bound` - 1; `bound` is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// A number from 0 to 2^`bits` - 1 whose size, not whose value, is evenly spread: small ones are as usual as large.
    pub fn any_size(&mut self, bits: u64) -> u64 {
        let size = self.below(bits + 1);
        self.below(1 << size)
    }

    /// A pause in one of `chances` cases, of less than `most`; none in the others.
    pub fn pause(&mut self, chances: u64, most: Duration) -> Option<Duration> {
        const STEPS: u32 = 1000;
        let length = most / STEPS * u32::try_from(self.below(STEPS.into())).unwrap_or(0);
        (self.below(chances) == 0).then_some(length)
    }
}
