//! This proxy on the way of a message: Via, and how a loop shows in it (RFC 9110 section 7.6.3). Only with a name to put into
//! it: servers take Via for a sign of an old proxy, and send what they would have compressed without it as it is (nginx does
//! by its `gzip_proxied`).

use super::Version;
use super::grammar::is_token;

/// The `received-by` of our Via entries: a token. Two converters in one chain need different ones, or the second takes
/// the first for itself and refuses with 508.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pseudonym(Box<str>);

impl Pseudonym {
    /// `None` unless `name` is a token (RFC 9110 section 5.6.2).
    pub fn new(name: &str) -> Option<Self> {
        is_token(name.as_bytes()).then(|| Self(name.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Writes our own entry, as the last: `version` is that of the message as we received it.
    pub(crate) fn write(&self, version: Version, out: &mut Vec<u8>) {
        out.extend_from_slice(match version {
            Version::Http10 => b"Via: 1.0 ",
            Version::Http11 => b"Via: 1.1 ",
        });
        out.extend_from_slice(self.0.as_bytes());
        out.extend_from_slice(b"\r\n");
    }

    /// Whether a Via field value names us as one of its recipients.
    pub(crate) fn is_in(&self, value: &[u8]) -> bool {
        without_comments(value).split(|byte| *byte == b',').any(|entry| {
            let mut words = entry.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
            words
                .nth(1)
                .is_some_and(|received_by| received_by.eq_ignore_ascii_case(self.0.as_bytes()))
        })
    }
}

/// A comment may hold commas; it nests and escapes (RFC 9110 section 5.6.5).
fn without_comments(value: &[u8]) -> Vec<u8> {
    let mut kept = Vec::with_capacity(value.len());
    let (mut depth, mut escaped) = (0_usize, false);
    for &byte in value {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if depth > 0 => escaped = true,
            b'(' => depth += 1,
            b')' if depth > 0 => depth -= 1,
            _ if depth == 0 => kept.push(byte),
            _ => {}
        }
    }
    kept
}
