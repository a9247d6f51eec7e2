//! The words of HTTP: its characters, methods, versions and numbers.

/// Why a message cannot be understood: one sentence for the client and the log.
pub(crate) type Reason = &'static str;

/// A token's characters (RFC 9110 section 5.6.2).
const fn may_be_in_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~'
        )
}

/// Looked up, as names of fields are made of them.
static IN_TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        table[byte as usize] = may_be_in_token(byte);
        byte += 1;
    }
    table
};

pub(crate) fn is_token_byte(byte: u8) -> bool {
    IN_TOKEN[usize::from(byte)]
}

pub(crate) fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().copied().all(is_token_byte)
}

/// A field value's characters: visible, space, tab, obs-text (RFC 9110 section 5.5).
pub(crate) const fn is_value_byte(byte: u8) -> bool {
    matches!(byte, b'\t' | b' '..=b'~' | 0x80..)
}

/// Whether all are of this kind. Without an early end, for the compiler to look at many at a time.
pub(crate) fn all(bytes: &[u8], kind: impl Fn(u8) -> bool) -> bool {
    bytes.iter().fold(true, |all, byte| all & kind(*byte))
}

/// A method (RFC 9110 section 9), case-sensitive; one that is not listed is forwarded as it came.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    Connect,
    Delete,
    Get,
    Head,
    Options,
    Patch,
    Post,
    Put,
    Trace,
    /// Any other token.
    Other(Box<str>),
}

impl Method {
    /// `None` if it is no token.
    pub(crate) fn from_token(token: &[u8]) -> Option<Self> {
        Some(match token {
            b"CONNECT" => Self::Connect,
            b"DELETE" => Self::Delete,
            b"GET" => Self::Get,
            b"HEAD" => Self::Head,
            b"OPTIONS" => Self::Options,
            b"PATCH" => Self::Patch,
            b"POST" => Self::Post,
            b"PUT" => Self::Put,
            b"TRACE" => Self::Trace,
            other if is_token(other) => Self::Other(String::from_utf8_lossy(other).into()),
            _ => return None,
        })
    }

    /// Whether to ask twice has the effect of asking once (RFC 9110 section 9.2.2).
    pub const fn is_idempotent(&self) -> bool {
        matches!(
            self,
            Self::Get | Self::Head | Self::Options | Self::Trace | Self::Put | Self::Delete
        )
    }

    pub fn as_str(&self) -> &str {
        match self {
            Self::Connect => "CONNECT",
            Self::Delete => "DELETE",
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Options => "OPTIONS",
            Self::Patch => "PATCH",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Trace => "TRACE",
            Self::Other(name) => name,
        }
    }
}

/// What a client says first that speaks HTTP/2 without asking (RFC 9113 section 3.4), up to its empty line: read as HTTP/1.1,
/// a request of a version that is not spoken.
pub const HTTP2_HEAD: &[u8] = b"PRI * HTTP/2.0\r\n\r\n";

/// The versions that are spoken; every other one is refused with 505 (RFC 9110 section 15.6.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    Http10,
    Http11,
}

/// The number of these digits; `None` if there are none, or other characters, or more than 19.
pub(crate) fn parse_decimal(digits: &[u8]) -> Option<u64> {
    if !(1..=19).contains(&digits.len()) {
        return None;
    }
    digits.iter().try_fold(0, |number, digit| {
        let digit = digit.is_ascii_digit().then(|| digit - b'0')?;
        Some(number * 10 + u64::from(digit))
    })
}

/// Appends `number` in decimal: without `fmt`, which costs as much as the rest of a head.
pub(crate) fn write_decimal(number: impl itoa::Integer, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}
