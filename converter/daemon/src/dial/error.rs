//! Why there is no connection.

use std::io;

use crate::kernel::sockets::IcmpError;
use crate::policy::targets::Forbidden;

/// Why there is no connection.
#[derive(Debug)]
pub enum DialError {
    /// It is not allowed; no packet left.
    Forbidden(Forbidden),
    /// Nobody has this name.
    NoSuchName,
    /// The name servers did not answer, or not usefully.
    NamesFailed,
    /// The server answered with a reset.
    Reset,
    /// A router or the server's host sent an ICMP error, or there is no route.
    Unreachable(IcmpError),
    /// Nobody answered in time.
    TimedOut,
    /// This machine has no descriptors, ports or memory left.
    Exhausted(io::Error),
    /// The gateway is unavailable, and nothing else may be tried.
    GatewayUnavailable,
    /// The gateway works, and could not serve this request.
    GatewayFailed,
    /// The system refused.
    System(io::Error),
}

impl DialError {
    /// For logs and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Forbidden(why) => why.name(),
            Self::NoSuchName => "no-such-name",
            Self::NamesFailed => "names-failed",
            Self::Reset => "refused-by-server",
            Self::Unreachable(_) => "unreachable",
            Self::TimedOut => "timed-out",
            Self::Exhausted(_) => "exhausted",
            Self::GatewayUnavailable => "gateway-unavailable",
            Self::GatewayFailed => "gateway-failed",
            Self::System(_) => "system",
        }
    }
}

impl From<io::Error> for DialError {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::ECONNREFUSED | libc::ECONNRESET) => Self::Reset,
            // The kernel has no such family: ipv6.disable=1.
            Some(libc::ENETUNREACH | libc::EAFNOSUPPORT) => Self::Unreachable(IcmpError::NETWORK),
            Some(libc::EHOSTUNREACH) => Self::Unreachable(IcmpError::HOST),
            Some(libc::ETIMEDOUT) => Self::TimedOut,
            Some(
                libc::EMFILE
                | libc::ENFILE
                | libc::EADDRNOTAVAIL
                | libc::ENOMEM
                | libc::ENOBUFS
                | libc::EAGAIN,
            ) => Self::Exhausted(error),
            _ => Self::System(error),
        }
    }
}
