//! Where a request goes: a host in one unmistakable form, and a port.

use std::fmt;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::Reason;

/// A host. An address is an address only in its canonical spelling, so that every resolver reads it alike.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// A dotted quad.
    V4(Ipv4Addr),
    /// An address that stood in brackets, without a zone. It may embed an IPv4 address: policy must look inside.
    V6(Ipv6Addr),
    /// A host name in lower case, perhaps with a trailing dot, of at most 254 bytes; never a number in disguise.
    Name(Box<str>),
}

/// A host and a port from 1 to 65535.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Authority {
    /// The host.
    pub host: Host,
    /// The port, never 0.
    pub port: u16,
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

    fn parse(text: &str) -> Result<Self, Reason> {
        if let Some(inside) = text.strip_prefix('[') {
            // RFC 9110 section 4.2 has no zones (RFC 6874 was never taken up by HTTP); `from_str` refuses them.
            let address = inside
                .strip_suffix(']')
                .and_then(|inside| inside.parse().ok());
            return address
                .map(Self::V6)
                .ok_or("malformed IPv6 address in the authority");
        }
        if ends_in_a_number(text) {
            return text
                .parse()
                .map(Self::V4)
                .map_err(|_| "malformed IPv4 address in the authority");
        }
        if !is_name(text) {
            return Err("malformed host name");
        }
        Ok(Self::Name(text.to_ascii_lowercase().into_boxed_str()))
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

impl Authority {
    /// Reads `host[:port]`. Without a port, or with an empty one, `default_port` counts (RFC 9110 section 4.2.1).
    pub(crate) fn parse(text: &str, default_port: Option<u16>) -> Result<Self, Reason> {
        if text.contains('@') {
            return Err("user information in the authority"); // RFC 9110 section 4.2.4
        }
        let (host, port) = split_port(text);
        let host = Host::parse(host)?;
        let port = match port {
            None | Some("") => default_port.ok_or("no port in the authority")?,
            Some(digits) => parse_port(digits)?,
        };
        Ok(Self { host, port })
    }

    /// Writes the value of Host: the port is left out when it is that of `http`.
    pub(crate) fn write_host(&self, out: &mut Vec<u8>) {
        match &self.host {
            Host::Name(name) => out.extend_from_slice(name.as_bytes()),
            address => {
                let _ = write!(out, "{address}"); // a Vec takes everything
            }
        }
        if self.port != HTTP_PORT {
            let _ = write!(out, ":{}", self.port);
        }
    }
}

/// The default port of `http` (RFC 9110 section 4.2.1).
pub(crate) const HTTP_PORT: u16 = 80;

fn split_port(text: &str) -> (&str, Option<&str>) {
    let after_address = if text.starts_with('[') {
        text.find(']').unwrap_or(0)
    } else {
        0
    };
    match text[after_address..].find(':') {
        Some(at) => (
            &text[..after_address + at],
            Some(&text[after_address + at + 1..]),
        ),
        None => (text, None),
    }
}

fn parse_port(digits: &str) -> Result<u16, Reason> {
    if digits.starts_with('0') || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("malformed port");
    }
    digits.parse().map_err(|_| "port out of range")
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

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}
