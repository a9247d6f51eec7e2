//! The reply (RFC 1928 section 6).

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};

use super::grammar::{ProtocolError, VERSION};
use super::request::put_address;

/// What became of a request (RFC 1928 section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// 0: the connection stands.
    Succeeded,
    /// 1: the server failed.
    GeneralFailure,
    /// 2: the rules do not allow the connection.
    NotAllowed,
    /// 3: the network cannot be reached.
    NetworkUnreachable,
    /// 4: the host cannot be reached.
    HostUnreachable,
    /// 5: the host refused the connection.
    ConnectionRefused,
    /// 6: a time to live ran out.
    TtlExpired,
    /// 7: the command is not CONNECT.
    CommandNotSupported,
    /// 8: the address type is unknown.
    AddressTypeNotSupported,
    /// A code that RFC 1928 does not define.
    Other(u8),
}

impl From<Code> for u8 {
    fn from(code: Code) -> Self {
        match code {
            Code::Succeeded => 0,
            Code::GeneralFailure => 1,
            Code::NotAllowed => 2,
            Code::NetworkUnreachable => 3,
            Code::HostUnreachable => 4,
            Code::ConnectionRefused => 5,
            Code::TtlExpired => 6,
            Code::CommandNotSupported => 7,
            Code::AddressTypeNotSupported => 8,
            Code::Other(other) => other,
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Succeeded => write!(f, "succeeded"),
            Self::GeneralFailure => write!(f, "general SOCKS server failure"),
            Self::NotAllowed => write!(f, "connection not allowed by ruleset"),
            Self::NetworkUnreachable => write!(f, "network unreachable"),
            Self::HostUnreachable => write!(f, "host unreachable"),
            Self::ConnectionRefused => write!(f, "connection refused"),
            Self::TtlExpired => write!(f, "TTL expired"),
            Self::CommandNotSupported => write!(f, "command not supported"),
            Self::AddressTypeNotSupported => write!(f, "address type not supported"),
            Self::Other(code) => write!(f, "SOCKS reply {code}"),
        }
    }
}

/// A server's answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// What became of it.
    pub code: Code,
    /// The server's own end of the connection; in a refusal it means nothing.
    pub bound: SocketAddr,
}

impl Reply {
    /// The connection stands; `bound` is the server's own end of it.
    pub fn success(bound: SocketAddr) -> Self {
        Self {
            code: Code::Succeeded,
            bound,
        }
    }

    /// The connection does not stand. The server closes within 10 seconds (RFC 1928 section 6).
    pub fn refusal(code: Code) -> Self {
        Self {
            code,
            bound: SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0),
        }
    }

    /// Returns the message, 10 or 22 bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut message = vec![VERSION, self.code.into(), 0];
        put_address(self.bound.ip(), &mut message);
        message.extend(self.bound.port().to_be_bytes());
        message
    }
}

impl ProtocolError {
    /// Returns the code that a client's request with this fault must be answered with before the
    /// connection is closed; `None`: close it.
    pub fn code(self) -> Option<Code> {
        match self {
            Self::Version(_) => None,
            Self::Command(_) => Some(Code::CommandNotSupported),
            Self::AddressType(_) => Some(Code::AddressTypeNotSupported),
            // What a look-up of such a name would end in.
            Self::Name => Some(Code::HostUnreachable),
        }
    }

    /// Returns the answer with [`ProtocolError::code`]; `None`: close without one.
    pub fn reply(self) -> Option<Vec<u8>> {
        self.code().map(|code| Reply::refusal(code).encode())
    }
}
