//! The Error TLV (RFC 8803 section 6.2.8).

use super::header::{HEADER_LENGTH, MAX_LENGTH, without_padding};

/// The error codes (RFC 8803 section 6.2.8, table 2).
pub mod error_code {
    pub const UNSUPPORTED_VERSION: u8 = 0;
    pub const MALFORMED_MESSAGE: u8 = 1;
    pub const UNSUPPORTED_MESSAGE: u8 = 2;
    pub const MISSING_COOKIE: u8 = 3;
    pub const NOT_AUTHORIZED: u8 = 32;
    pub const UNSUPPORTED_TCP_OPTION: u8 = 33;
    pub const RESOURCE_EXCEEDED: u8 = 64;
    pub const NETWORK_FAILURE: u8 = 65;
    pub const CONNECTION_RESET: u8 = 96;
    pub const DESTINATION_UNREACHABLE: u8 = 97;
}

/// The most bytes of Value in a message with nothing else: type, length and code take 3.
const MAX_VALUE: usize = MAX_LENGTH - HEADER_LENGTH - 3;

/// An Error TLV: why the converter refuses. Lists, echoes and cookies are padded with zeros to
/// the end of a word on the wire; longer than a message can hold (1012 bytes), they are cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorTlv {
    /// The version is not supported; these are.
    UnsupportedVersion(Vec<u8>),
    /// The message, echoed here from its fixed header on, cannot be parsed or is not valid.
    MalformedMessage(Vec<u8>),
    /// The message, echoed here from its fixed header on, is not supported.
    UnsupportedMessage(Vec<u8>),
    /// A cookie is required, and this is the client's.
    MissingCookie(Vec<u8>),
    /// The client may not have this, or its cookie is wrong.
    NotAuthorized,
    /// TCP options, by kind, that cannot be used towards the server.
    UnsupportedTcpOption(Vec<u8>),
    ResourceExceeded {
        /// Seconds that the client should wait; 0: at least 30.
        delay: u8,
    },
    NetworkFailure {
        /// Seconds that the client should wait; 0: at least 30.
        delay: u8,
    },
    ConnectionReset,
    /// An ICMP hard error came back.
    DestinationUnreachable {
        /// The Code field of the ICMP message.
        icmp_code: u8,
    },
    /// An error that RFC 8803 does not define.
    Unknown {
        code: u8,
        /// The Value, one byte more than a multiple of 4.
        value: Vec<u8>,
    },
}

impl ErrorTlv {
    pub fn code(&self) -> u8 {
        match self {
            Self::UnsupportedVersion(_) => error_code::UNSUPPORTED_VERSION,
            Self::MalformedMessage(_) => error_code::MALFORMED_MESSAGE,
            Self::UnsupportedMessage(_) => error_code::UNSUPPORTED_MESSAGE,
            Self::MissingCookie(_) => error_code::MISSING_COOKIE,
            Self::NotAuthorized => error_code::NOT_AUTHORIZED,
            Self::UnsupportedTcpOption(_) => error_code::UNSUPPORTED_TCP_OPTION,
            Self::ResourceExceeded { .. } => error_code::RESOURCE_EXCEEDED,
            Self::NetworkFailure { .. } => error_code::NETWORK_FAILURE,
            Self::ConnectionReset => error_code::CONNECTION_RESET,
            Self::DestinationUnreachable { .. } => error_code::DESTINATION_UNREACHABLE,
            Self::Unknown { code, .. } => *code,
        }
    }

    /// Parses the Value behind the code: at least 1 byte. Where the RFC wants one byte only, the
    /// others are not looked at.
    pub(super) fn parse(code: u8, value: &[u8]) -> Self {
        let first = value[0];
        let rest = value[1..].to_vec();
        match code {
            error_code::UNSUPPORTED_VERSION => Self::UnsupportedVersion(without_padding(value).to_vec()),
            error_code::MALFORMED_MESSAGE => Self::MalformedMessage(rest),
            error_code::UNSUPPORTED_MESSAGE => Self::UnsupportedMessage(rest),
            error_code::MISSING_COOKIE => Self::MissingCookie(rest),
            error_code::NOT_AUTHORIZED => Self::NotAuthorized,
            error_code::UNSUPPORTED_TCP_OPTION => Self::UnsupportedTcpOption(without_padding(value).to_vec()),
            error_code::RESOURCE_EXCEEDED => Self::ResourceExceeded { delay: first },
            error_code::NETWORK_FAILURE => Self::NetworkFailure { delay: first },
            error_code::CONNECTION_RESET => Self::ConnectionReset,
            error_code::DESTINATION_UNREACHABLE => Self::DestinationUnreachable { icmp_code: first },
            _ => Self::Unknown {
                code,
                value: value.to_vec(),
            },
        }
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.push(self.code());
        let start = out.len();
        match self {
            Self::UnsupportedVersion(list) | Self::UnsupportedTcpOption(list) => out.extend(list),
            Self::MalformedMessage(rest) | Self::UnsupportedMessage(rest) | Self::MissingCookie(rest) => {
                // Figure 23: a byte of zeros keeps the alignment of what follows.
                out.push(0);
                out.extend(rest);
            }
            Self::NotAuthorized | Self::ConnectionReset => out.push(0),
            Self::ResourceExceeded { delay: byte }
            | Self::NetworkFailure { delay: byte }
            | Self::DestinationUnreachable { icmp_code: byte } => out.push(*byte),
            Self::Unknown { value, .. } => out.extend(value),
        }
        out.truncate(start + MAX_VALUE);
    }
}
