//! Version 2 of the PROXY protocol: who the client is, told to a server that sees only the
//! converter (haproxy.org, `doc/proxy-protocol.txt`, section 2.2).

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Bytes in the fixed part: signature, version and command, family and protocol, length.
pub const FIXED_LENGTH: usize = 16;

/// The most bytes that [`Header::encode`] makes: the fixed part and two IPv6 addresses with ports.
pub const MAX_ENCODED_LENGTH: usize = FIXED_LENGTH + INET6_LENGTH;

const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
const VERSION: u8 = 2;
const COMMAND_LOCAL: u8 = 0;
const COMMAND_PROXY: u8 = 1;
const TCP_OVER_IPV4: u8 = 0x11;
const TCP_OVER_IPV6: u8 = 0x21;
const UNSPECIFIED: u8 = 0x00;
const INET_LENGTH: usize = 12;
const INET6_LENGTH: usize = 36;

/// What goes before a connection's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// The sender's own connection, such as a health check.
    Local,
    /// A connection passed on for a client.
    Proxy {
        /// The client.
        source: SocketAddr,
        /// Where the client connected to.
        destination: SocketAddr,
    },
    /// A connection passed on whose addresses are of another family or protocol, given as the
    /// byte that says so (0: unspecified). A receiver goes by the connection's own addresses.
    Other(u8),
}

/// Why bytes are no header of version 2. The connection must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// They do not begin with the signature.
    Signature,
    /// The version is another.
    Version(u8),
    /// The command is neither LOCAL nor PROXY.
    Command(u8),
    /// The length, in bytes, is too small for the addresses.
    Length(u16),
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signature => write!(f, "no PROXY protocol signature"),
            Self::Version(version) => write!(f, "PROXY protocol version {version}"),
            Self::Command(command) => write!(f, "PROXY protocol command {command}"),
            Self::Length(length) => write!(f, "PROXY protocol addresses in {length} bytes"),
        }
    }
}

impl std::error::Error for HeaderError {}

impl Header {
    /// Returns the header. When one address of a PROXY header is IPv6, an IPv4 one beside it
    /// becomes IPv4-mapped, since both have one family.
    pub fn encode(&self) -> Vec<u8> {
        match *self {
            Self::Local => fixed(COMMAND_LOCAL, UNSPECIFIED, 0),
            Self::Other(family) => fixed(COMMAND_PROXY, family, 0),
            Self::Proxy {
                source,
                destination,
            } => encode_proxy(source, destination),
        }
    }
}

fn encode_proxy(source: SocketAddr, destination: SocketAddr) -> Vec<u8> {
    let mut header = match (source.ip(), destination.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let mut header = fixed(COMMAND_PROXY, TCP_OVER_IPV4, INET_LENGTH);
            header.extend(source.octets());
            header.extend(destination.octets());
            header
        }
        (source, destination) => {
            let mut header = fixed(COMMAND_PROXY, TCP_OVER_IPV6, INET6_LENGTH);
            header.extend(mapped(source).octets());
            header.extend(mapped(destination).octets());
            header
        }
    };
    header.extend(source.port().to_be_bytes());
    header.extend(destination.port().to_be_bytes());
    header
}

fn fixed(command: u8, family: u8, length: usize) -> Vec<u8> {
    let mut header = Vec::with_capacity(FIXED_LENGTH + length);
    header.extend(SIGNATURE);
    // The lengths of addresses are below 256.
    header.extend([VERSION << 4 | command, family, 0, length.to_le_bytes()[0]]);
    header
}

fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

/// Parses the header that `bytes` begin with. Returns it and its length in bytes, with the TLVs
/// that may follow the addresses, which are skipped; `None`: need more, in all at most 65,551
/// bytes.
pub fn parse(bytes: &[u8]) -> Result<Option<(Header, usize)>, HeaderError> {
    let present = bytes.len().min(SIGNATURE.len());
    if bytes[..present] != SIGNATURE[..present] {
        return Err(HeaderError::Signature);
    }
    let Some((fixed, rest)) = bytes.split_first_chunk::<FIXED_LENGTH>() else {
        return Ok(None);
    };
    let &[.., version_command, family, length_high, length_low] = fixed;
    let length = u16::from_be_bytes([length_high, length_low]);
    let command = parse_command(version_command)?;
    let Some(body) = rest.get(..usize::from(length)) else {
        return Ok(None);
    };
    let header = if command == COMMAND_LOCAL {
        Some(Header::Local) // whatever the family is
    } else {
        parse_addresses(family, body)
    };
    let header = header.ok_or(HeaderError::Length(length))?;
    Ok(Some((header, FIXED_LENGTH + body.len())))
}

fn parse_command(version_command: u8) -> Result<u8, HeaderError> {
    match (version_command >> 4, version_command & 0x0f) {
        (VERSION, command @ (COMMAND_LOCAL | COMMAND_PROXY)) => Ok(command),
        (VERSION, command) => Err(HeaderError::Command(command)),
        (version, _) => Err(HeaderError::Version(version)),
    }
}

/// Returns `None` when `body` is too short for the family.
fn parse_addresses(family: u8, body: &[u8]) -> Option<Header> {
    match family {
        TCP_OVER_IPV4 => parse_pair::<4>(body),
        TCP_OVER_IPV6 => parse_pair::<16>(body),
        other => Some(Header::Other(other)),
    }
}

/// Parses two addresses of `N` bytes each and two ports, behind which there may be TLVs.
fn parse_pair<const N: usize>(body: &[u8]) -> Option<Header>
where
    IpAddr: From<[u8; N]>,
{
    let (&source, rest) = body.split_first_chunk::<N>()?;
    let (&destination, ports) = rest.split_first_chunk::<N>()?;
    let &[a, b, c, d] = ports.first_chunk::<4>()?;
    Some(Header::Proxy {
        source: SocketAddr::new(source.into(), u16::from_be_bytes([a, b])),
        destination: SocketAddr::new(destination.into(), u16::from_be_bytes([c, d])),
    })
}
