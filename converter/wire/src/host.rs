//! A host as clients name it, in one unmistakable form: an address in its canonical spelling, or a name that no resolver
//! takes for an address. HTTP's authorities and SOCKS5's requests hold to the same rules.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A host. An address is an address only in its canonical spelling, so that every resolver reads it alike.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// A dotted quad.
    V4(Ipv4Addr),
    /// Without a zone. It may embed an IPv4 address: policy must look inside.
    V6(Ipv6Addr),
    /// A host name in lower case, perhaps with a trailing dot, of at most 254 bytes; never a number in disguise.
    Name(Box<str>),
}

/// Why a text is no host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostError {
    /// It ends in a number and is no dotted quad.
    Address,
    /// It has other characters than names have, or a label that is empty or too long.
    Name,
}

const LONGEST_NAME: usize = 253; // RFC 1035 section 2.3.4, in text form and without the root's dot
const LONGEST_LABEL: usize = 63;

impl Host {
    /// The address, when the host is one.
    pub fn address(&self) -> Option<IpAddr> {
        match self {
            Self::V4(address) => Some((*address).into()),
            Self::V6(address) => Some((*address).into()),
            Self::Name(_) => None,
        }
    }

    /// Reads a name, or a dotted quad.
    pub fn from_name(text: &str) -> Result<Self, HostError> {
        if ends_in_a_number(text) {
            return text.parse().map(Self::V4).map_err(|_| HostError::Address);
        }
        if !is_name(text) {
            return Err(HostError::Name);
        }
        Ok(Self::Name(text.to_ascii_lowercase().into_boxed_str()))
    }
}

impl From<IpAddr> for Host {
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(four) => Self::V4(four),
            IpAddr::V6(six) => Self::V6(six),
        }
    }
}

/// Whether some resolvers would take the name for an IPv4 address: its last label is decimal, octal or hexadecimal
/// (WHATWG URL, "ends in a number"). Of these, only the canonical dotted quad is accepted.
fn ends_in_a_number(text: &str) -> bool {
    let text = text.strip_suffix('.').unwrap_or(text);
    let last = text.rsplit('.').next().unwrap_or(text).as_bytes();
    match last {
        [b'0', b'x' | b'X', hex @ ..] => hex.iter().all(u8::is_ascii_hexdigit),
        digits => !digits.is_empty() && digits.iter().all(u8::is_ascii_digit),
    }
}

/// Letters, digits, hyphens inside labels (RFC 1123 section 2.1), and the underscore, which occurs in practice.
fn is_name(text: &str) -> bool {
    let text = text.strip_suffix('.').unwrap_or(text);
    text.len() <= LONGEST_NAME && text.split('.').all(|label| is_label(label.as_bytes()))
}

fn is_label(label: &[u8]) -> bool {
    let known = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=LONGEST_LABEL).contains(&label.len())
        && label.iter().all(known)
        && label.first() != Some(&b'-')
        && label.last() != Some(&b'-')
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::V4(address) => address.fmt(f),
            Self::V6(address) => write!(f, "[{address}]"),
            Self::Name(name) => f.write_str(name),
        }
    }
}
