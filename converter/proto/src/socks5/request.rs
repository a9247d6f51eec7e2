//! The request (RFC 1928 sections 4 and 5).

use std::net::{IpAddr, Ipv6Addr};

use super::grammar::{
    ADDRESS_IPV4, ADDRESS_IPV6, ADDRESS_NAME, COMMAND_CONNECT, FieldLength, ProtocolError, VERSION, check_version,
    put_field, split_field,
};
use crate::host::Host;

/// Bytes before the address: version, command, reserved, address type.
const HEAD_LENGTH: usize = 4;

/// A client's CONNECT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Where to.
    pub host: Host,
    /// The port.
    pub port: u16,
}

impl Request {
    /// Returns the message.
    pub fn encode(&self) -> Result<Vec<u8>, FieldLength> {
        let mut message = vec![VERSION, COMMAND_CONNECT, 0];
        match &self.host {
            Host::V4(four) => put_address((*four).into(), &mut message),
            Host::V6(six) => put_address((*six).into(), &mut message),
            Host::Name(name) => {
                message.push(ADDRESS_NAME);
                put_field(name.as_bytes(), &mut message)?;
            }
        }
        message.extend(self.port.to_be_bytes());
        Ok(message)
    }
}

/// Parses a client's request. Returns it and its length in bytes; `None`: need more, in all at
/// most 262 bytes. A fault is told as soon as the byte that has it is there.
pub fn parse_request(bytes: &[u8]) -> Result<Option<(Request, usize)>, ProtocolError> {
    check_version(bytes, VERSION)?;
    match bytes.get(1) {
        Some(&command) if command != COMMAND_CONNECT => {
            return Err(ProtocolError::Command(command));
        }
        _ => {}
    }
    let Some((head, rest)) = bytes.split_first_chunk::<HEAD_LENGTH>() else {
        return Ok(None);
    };
    let found = match head[3] {
        ADDRESS_IPV4 => split_address::<4>(rest),
        ADDRESS_IPV6 => split_address::<16>(rest),
        ADDRESS_NAME => split_name(rest)?,
        other => return Err(ProtocolError::AddressType(other)),
    };
    Ok(found.and_then(|(host, rest)| {
        let port = u16::from_be_bytes(*rest.first_chunk()?);
        let length = bytes.len() - rest.len() + 2;
        Some((Request { host, port }, length))
    }))
}

fn split_address<const N: usize>(bytes: &[u8]) -> Option<(Host, &[u8])>
where
    IpAddr: From<[u8; N]>,
{
    let (&address, rest) = bytes.split_first_chunk::<N>()?;
    Some((IpAddr::from(address).into(), rest))
}

/// A name, or the address that some clients send as one: IPv6 also in brackets, as in a URI (RFC 3986 section 3.2.2).
fn split_name(bytes: &[u8]) -> Result<Option<(Host, &[u8])>, ProtocolError> {
    let Some((name, rest)) = split_field(bytes) else {
        return Ok(None);
    };
    let name = std::str::from_utf8(name).map_err(|_| ProtocolError::Name)?;
    let bracketed = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let six = bracketed.unwrap_or(name).parse::<Ipv6Addr>();
    let host = six.map(Host::V6).or_else(|_| Host::from_name(name));
    Ok(Some((host.map_err(|_| ProtocolError::Name)?, rest)))
}

/// Appends address type and address.
pub(super) fn put_address(address: IpAddr, out: &mut Vec<u8>) {
    match address {
        IpAddr::V4(v4) => {
            out.push(ADDRESS_IPV4);
            out.extend(v4.octets());
        }
        IpAddr::V6(v6) => {
            out.push(ADDRESS_IPV6);
            out.extend(v6.octets());
        }
    }
}
