//! What a head looks like to a parser that shares nothing with the one under test.

use std::sync::LazyLock;

use tributary_proto::http::{Body, HeadLimits, Pseudonym};

/// HeadLimits within what the fuzzer tries.
pub static SMALL_LIMITS: LazyLock<HeadLimits> = LazyLock::new(|| HeadLimits {
    head: 1024,
    pseudonym: Pseudonym::new("tributary"),
    ..HeadLimits::default()
});

/// HeadLimits that no forwarded head reaches, at another proxy.
pub static WHOLE: LazyLock<HeadLimits> = LazyLock::new(|| HeadLimits {
    pseudonym: Pseudonym::new("other-proxy"),
    ..HeadLimits::default()
});

/// The field lines of one head, read in the most lenient way there is.
pub struct Head<'a>(Vec<(Vec<u8>, &'a [u8])>);

impl<'a> Head<'a> {
    /// Reads a head that the proxy made.
    ///
    /// # Panics
    /// When a line could be read in two ways, or the empty line is not the last.
    #[must_use]
    pub fn read(bytes: &'a [u8]) -> Self {
        let lines = bytes.strip_suffix(b"\r\n\r\n").expect("an empty line at the end");
        let mut lines = lines.split(|&byte| byte == b'\n').peekable();
        let mut fields = Vec::new();
        let mut first = true;
        while let Some(line) = lines.next() {
            let last = lines.peek().is_none();
            let line = if last {
                line
            } else {
                line.strip_suffix(b"\r").expect("no bare LF")
            };
            assert!(!line.is_empty(), "an empty line inside");
            assert!(!line.iter().any(|byte| b"\r\0".contains(byte)), "CR or NUL inside");
            if !first {
                fields.push(split_field(line));
            }
            first = false;
        }
        Self(fields)
    }

    /// How many fields have this name, which is in lower case.
    #[must_use]
    pub fn count(&self, name: &[u8]) -> usize {
        self.0.iter().filter(|(known, _)| known == name).count()
    }

    /// Returns what the framing fields of a request say.
    ///
    /// # Panics
    /// When they say more than one thing.
    #[must_use]
    pub fn body(&self) -> Body {
        let values = |name: &[u8]| {
            self.0
                .iter()
                .filter(|(known, _)| known == name)
                .map(|(_, value)| *value)
                .collect()
        };
        let lengths: Vec<&[u8]> = values(b"content-length");
        let codings: Vec<&[u8]> = values(b"transfer-encoding");
        match (&lengths[..], &codings[..]) {
            ([], []) => Body::None,
            ([], [b"chunked"]) => Body::Chunked,
            ([length], []) => {
                let digits = std::str::from_utf8(length).expect("digits");
                Body::Length(digits.parse().expect("digits"))
            }
            _ => panic!("lengths {lengths:?}, codings {codings:?}"),
        }
    }
}

/// Splits a line into a name, with `-` for `_` as gateways read it, and a value.
fn split_field(line: &[u8]) -> (Vec<u8>, &[u8]) {
    assert!(!line.starts_with(b" ") && !line.starts_with(b"\t"), "a folded line");
    let colon = line.iter().position(|&byte| byte == b':').expect("a colon");
    let name = line[..colon].to_ascii_lowercase();
    assert!(
        !name.is_empty() && !name.iter().any(u8::is_ascii_whitespace),
        "white space in a name"
    );
    let name = name
        .into_iter()
        .map(|byte| if byte == b'_' { b'-' } else { byte })
        .collect();
    (name, line[colon + 1..].trim_ascii())
}
