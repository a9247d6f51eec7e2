//! What follows a head, and how much of it has gone by.

use std::ops::Range;

use super::Version;
use super::chunked::{BadChunk, Chunked};
use super::fields::{FieldKind, Fields, list};
use super::grammar::{Reason, parse_decimal, write_decimal};

/// The content of a message (RFC 9112 section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    None,
    /// That many bytes, perhaps 0.
    Length(u64),
    /// Chunks up to a last one and its trailer section.
    Chunked,
    /// Everything until the connection closes; responses only.
    UntilClose,
}

impl Body {
    pub fn has_content(self) -> bool {
        !matches!(self, Self::None | Self::Length(0))
    }
}

/// Follows a body through the bytes that come in, cut anywhere, without copying them.
#[derive(Clone, Debug)]
pub struct BodyReader(Progress);

#[derive(Clone, Debug)]
enum Progress {
    Left(u64),
    Chunked(Chunked),
    UntilClose,
}

impl BodyReader {
    /// A reader at the first byte after the head.
    pub fn new(body: Body) -> Self {
        Self(match body {
            Body::None => Progress::Left(0),
            Body::Length(length) => Progress::Left(length),
            Body::Chunked => Progress::Chunked(Chunked::new()),
            Body::UntilClose => Progress::UntilClose,
        })
    }

    /// Whether the body is complete; what follows belongs to the next message. At the end of the connection a body
    /// that has not ended is cut short, unless it is [`Body::UntilClose`].
    pub fn has_ended(&self) -> bool {
        match &self.0 {
            Progress::Left(left) => *left == 0,
            Progress::Chunked(chunked) => chunked.has_ended(),
            Progress::UntilClose => false,
        }
    }

    /// Whether the end of the connection is the end of the body.
    pub fn ends_with_the_connection(&self) -> bool {
        matches!(self.0, Progress::UntilClose)
    }

    /// How many bytes of it are known to be still to come, at least.
    pub fn owes(&self) -> u64 {
        match &self.0 {
            Progress::Left(left) => *left,
            Progress::Chunked(chunked) => chunked.owes(),
            Progress::UntilClose => u64::MAX,
        }
    }

    /// Takes one stretch of content and the framing before it; call again with the rest while bytes are left and the
    /// body has not ended.
    pub fn step(&mut self, bytes: &[u8]) -> Result<Step, BadChunk> {
        match &mut self.0 {
            Progress::Left(left) => {
                let used = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= used as u64;
                Ok(Step {
                    used,
                    data: 0..used,
                    ended: *left == 0,
                })
            }
            Progress::Chunked(chunked) => chunked.step(bytes),
            Progress::UntilClose => Ok(Step {
                used: bytes.len(),
                data: 0..bytes.len(),
                ended: false,
            }),
        }
    }

    /// Takes all that belongs to the body: how many bytes, to be relayed as they are. An error spoils all of `bytes`.
    pub fn advance(&mut self, bytes: &[u8]) -> Result<usize, BadChunk> {
        let mut used = 0;
        while used < bytes.len() && !self.has_ended() {
            used += self.step(&bytes[used..])?.used;
        }
        Ok(used)
    }
}

/// What a body took of the bytes it was shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Bytes that belong to the body, framing included: what a relay passes on as it is.
    pub used: usize,
    /// Where in them the content lies: what a client that knows no chunks gets.
    pub data: Range<usize>,
    /// The body ends after `used`.
    pub ended: bool,
}

/// How long a message says it is (RFC 9112 section 6), before method and status have their say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Declared {
    Nothing,
    Length(u64),
    Chunked,
}

const LONGEST_LENGTH: u64 = i64::MAX as u64; // parsers that keep it signed must read the same

/// The framing of a request: nothing that RFC 9112 lets a recipient repair is repaired.
pub(super) fn framing_of_request(fields: &Fields<'_>, version: Version) -> Result<Declared, Reason> {
    let length = fields.single(FieldKind::ContentLength, "more than one Content-Length")?;
    let declared = declared(fields, version, length.map(parse_length).transpose()?)?;
    match length {
        Some([b'0', _, ..]) => Err("malformed Content-Length"), // some read a leading zero as octal
        _ => Ok(declared),
    }
}

/// The framing of a response: identical lengths are unified (RFC 9112 section 6.3, item 5).
pub(super) fn framing_of_response(fields: &Fields<'_>, version: Version) -> Result<Declared, Reason> {
    let mut length = None;
    for value in fields.all(FieldKind::ContentLength) {
        let mut lengths = list(value).peekable();
        lengths.peek().ok_or("malformed Content-Length")?;
        for text in lengths {
            let this = parse_length(text)?;
            if length.replace(this).is_some_and(|other| other != this) {
                return Err("Content-Lengths that differ");
            }
        }
    }
    // RFC 2616 section 3.6 had `identity` for no coding at all, and servers still send it: the end is the connection's.
    let mut codings = fields.all(FieldKind::TransferEncoding);
    match (codings.next(), codings.next(), length) {
        (Some(coding), None, None) if coding.eq_ignore_ascii_case(b"identity") => Ok(Declared::Nothing),
        _ => declared(fields, version, length),
    }
}

fn declared(fields: &Fields<'_>, version: Version, length: Option<u64>) -> Result<Declared, Reason> {
    let encoding = fields.single(FieldKind::TransferEncoding, "more than one Transfer-Encoding")?;
    match (encoding, length) {
        (Some(_), Some(_)) => Err("both Transfer-Encoding and Content-Length"), // RFC 9112 section 6.3, item 3
        (Some(_), _) if version == Version::Http10 => Err("Transfer-Encoding in HTTP/1.0"), // RFC 9112 section 6.1
        (Some(coding), None) if coding.eq_ignore_ascii_case(b"chunked") => Ok(Declared::Chunked),
        (Some(_), None) => Err("a Transfer-Encoding other than chunked"),
        (None, Some(length)) => Ok(Declared::Length(length)),
        (None, None) => Ok(Declared::Nothing),
    }
}

fn parse_length(text: &[u8]) -> Result<u64, Reason> {
    let length = parse_decimal(text).filter(|length| *length <= LONGEST_LENGTH);
    length.ok_or("malformed Content-Length")
}

/// Writes the one framing field that a message has, if any.
pub(super) fn write_framing(declared: Declared, out: &mut Vec<u8>) {
    match declared {
        Declared::Nothing => {}
        Declared::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        Declared::Length(length) => {
            out.extend_from_slice(b"Content-Length: ");
            write_decimal(length, out);
            out.extend_from_slice(b"\r\n");
        }
    }
}
