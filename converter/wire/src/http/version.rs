//! The versions of HTTP.

/// What a client says first that speaks HTTP/2 without asking (RFC 9113 section 3.4), up to its empty line: read as HTTP/1.1,
/// a request of a version that is not spoken.
pub const HTTP2_HEAD: &[u8] = b"PRI * HTTP/2.0\r\n\r\n";

/// The versions that are spoken; every other one is refused with 505 (RFC 9110 section 15.6.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    Http11,
}
