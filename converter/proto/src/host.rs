//! A host as clients name it, in one unmistakable form: an address in its canonical spelling, or a name that no resolver
//! takes for an address. HTTP's authorities and SOCKS5's requests hold to the same rules.

use std::fmt;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use memchr::memchr;

use crate::http::grammar::{Reason, parse_decimal, write_decimal};

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
    pub fn address(&self) -> Option<IpAddr> {
        match self {
            Self::V4(address) => Some((*address).into()),
            Self::V6(address) => Some((*address).into()),
            Self::Name(_) => None,
        }
    }

    /// Reads a name, or a dotted quad.
    pub fn from_name(text: &str) -> Result<Self, HostError> {
        Self::from_bytes(text.as_bytes())
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Name(name) => out.extend_from_slice(name.as_bytes()),
            Self::V4(four) => write_quad(*four, out),
            Self::V6(_) => {
                let _ = write!(out, "{self}"); // a Vec takes everything
            }
        }
    }

    fn from_bytes(text: &[u8]) -> Result<Self, HostError> {
        if ends_in_a_number(text) {
            return parse_quad(text).map(Self::V4).ok_or(HostError::Address);
        }
        if !is_name(text) {
            return Err(HostError::Name);
        }
        let name = String::from_utf8(text.to_ascii_lowercase());
        let name = name.map_err(|_| HostError::Name)?;
        Ok(Self::Name(name.into_boxed_str()))
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

/// An address as IPv6, IPv4 as IPv4-mapped.
pub(crate) fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(four) => four.to_ipv6_mapped(),
        IpAddr::V6(six) => six,
    }
}

/// Whether some resolvers would take the name for an IPv4 address: its last label is decimal, octal or hexadecimal
/// (WHATWG URL, "ends in a number"). Of these, only the canonical dotted quad is accepted.
fn ends_in_a_number(text: &[u8]) -> bool {
    match labels(text).next_back() {
        Some([b'0', b'x' | b'X', hex @ ..]) => hex.iter().all(u8::is_ascii_hexdigit),
        Some(digits) => !digits.is_empty() && digits.iter().all(u8::is_ascii_digit),
        None => false,
    }
}

/// What stands between dots; the last dot ends a name that is complete.
fn labels(text: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    let text = text.strip_suffix(b".").unwrap_or(text);
    text.split(|byte| *byte == b'.')
}

/// As the standard library reads it, which takes twice as long.
fn parse_quad(text: &[u8]) -> Option<Ipv4Addr> {
    let mut octets = [0; 4];
    let mut parts = text.split(|byte| *byte == b'.');
    for octet in &mut octets {
        let digits = parts.next()?;
        let is_canonical = digits == b"0" || !digits.starts_with(b"0");
        *octet = parse_decimal(digits).filter(|_| is_canonical)?.try_into().ok()?;
    }
    parts.next().is_none().then(|| octets.into())
}

/// Letters, digits, hyphens inside labels (RFC 1123 section 2.1), and the underscore, which occurs in practice.
fn is_name(text: &[u8]) -> bool {
    let length = text.strip_suffix(b".").unwrap_or(text).len();
    length <= LONGEST_NAME && labels(text).all(is_label)
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
            Self::V4(address) => write!(f, "{address}"),
            Self::V6(address) => write!(f, "[{address}]"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

/// A host and a port from 1 to 65535.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Authority {
    pub host: Host,
    pub port: u16,
}

/// A host as it stands in an authority: an IPv6 address in brackets.
fn parse_host(text: &[u8]) -> Result<Host, Reason> {
    let [b'[', inside @ ..] = text else {
        return Host::from_bytes(text).map_err(|error| match error {
            HostError::Address => "malformed IPv4 address in the authority",
            HostError::Name => "malformed host name",
        });
    };
    // RFC 9110 section 4.2 has no zones (RFC 6874 was never taken up by HTTP); `from_str` refuses them.
    let address = inside
        .strip_suffix(b"]")
        .and_then(|inside| std::str::from_utf8(inside).ok()?.parse().ok());
    address.map(Host::V6).ok_or("malformed IPv6 address in the authority")
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
    pub fn address(&self) -> Option<SocketAddr> {
        Some(SocketAddr::new(self.host.address()?, self.port))
    }

    /// Reads `host[:port]`. Without a port, or with an empty one, `default_port` counts (RFC 9110 section 4.2.1).
    pub(crate) fn parse(text: &[u8], default_port: Option<u16>) -> Result<Self, Reason> {
        Self::parse_parts(text, default_port).map_err(|reason| match memchr(b'@', text) {
            Some(_) => "user information in the authority", // RFC 9110 section 4.2.4
            None => reason,
        })
    }

    fn parse_parts(text: &[u8], default_port: Option<u16>) -> Result<Self, Reason> {
        let (host, port) = split_port(text);
        let host = parse_host(host)?;
        let port = match port {
            None | Some([]) => default_port.ok_or("no port in the authority")?,
            Some(digits) => parse_port(digits)?,
        };
        Ok(Self { host, port })
    }

    /// Writes the value of Host: the port is left out when it is that of `http`.
    pub(crate) fn write_host(&self, out: &mut Vec<u8>) {
        self.host.write(out);
        if self.port != HTTP_PORT {
            out.push(b':');
            write_decimal(self.port, out);
        }
    }

    /// `host:port`, as it is displayed, in less time.
    pub fn text(&self) -> String {
        let mut text = Vec::with_capacity(SHORT);
        self.host.write(&mut text);
        text.push(b':');
        write_decimal(self.port, &mut text);
        String::from_utf8(text).unwrap_or_default() // it is ASCII
    }
}

/// Bytes of any IPv4 address with its port.
const SHORT: usize = "255.255.255.255:65535".len();

/// As the standard library writes it, which takes four times as long.
fn write_quad(address: Ipv4Addr, out: &mut Vec<u8>) {
    for (number, octet) in address.octets().into_iter().enumerate() {
        if number > 0 {
            out.push(b'.');
        }
        if octet >= 100 {
            out.push(b'0' + octet / 100);
        }
        if octet >= 10 {
            out.push(b'0' + octet / 10 % 10);
        }
        out.push(b'0' + octet % 10);
    }
}

/// The default port of `http` (RFC 9110 section 4.2.1).
pub(crate) const HTTP_PORT: u16 = 80;

fn split_port(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    let after_address = match text {
        [b'[', ..] => memchr(b']', text).unwrap_or(0),
        _ => 0,
    };
    let colon = text[after_address..].iter().position(|byte| *byte == b':');
    match colon.map(|at| text.split_at(after_address + at)) {
        Some((host, port)) => (host, Some(&port[1..])),
        None => (text, None),
    }
}

fn parse_port(digits: &[u8]) -> Result<u16, Reason> {
    if digits.starts_with(b"0") || !digits.iter().all(u8::is_ascii_digit) {
        return Err("malformed port");
    }
    let port = parse_decimal(digits).and_then(|port| port.try_into().ok());
    port.ok_or("port out of range")
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.host.fmt(f)?;
        f.write_str(":")?;
        f.write_str(itoa::Buffer::new().format(self.port))
    }
}
