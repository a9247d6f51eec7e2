//! Parts of byte strings whose places are known.

/// So many bytes from `at` on, which are there.
pub fn array<const SIZE: usize>(bytes: &[u8], at: usize) -> [u8; SIZE] {
    std::array::from_fn(|index| bytes[at + index])
}
