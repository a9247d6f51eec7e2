//! Where a request goes: a host in one unmistakable form, and a port.

use std::fmt;
use std::io::Write as _;

use super::grammar::Reason;
use crate::host::{Host, HostError};

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

impl Authority {
    /// Reads `host[:port]`. Without a port, or with an empty one, `default_port` counts (RFC 9110 section 4.2.1).
    pub(crate) fn parse(text: &str, default_port: Option<u16>) -> Result<Self, Reason> {
        if text.contains('@') {
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

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}
