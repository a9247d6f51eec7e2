//! The Internet checksum (RFC 1071), brought up to date after a change (RFC 1624).

/// What `checksum` becomes when the bytes that it covers change from `old` to `new`: slices of one even length that begin
/// at an even offset. Equation 3 of RFC 1624: HC' = ~(~HC + ~m + m').
pub fn updated(checksum: u16, old: &[u8], new: &[u8]) -> u16 {
    let gone = words(old).map(|word| u32::from(!word));
    let come = words(new).map(u32::from);
    !folded(u32::from(!checksum) + gone.sum::<u32>() + come.sum::<u32>())
}

/// The checksum of bytes of an even length that have none yet (RFC 1071 section 1).
pub fn of(bytes: &[u8]) -> u16 {
    !folded(words(bytes).map(u32::from).sum())
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u16> {
    bytes.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
}

#[allow(clippy::cast_possible_truncation)] // both halves fit once the carry is in
fn folded(sum: u32) -> u16 {
    let once = (sum & 0xffff) + (sum >> 16);
    ((once & 0xffff) + (once >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_1624_section_4_gives_zero_and_not_its_complement() {
        assert_eq!(updated(0xdd2f, &[0x55, 0x55], &[0x32, 0x85]), 0);
    }

    #[test]
    fn the_example_of_rfc_1071_section_3_is_right() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(of(&bytes), !0xddf2);
    }

    #[test]
    fn what_does_not_change_leaves_the_checksum() {
        assert_eq!(updated(0xdd2f, &[1, 2, 3, 4], &[1, 2, 3, 4]), 0xdd2f);
    }
}
