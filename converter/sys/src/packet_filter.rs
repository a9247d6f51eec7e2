//! Instructions of the kernel's classic packet filter (`linux/bpf_common.h`), by what they are for.

use socket2::SockFilter;

/// Bytes of a packet that are taken: all headers fit.
pub const WHOLE: u32 = 256;

/// The index register becomes the length of the IPv4 header at the packet's start.
pub fn index_ipv4_header() -> SockFilter {
    SockFilter::new(0xb1, 0, 0, 0)
}

/// The index register becomes `value`.
pub fn index(value: u32) -> SockFilter {
    SockFilter::new(0x01, 0, 0, value)
}

/// Loads the byte at this offset.
pub fn byte(at: u32) -> SockFilter {
    SockFilter::new(0x30, 0, 0, at)
}

/// Loads the byte at this offset behind the index.
pub fn indexed_byte(at: u32) -> SockFilter {
    SockFilter::new(0x50, 0, 0, at)
}

/// Loads the two bytes at this offset behind the index.
pub fn indexed_half(at: u32) -> SockFilter {
    SockFilter::new(0x48, 0, 0, at)
}

/// Keeps these bits of what was loaded.
pub fn and(bits: u32) -> SockFilter {
    SockFilter::new(0x54, 0, 0, bits)
}

/// Skips so many instructions where what was loaded is `value`, and so many where it is not.
pub fn if_equal(value: u32, skip: u8, skip_if_not: u8) -> SockFilter {
    SockFilter::new(0x15, skip, skip_if_not, value)
}

/// Takes so many bytes of the packet; 0: none of it.
pub fn take(bytes: u32) -> SockFilter {
    SockFilter::new(0x06, 0, 0, bytes)
}
