//! The versions of HTTP.

/// The versions that are spoken; every other one is refused with 505 (RFC 9110 section 15.6.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    Http11,
}
