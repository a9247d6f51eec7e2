//! Parts of byte strings whose places are known.

use tributary_sys::array;

/// The number of two bytes at `at`, in network byte order.
pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(array(bytes, at))
}

pub fn put<const SIZE: usize>(bytes: &mut [u8], at: usize, value: [u8; SIZE]) {
    bytes[at..at + SIZE].copy_from_slice(&value);
}
