//! The request (RFC 1928 sections 4 and 5).

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::{
    ADDRESS_IPV4, ADDRESS_IPV6, ADDRESS_NAME, COMMAND_CONNECT, Fault, FieldLength, VERSION,
    check_version, put_field, split_field,
};

/// The most bytes in a name.
pub const MAX_NAME: usize = 255;

/// Bytes before the address: version, command, reserved, address type.
const HEAD_LENGTH: usize = 4;

/// Where a client wants to be connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// An address.
    Address(SocketAddr),
    /// A host name: 1 to 255 ASCII letters, digits, `-`, `.` and `_`, never a number in disguise.
    Name {
        /// The name.
        name: String,
        /// The port.
        port: u16,
    },
}

/// A client's CONNECT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Where to.
    pub target: Target,
}

impl Request {
    /// Returns the message.
    pub fn encode(&self) -> Result<Vec<u8>, FieldLength> {
        let mut message = vec![VERSION, COMMAND_CONNECT, 0];
        match &self.target {
            Target::Address(address) => put_address(*address, &mut message),
            Target::Name { name, port } => {
                message.push(ADDRESS_NAME);
                put_field(name.as_bytes(), &mut message)?;
                message.extend(port.to_be_bytes());
            }
        }
        Ok(message)
    }
}

/// Parses a client's request. Returns it and its length in bytes; `None`: need more, in all at
/// most 262 bytes. A fault is told as soon as the byte that has it is there.
pub fn parse_request(bytes: &[u8]) -> Result<Option<(Request, usize)>, Fault> {
    check_version(bytes, VERSION)?;
    match bytes.get(1) {
        Some(&command) if command != COMMAND_CONNECT => return Err(Fault::Command(command)),
        _ => {}
    }
    let parsed = parse_target(bytes)?;
    Ok(parsed.map(|(target, length)| (Request { target }, length)))
}

/// Parses what requests and replies have in common: the target, and the message's length.
pub(super) fn parse_target(bytes: &[u8]) -> Result<Option<(Target, usize)>, Fault> {
    let Some((head, rest)) = bytes.split_first_chunk::<HEAD_LENGTH>() else {
        return Ok(None);
    };
    let target = match head[3] {
        ADDRESS_IPV4 => split_address::<4>(rest),
        ADDRESS_IPV6 => split_address::<16>(rest),
        ADDRESS_NAME => split_name(rest)?,
        other => return Err(Fault::AddressType(other)),
    };
    Ok(target.map(|(target, length)| (target, HEAD_LENGTH + length)))
}

fn split_address<const N: usize>(bytes: &[u8]) -> Option<(Target, usize)>
where
    IpAddr: From<[u8; N]>,
{
    let (&address, rest) = bytes.split_first_chunk::<N>()?;
    let port = u16::from_be_bytes(*rest.first_chunk()?);
    Some((
        Target::Address(SocketAddr::new(address.into(), port)),
        N + 2,
    ))
}

fn split_name(bytes: &[u8]) -> Result<Option<(Target, usize)>, Fault> {
    let Some((name, rest)) = split_field(bytes) else {
        return Ok(None);
    };
    if name.is_empty() || !name.iter().all(|&byte| in_host_name(byte)) {
        return Err(Fault::Name);
    }
    let name: String = name.iter().copied().map(char::from).collect();
    let address = address_in(&name)?;
    Ok(rest.first_chunk().map(|&port| {
        let port = u16::from_be_bytes(port);
        let target = match address {
            Some(address) => Target::Address(SocketAddr::new(address.into(), port)),
            None => Target::Name { name, port },
        };
        (target, bytes.len() - rest.len() + 2)
    }))
}

fn in_host_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_')
}

/// Returns the IPv4 address that a client sent as a name. Some resolvers take more than dotted
/// quads for addresses (`2130706433`, `0x7f.1`); such names are refused, so that there is one
/// reading of each. As in the WHATWG URL standard, the last label tells.
fn address_in(name: &str) -> Result<Option<Ipv4Addr>, Fault> {
    let labels = name.strip_suffix('.').unwrap_or(name);
    let number = match labels.rsplit('.').next().unwrap_or(labels).as_bytes() {
        [b'0', b'x' | b'X', digits @ ..] => digits.iter().all(u8::is_ascii_hexdigit),
        digits => !digits.is_empty() && digits.iter().all(u8::is_ascii_digit),
    };
    if number {
        name.parse().map(Some).map_err(|_| Fault::Name)
    } else {
        Ok(None)
    }
}

/// Appends address type, address and port.
pub(super) fn put_address(address: SocketAddr, out: &mut Vec<u8>) {
    match address.ip() {
        IpAddr::V4(v4) => {
            out.push(ADDRESS_IPV4);
            out.extend(v4.octets());
        }
        IpAddr::V6(v6) => {
            out.push(ADDRESS_IPV6);
            out.extend(v6.octets());
        }
    }
    out.extend(address.port().to_be_bytes());
}
