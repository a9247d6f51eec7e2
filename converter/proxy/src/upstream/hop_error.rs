//! Why the next converter gave no connection, and what that means for the request.

use std::io;
use std::time::Duration;

use tributary_proto::convert::ErrorTlv;

use super::DialError;
use crate::kernel::sockets::IcmpError;
use crate::policy::targets::Forbidden;

#[derive(Debug)]
pub enum HopError {
    /// There is no connection to it, no answer, or no Convert: for what reason.
    Unavailable(String),
    /// It wants no requests for so long (RFC 8803 section 6.2.8, a delay that is not zero): by which error.
    Busy(Duration, u8),
    /// It did not answer before the deadline, or the next one of a named chain is away.
    NoAnswer,
    /// It works, and this one request failed.
    Request(DialError),
    /// A connection that had served others ended, or was not acknowledged, before there was an answer.
    Gone,
    /// The same, and the converter says that it has not looked at the request.
    Closing,
}

impl HopError {
    /// It may not have this.
    pub const NOT_AUTHORIZED: Self = Self::Request(DialError::Forbidden(Forbidden::Denied));

    pub fn no_answer() -> Self {
        Self::Unavailable("it does not answer".into())
    }

    /// What an error means (RFC 8803 section 6.2.8), of a request that named a chain if it `is_source_routed`: it is that of the one
    /// request, unless it says that no other would fare better.
    pub fn answered(error: &ErrorTlv, is_source_routed: bool) -> Self {
        let code = error.code();
        Self::Request(match *error {
            // The Convert that it speaks is another one.
            ErrorTlv::UnsupportedVersion(_) | ErrorTlv::UnsupportedMessage(_) => {
                return Self::Unavailable(format!("it answers with Convert error {code}"));
            }
            ErrorTlv::ResourceExceeded { delay } | ErrorTlv::NetworkFailure { delay } if delay > 0 => {
                return Self::Busy(Duration::from_secs(delay.into()), code);
            }
            // It is there itself, but the next one of those that were named to it is not.
            ErrorTlv::NetworkFailure { .. } if is_source_routed => return Self::NoAnswer,
            ErrorTlv::NetworkFailure { .. } => DialError::TimedOut,
            ErrorTlv::ConnectionReset => DialError::Reset,
            ErrorTlv::DestinationUnreachable { icmp_code } => DialError::Unreachable(IcmpError { code: icmp_code }),
            ErrorTlv::NotAuthorized => return Self::NOT_AUTHORIZED,
            ErrorTlv::ResourceExceeded { .. }
            | ErrorTlv::MalformedMessage(_)
            | ErrorTlv::MissingCookie(_)
            | ErrorTlv::UnsupportedTcpOption(_)
            | ErrorTlv::Unknown { .. } => DialError::GatewayFailed,
        })
    }

    /// Before there was a connection: what this machine lacks says nothing of the other.
    pub fn connecting(error: io::Error) -> Self {
        let why = error.to_string();
        match DialError::from(error) {
            own @ (DialError::Exhausted | DialError::NoPort) => Self::Request(own),
            _ => Self::Unavailable(why),
        }
    }

    /// Once there was one: a converter resets a connection when it has no errors to send any more (RFC 8803 section 6.2.5).
    pub fn connected(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::ECONNRESET | libc::EPIPE) => Self::Request(DialError::GatewayFailed),
            _ => Self::connecting(error),
        }
    }
}

/// Why a request was not served, and whether another way may be tried.
#[derive(Debug)]
pub enum Unserved {
    /// By this way it cannot be: another one may serve it.
    Elsewhere,
    /// The next converter says this of it. Another one may say something else.
    Refused(DialError),
    /// No other way may be tried: the server itself refuses, or what the client sent early may have reached it.
    Final(DialError),
}
