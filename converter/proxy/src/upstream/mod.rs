//! Connections to servers: names resolved, every address checked before a packet leaves, the quickest one taken.

mod addresses;
mod connect;
mod dialer;
mod fd_pool;
mod hop_error;
mod idle_pool;
mod kept_hop;
mod names;
mod next_hop;
mod race;
mod resolv_conf;
mod routes;
mod via_gateway;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

pub use connect::connect;
pub use dialer::{Dialer, PendingConnect};
pub use fd_pool::FdPool;
pub use idle_pool::{IdlePool, IdleUpstream, ServerConnection, TO_HOPS, TO_SERVERS};
pub use kept_hop::{KeptHop, WaitingHop};
pub use names::{Names, SystemFiles};
pub use next_hop::NextHop;
pub use routes::{CurrentHops, NextHops};
use serde::Serialize;

use crate::io::pipe::Early;
use crate::io::stream::ResetOnDrop;
use crate::kernel::sockets::IcmpError;
use crate::policy::targets::Forbidden;

/// Whether what a connection carries may go in frames to the next converter ([`KeptHop`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Frames {
    /// The bytes go as they are.
    #[default]
    Never,
    /// A relay reads and writes frames.
    Allowed,
}

/// What one connection asks of its way to the server, beside the configuration.
#[derive(Clone, Debug, Default)]
pub struct DialOptions {
    /// MPTCP, whatever the configuration says.
    pub mptcp: bool,
    /// Whose share of look-ups a name takes, if anybody's.
    pub client: Option<IpAddr>,
    /// This source address, which is the client's.
    pub source: Option<SocketAddr>,
    /// Whether the connection may have been started by the client's SYN.
    pub early_syn: bool,
    /// To know which ICMP error ended the attempt: without it a port unreachable looks like a reset.
    pub icmp: bool,
    /// How much it is expected to carry, if that is known.
    pub size: Option<ExpectedSize>,
    /// The converters that it has passed on its way here (see [`tributary_proto::convert::Tlv::PathTrace`]).
    pub path_trace: Vec<u64>,
    /// Whether it may be one that others have used.
    pub frames: Frames,
    /// The converters that it is to pass from here on, if the client says so (see [`tributary_proto::convert::Tlv::SourceRoute`]).
    pub source_route: Option<Vec<SocketAddr>>,
}

impl DialOptions {
    /// For bytes that go through a relay.
    pub fn for_relay() -> Self {
        Self {
            frames: Frames::Allowed,
            ..Self::default()
        }
    }
}

/// A connection to a server.
pub struct Upstream {
    /// The connection, or the one to the gateway.
    pub stream: ResetOnDrop,
    /// The server's address and port.
    pub address: SocketAddr,
    /// What the server said already.
    pub early: Vec<u8>,
    /// Whether the bytes that the client had sent before are on their way.
    pub early_sent: bool,
    /// By which size its way was chosen, if it was known.
    pub size: Option<ExpectedSize>,
    /// The next converter, if it is by way of one.
    pub hop: Option<Arc<NextHop>>,
    /// Present if both directions carry frames, so that others can use the connection to the next converter afterwards.
    pub kept: Option<Box<KeptHop>>,
}

impl Upstream {
    /// The same, whose way was chosen by this size.
    #[must_use]
    pub fn chosen_by(self, size: Option<ExpectedSize>) -> Self {
        Self { size, ..self }
    }

    /// What the server said already.
    pub fn take_early(&mut self) -> Early {
        let bytes = std::mem::take(&mut self.early);
        match &mut self.kept {
            Some(kept) => kept.take_early(bytes),
            None => bytes.into(),
        }
    }

    /// Both directions have ended: closes the connection in order, or keeps it. `trailer` came behind the last frame.
    pub fn finish(mut self, trailer: Vec<u8>) {
        self.stream.disarm();
        if let Some(kept) = self.kept.take() {
            kept.park(self, trailer);
        }
    }
}

/// How much a connection is expected to carry, as its first request shows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ExpectedSize {
    /// In one direction.
    pub bytes: u64,
    /// How that is known.
    pub by: KnownBy,
}

/// By what a size is known.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum KnownBy {
    /// The request says how long its content is.
    ContentLength,
    /// The operator says what requests with this path are.
    Path,
}

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
    /// This machine has no descriptors or memory left.
    Exhausted,
    /// It has no ports left towards this server, or next converter.
    NoPort,
    /// The gateway is unavailable, and nothing else may be tried.
    GatewayUnavailable,
    /// The gateway works, and could not serve this request.
    GatewayFailed,
    /// The system refused.
    System,
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
            Self::Exhausted | Self::NoPort => "exhausted",
            Self::GatewayUnavailable => "gateway-unavailable",
            Self::GatewayFailed => "gateway-failed",
            Self::System => "system",
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
            Some(libc::EADDRINUSE | libc::EADDRNOTAVAIL) => Self::NoPort,
            Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::ENOBUFS | libc::EAGAIN) => Self::Exhausted,
            _ => Self::System,
        }
    }
}
