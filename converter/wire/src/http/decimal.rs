//! Numbers in heads: without `fmt`, which costs as much as the rest of a head.

/// Appends `number` in decimal.
pub(crate) fn write(number: impl itoa::Integer, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}
