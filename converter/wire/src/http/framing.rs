//! How long a message says it is (RFC 9112 section 6), before method and status have their say.

use super::Version;
use super::decimal;
use super::fields::{FieldKind, Fields, list};
use super::grammar::Reason;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Declared {
    Nothing,
    Length(u64),
    Chunked,
}

const LONGEST_LENGTH: u64 = i64::MAX as u64; // parsers that keep it signed must read the same
const MOST_DIGITS: usize = 19;

/// The framing of a request: nothing that RFC 9112 lets a recipient repair is repaired.
pub(crate) fn of_request(fields: &Fields, version: Version) -> Result<Declared, Reason> {
    let length = fields.single(FieldKind::ContentLength, "more than one Content-Length")?;
    let declared = declared(fields, version, length.map(parse_length).transpose()?)?;
    match length {
        Some([b'0', _, ..]) => Err("malformed Content-Length"), // some read a leading zero as octal
        _ => Ok(declared),
    }
}

/// The framing of a response: identical lengths are unified (RFC 9112 section 6.3, item 5).
pub(crate) fn of_response(fields: &Fields, version: Version) -> Result<Declared, Reason> {
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
        (Some(coding), None, None) if coding.eq_ignore_ascii_case(b"identity") => {
            Ok(Declared::Nothing)
        }
        _ => declared(fields, version, length),
    }
}

fn declared(fields: &Fields, version: Version, length: Option<u64>) -> Result<Declared, Reason> {
    let encoding = fields.single(
        FieldKind::TransferEncoding,
        "more than one Transfer-Encoding",
    )?;
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
    const MALFORMED: Reason = "malformed Content-Length";
    if !(1..=MOST_DIGITS).contains(&text.len()) || !text.iter().all(u8::is_ascii_digit) {
        return Err(MALFORMED);
    }
    let length = text
        .iter()
        .fold(0, |length, digit| length * 10 + u64::from(digit - b'0'));
    if length <= LONGEST_LENGTH {
        Ok(length)
    } else {
        Err(MALFORMED)
    }
}

/// Writes the one framing field that a message has, if any.
pub(crate) fn write(declared: Declared, out: &mut Vec<u8>) {
    match declared {
        Declared::Nothing => {}
        Declared::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        Declared::Length(length) => {
            out.extend_from_slice(b"Content-Length: ");
            decimal::write(length, out);
            out.extend_from_slice(b"\r\n");
        }
    }
}
