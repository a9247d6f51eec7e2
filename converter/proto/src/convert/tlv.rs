//! The TLVs of RFC 8803 sections 6.2.3 to 6.2.8, and three of this project's own.

use std::net::{Ipv6Addr, SocketAddrV6};

use super::error::ErrorTlv;
use super::header::{MessageError, TooLong, WORD, without_padding, words};
use super::option::{TcpOption, connect_options};

/// The types of TLVs (RFC 8803 section 6.2.2, table 1).
pub mod tlv_type {
    pub const RESERVED: u8 = 0;
    pub const INFO: u8 = 1;
    pub const CONNECT: u8 = 10;
    pub const EXTENDED_TCP_HEADER: u8 = 20;
    pub const SUPPORTED_TCP_EXTENSIONS: u8 = 21;
    pub const COOKIE: u8 = 22;
    pub const ERROR: u8 = 30;
    // Of the types for private use (RFC 8803 section 10.2.2).
    pub const PATH_TRACE: u8 = 192;
    pub const SOURCE_ROUTE: u8 = 193;
    pub const REUSE: u8 = 194;
}

/// Bytes behind the Length of a Base Connect TLV: port and address.
const BASE_CONNECT: usize = 18;
/// Bytes of a converter's number in a path trace TLV.
const NUMBER: usize = 8;
/// Bytes of a converter's address in a source route TLV: two zeros, port and address.
const CONVERTER: usize = 20;

/// One TLV. Padding that the protocol itself tells from content (zeros behind lists of kinds) is
/// taken away by the parser; where it cannot be told, values keep it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tlv {
    /// Info (section 6.2.3): what does the converter support?
    Info,
    /// Connect (section 6.2.5).
    Connect {
        /// The server (or, in a message to a client, the remote host): IPv4 as `::ffff:a.b.c.d`.
        peer: SocketAddrV6,
        /// `None` in a Base Connect TLV. In an Extended one, the options without kinds 0 and 1.
        options: Option<Vec<TcpOption>>,
    },
    /// Extended TCP Header (section 6.2.6): the TCP options of the server's SYN+ACK.
    ExtendedTcpHeader(Vec<u8>),
    /// Supported TCP Extensions (section 6.2.4): option kinds.
    SupportedTcpExtensions(Vec<u8>),
    /// Cookie (section 6.2.7).
    Cookie(Vec<u8>),
    Error(ErrorTlv),
    /// Path trace: the numbers of the converters that a request has passed, the first one first. RFC 8803 does not define it;
    /// behind two zero bytes it has 8 bytes for each.
    PathTrace(Vec<u64>),
    /// Source route: the converters that a request is still to pass, the next one first; behind the last one the server is next.
    /// RFC 8803 does not define it; behind two zero bytes each has two more, its port, and its address as in a Connect TLV.
    SourceRoute(Vec<SocketAddrV6>),
    /// Reuse: both directions carry frames (see [`super::FrameReader`]), and another request may follow on this connection.
    /// RFC 8803 does not define it; it has nothing but two zero bytes.
    Reuse,
    Unknown {
        kind: u8,
        /// What is behind its Length.
        value: Vec<u8>,
    },
}

impl Tlv {
    pub fn kind(&self) -> u8 {
        match self {
            Self::Info => tlv_type::INFO,
            Self::Connect { .. } => tlv_type::CONNECT,
            Self::ExtendedTcpHeader(_) => tlv_type::EXTENDED_TCP_HEADER,
            Self::SupportedTcpExtensions(_) => tlv_type::SUPPORTED_TCP_EXTENSIONS,
            Self::Cookie(_) => tlv_type::COOKIE,
            Self::Error(_) => tlv_type::ERROR,
            Self::PathTrace(_) => tlv_type::PATH_TRACE,
            Self::SourceRoute(_) => tlv_type::SOURCE_ROUTE,
            Self::Reuse => tlv_type::REUSE,
            Self::Unknown { kind, .. } => *kind,
        }
    }

