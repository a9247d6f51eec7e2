//! What is asked for, and the connection that comes of it.

use std::net::{IpAddr, SocketAddr};

use super::expected_size::ExpectedSize;
use crate::bytes::stream::ResetOnDrop;

/// What one connection asks of its way to the server, beside the configuration.
#[derive(Clone, Debug, Default)]
pub struct DialOptions {
    /// MPTCP, whatever the configuration says.
    pub mptcp: bool,
    /// Whose share of look-ups a name takes, if anybody's.
    pub client: Option<IpAddr>,
    /// This source address, which is the client's.
    pub source: Option<SocketAddr>,
    /// To know which ICMP error ended the attempt: without it a port unreachable looks like a reset.
    pub icmp: bool,
    /// How much it is expected to carry, if that is known.
    pub size: Option<ExpectedSize>,
    /// The converters that it has passed on its way here (see [`tributary_wire::convert::Tlv::PathTrace`]).
    pub path_trace: Vec<u64>,
    /// The converters that it is to pass from here on, if the client says so (see [`tributary_wire::convert::Tlv::SourceRoute`]).
    pub source_route: Option<Vec<SocketAddr>>,
}

/// A server's side of a session.
#[derive(Debug)]
pub struct Server {
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
}

impl Server {
    /// A connection to the server itself, with whether the bytes of before are on their way.
    pub fn direct((stream, early_sent): (ResetOnDrop, bool), address: SocketAddr) -> Self {
        Self {
            stream,
            address,
            early: Vec::new(),
            early_sent,
            size: None,
        }
    }

    /// The same, whose way was chosen by this size.
    #[must_use]
    pub fn chosen_by(self, size: Option<ExpectedSize>) -> Self {
        Self { size, ..self }
    }
}
