//! Bytes that are known at every offset: what is lost, repeated, moved or mixed up with another stream is seen.
//!
//! One block of [`PERIOD`] random bytes repeats for ever; a stream's seed says where in it the stream begins. Nothing is
//! computed while bytes are sent. The period is a prime, so that no loss of whole buffers, pages or segments goes unseen.

use std::sync::LazyLock;

use crate::random::Random;

/// Bytes after which a stream repeats: the Mersenne prime 2^17 - 1.
pub const PERIOD: usize = (1 << 17) - 1;

/// Two periods, so that a period can be sliced out from any place.
static BLOCK: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut random = Random::new(0);
    let one: Vec<u8> = (0..PERIOD).map(|_| random.next().to_le_bytes()[0]).collect();
    one.repeat(2)
});

/// The endless stream of one seed.
#[derive(Clone, Copy, Debug)]
pub struct Pattern {
    phase: u64,
}

impl Pattern {
    /// The stream of `seed`; two seeds give the same one in one of [`PERIOD`] cases.
    pub fn new(seed: u64) -> Self {
        Self {
            phase: Random::new(seed).below(PERIOD as u64),
        }
    }

    /// The stream's bytes from `offset` on: `most` of them, or [`PERIOD`] if that is less.
    pub fn at(self, offset: u64, most: u64) -> &'static [u8] {
        let start = small((self.phase + offset) % PERIOD as u64);
        &BLOCK[start..start + small(most.min(PERIOD as u64))]
    }

    /// How many bytes of `data` differ from the stream's from `offset` on.
    pub fn wrong(self, offset: u64, data: &[u8]) -> u64 {
        let mut wrong = 0;
        let mut at = offset;
        for piece in data.chunks(PERIOD) {
            let expected = self.at(at, piece.len() as u64);
            // Comparing whole slices is many times faster than counting.
            if piece != expected {
                wrong += piece.iter().zip(expected).filter(|(is, should)| is != should).count() as u64;
            }
            at += piece.len() as u64;
        }
        wrong
    }
}

/// A number that is at most [`PERIOD`].
fn small(number: u64) -> usize {
    usize::try_from(number).unwrap_or(PERIOD)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(seed: u64, offset: u64, length: usize) -> Vec<u8> {
        let pattern = Pattern::new(seed);
        let mut bytes = Vec::new();
        while bytes.len() < length {
            let at = offset + bytes.len() as u64;
            bytes.extend_from_slice(pattern.at(at, (length - bytes.len()) as u64));
        }
        bytes
    }

    #[test]
    fn a_stream_is_right_from_any_offset() {
        let whole = stream(7, 0, 3 * PERIOD);
        for offset in [0, 1, 65_536, PERIOD - 1, PERIOD, PERIOD + 1] {
            assert_eq!(Pattern::new(7).wrong(offset as u64, &whole[offset..]), 0);
        }
    }

    #[test]
    fn every_changed_byte_is_counted() {
        let mut bytes = stream(7, 5, 2 * PERIOD);
        for place in [0, 1000, PERIOD, 2 * PERIOD - 1] {
            bytes[place] ^= 1;
        }
        assert_eq!(Pattern::new(7).wrong(5, &bytes), 4);
    }

    #[test]
    fn a_lost_buffer_of_any_usual_size_is_seen() {
        for size in (0..24).map(|power| 1 << power).chain([1420, 1448, 16_384 * 3]) {
            assert!(Pattern::new(7).wrong(0, &stream(7, size, 4096)) > 3500);
        }
    }

    #[test]
    fn the_bytes_of_another_stream_are_wrong() {
        assert!(Pattern::new(1).wrong(0, &stream(2, 0, 4096)) > 3500);
    }
}
