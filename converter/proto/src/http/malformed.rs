//! Field lines of a response that are none, as old servers send: they are left out, and the rest is read.

use super::grammar::{Reason, is_token, is_value_byte};

/// Malformed field lines that were left out. However many there are, and however long, they take little memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MalformedFields {
    pub count: usize,
    /// The beginning of the first one, without its end: at most [`MalformedFields::SHOWN`] bytes.
    pub first: Box<[u8]>,
}

impl MalformedFields {
    /// Bytes of the first line that are kept.
    pub const SHOWN: usize = 100;

    fn add(&mut self, line: &[u8]) {
        if self.count == 0 {
            self.first = line[..line.len().min(Self::SHOWN)].into();
        }
        self.count += 1;
    }

    /// Adds those of a later head.
    pub(crate) fn extend(&mut self, later: &Self) {
        if self.count == 0 {
            self.first.clone_from(&later.first);
        }
        self.count += later.count;
    }
}

/// What a line that frames the message, or ends its connection, has in its name, or where the name should be.
const FRAMES: [&[u8]; 5] = [
    b"contentlength",
    b"transferencoding",
    b"connection",
    b"upgrade",
    b"trailer",
];

/// Leaves malformed field lines out of `head`, which is whole and whose lines end with CRLF; those are returned as well. One that
/// may be meant to frame the message spoils it: another recipient may understand it (RFC 9112 section 11.1).
pub(crate) fn without_malformed_fields(head: &[u8]) -> Result<(Vec<u8>, MalformedFields), Reason> {
    let (mut repaired, mut malformed) = (Vec::new(), MalformedFields::default());
    for (number, line) in head.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let text = line.strip_suffix(b"\r\n").unwrap_or(line);
        if number == 0 || text.is_empty() || is_field(text) {
            repaired.extend_from_slice(line);
        } else if may_frame(text) {
            return Err("a malformed field line that may frame the message");
        } else {
            malformed.add(text);
        }
    }
    Ok((repaired, malformed))
}

/// RFC 9112 section 5, with the white space before the colon that a proxy removes from responses (section 5.1).
fn is_field(line: &[u8]) -> bool {
    let Some(colon) = line.iter().position(|byte| *byte == b':') else {
        return false;
    };
    is_token(line[..colon].trim_ascii_end()) && line[colon..].iter().copied().all(is_value_byte)
}

/// By the letters of its name alone, so that no other character hides it; of the whole line where it has no colon.
fn may_frame(line: &[u8]) -> bool {
    let name = line.split(|byte| *byte == b':').next().unwrap_or(line);
    let is_letter = |byte: &&u8| byte.is_ascii_alphabetic();
    let letters: Vec<u8> = name.iter().filter(is_letter).map(u8::to_ascii_lowercase).collect();
    let has = |word: &&[u8]| letters.windows(word.len()).any(|part| *part == **word);
    FRAMES.iter().any(has)
}