    /// Parses the `body` behind the Length of a TLV: at least 2 bytes, 2 more than a multiple
    /// of 4. Fields called Zero or Unassigned are not looked at.
    pub(super) fn parse(kind: u8, body: &[u8]) -> Result<Self, MessageError> {
        Ok(match kind {
            // Table 1: the length of an Info TLV is 1.
            tlv_type::INFO if body.len() == 2 => Self::Info,
            tlv_type::REUSE if body.len() == 2 => Self::Reuse,
            tlv_type::INFO | tlv_type::REUSE => return Err(MessageError::TlvLength(kind)),
            tlv_type::CONNECT => parse_connect(body)?,
            tlv_type::EXTENDED_TCP_HEADER => Self::ExtendedTcpHeader(body[2..].to_vec()),
            tlv_type::SUPPORTED_TCP_EXTENSIONS => Self::SupportedTcpExtensions(without_padding(&body[2..]).to_vec()),
            tlv_type::COOKIE => Self::Cookie(body[2..].to_vec()),
            tlv_type::ERROR => Self::Error(ErrorTlv::parse(body[0], &body[1..])),
            tlv_type::PATH_TRACE => Self::PathTrace(numbers(&body[2..])?),
            tlv_type::SOURCE_ROUTE => Self::SourceRoute(converters(&body[2..])?),
            _ => Self::Unknown {
                kind,
                value: body.to_vec(),
            },
        })
    }

    /// Appends the TLV, padded with zeros to 32 bits (RFC 8803 section 6.2.1).
    pub(super) fn emit(&self, out: &mut Vec<u8>) -> Result<(), TooLong> {
        let start = out.len();
        out.extend([self.kind(), 0]);
        self.emit_body(out)?;
        let length = words(out.len() - start)?;
        out.resize(start + usize::from(length) * WORD, 0);
        out[start + 1] = length;
        Ok(())
    }

    fn emit_body(&self, out: &mut Vec<u8>) -> Result<(), TooLong> {
        match self {
            Self::Info | Self::Reuse => {}
            Self::Connect { peer, options } => {
                emit_address(*peer, out);
                emit_options(options.as_deref(), out)?;
            }
            Self::ExtendedTcpHeader(value) | Self::SupportedTcpExtensions(value) | Self::Cookie(value) => {
                out.extend([0, 0]);
                out.extend(value);
            }
            Self::Error(error) => error.emit(out),
            Self::PathTrace(numbers) => {
                out.extend([0, 0]);
                out.extend(numbers.iter().flat_map(|number| number.to_be_bytes()));
            }
            Self::SourceRoute(converters) => {
                out.extend([0, 0]);
                for converter in converters {
                    out.extend([0, 0]);
                    emit_address(*converter, out);
                }
            }
            Self::Unknown { value, .. } => out.extend(value),
        }
        Ok(())
    }
}

fn numbers(value: &[u8]) -> Result<Vec<u64>, MessageError> {
    value
        .chunks(NUMBER)
        .map(|number| number.try_into().map(u64::from_be_bytes))
        .collect::<Result<_, _>>()
        .map_err(|_| MessageError::TlvLength(tlv_type::PATH_TRACE))
}

fn converters(value: &[u8]) -> Result<Vec<SocketAddrV6>, MessageError> {
    value
        .chunks(CONVERTER)
        .map(|one| match one {
            [_, _, address @ ..] => address.try_into().map(parse_address).ok(),
            _ => None,
        })
        .collect::<Option<_>>()
        .ok_or(MessageError::TlvLength(tlv_type::SOURCE_ROUTE))
}

/// A port and an address, both as a Connect TLV has them.
fn parse_address([port_high, port_low, address @ ..]: [u8; BASE_CONNECT]) -> SocketAddrV6 {
    let port = u16::from_be_bytes([port_high, port_low]);
    let address: [u8; 16] = address;
    SocketAddrV6::new(Ipv6Addr::from(address), port, 0, 0)
}

fn emit_address(address: SocketAddrV6, out: &mut Vec<u8>) {
    out.extend(address.port().to_be_bytes());
    out.extend(address.ip().octets());
}

fn parse_connect(body: &[u8]) -> Result<Tlv, MessageError> {
    let Some((base, options)) = body.split_first_chunk::<BASE_CONNECT>() else {
        return Err(MessageError::TlvLength(tlv_type::CONNECT));
    };
    Ok(Tlv::Connect {
        peer: parse_address(*base),
        // RFC 8803 section 6.2.5: the two types are told apart by their length.
        options: (!options.is_empty()).then(|| connect_options(options)).transpose()?,
    })
}

fn emit_options(options: Option<&[TcpOption]>, out: &mut Vec<u8>) -> Result<(), TooLong> {
    // An Extended Connect TLV without options is told from a Base one by a word of padding.
    if options.is_some_and(<[_]>::is_empty) {
        out.extend([0; WORD]);
    }
    options
        .unwrap_or_default()
        .iter()
        .try_for_each(|option| option.emit(out))
}
