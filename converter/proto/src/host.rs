//! A host as clients name it, in one unmistakable form: an address in its canonical spelling, or a name that no resolver
//! takes for an address. HTTP's authorities and SOCKS5's requests hold to the same rules.

use std::convert::Infallible;
use std::fmt;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use memchr::memchr;

use crate::http::grammar::{Reason, write_decimal};

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
            Self::V4(address) => write_quad(*address, |part| f.write_str(part)),
            Self::V6(address) => write!(f, "[{address}]"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

/// A host and a port from 1 to 65535.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Authority {
    /// The host.
    pub host: Host,
    /// The port, never 0.
    pub port: u16,
}

/// A host as it stands in an authority: an IPv6 address in brackets.
fn parse_host(text: &str) -> Result<Host, Reason> {
    let Some(inside) = text.strip_prefix('[') else {
        return Host::from_name(text).map_err(|error| match error {
            HostError::Address => "malformed IPv4 address in the authority",
            HostError::Name => "malformed host name",
        });
    };
    // RFC 9110 section 4.2 has no zones (RFC 6874 was never taken up by HTTP); `from_str` refuses them.
    let address = inside
        .strip_suffix(']')
        .and_then(|inside| inside.parse().ok());
    address
        .map(Host::V6)
        .ok_or("malformed IPv6 address in the authority")
}

impl From<SocketAddr> for Authority {
    fn from(address: SocketAddr) -> Self {
        Self {
            host: address.ip().into(),
            port: address.port(),
        }
    }
}

impl Authority {
    /// The address and port, when the host is an address.
    pub fn address(&self) -> Option<SocketAddr> {
        Some(SocketAddr::new(self.host.address()?, self.port))
    }

    /// Reads `host[:port]`. Without a port, or with an empty one, `default_port` counts (RFC 9110 section 4.2.1).
    pub(crate) fn parse(text: &[u8], default_port: Option<u16>) -> Result<Self, Reason> {
        let text = std::str::from_utf8(text).map_err(|_| "malformed host name")?;
        if memchr(b'@', text.as_bytes()).is_some() {
            return Err("user information in the authority"); // RFC 9110 section 4.2.4
        }
        let (host, port) = split_port(text);
        let host = parse_host(host)?;
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
            Host::V4(four) => {
                let Ok(()) = write_quad(*four, |part| {
                    out.extend_from_slice(part.as_bytes());
                    Ok::<(), Infallible>(())
                });
            }
            Host::V6(_) => {
                let _ = write!(out, "{}", self.host); // a Vec takes everything
            }
        }
        if self.port != HTTP_PORT {
            out.push(b':');
            write_decimal(self.port, out);
        }
    }
}

/// As the standard library writes it, which takes four times as long.
fn write_quad<E>(address: Ipv4Addr, mut write: impl FnMut(&str) -> Result<(), E>) -> Result<(), E> {
    for (number, octet) in address.octets().into_iter().enumerate() {
        if number > 0 {
            write(".")?;
        }
        write(itoa::Buffer::new().format(octet))?;
    }
    Ok(())
}

/// The default port of `http` (RFC 9110 section 4.2.1).
pub(crate) const HTTP_PORT: u16 = 80;

fn split_port(text: &str) -> (&str, Option<&str>) {
    let after_address = if text.starts_with('[') {
        memchr(b']', text.as_bytes()).unwrap_or(0)
    } else {
        0
    };
    match memchr(b':', &text.as_bytes()[after_address..]) {
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

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.host.fmt(f)?;
        f.write_str(":")?;
        f.write_str(itoa::Buffer::new().format(self.port))
    }
}
