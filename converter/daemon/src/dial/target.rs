//! Where a client wants to go.

use std::net::SocketAddr;

use tributary_wire::host::Host;

/// Where a client wants to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// An address.
    Address(SocketAddr),
    /// A name, and a port.
    Name(String, u16),
}

impl Target {
    /// A host as a client named it, and a port.
    pub fn new(host: &Host, port: u16) -> Self {
        match host {
            Host::V4(four) => Self::Address(SocketAddr::new((*four).into(), port)),
            Host::V6(six) => Self::Address(SocketAddr::new((*six).into(), port)),
            Host::Name(name) => Self::Name(name.to_string(), port),
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Name(name, port) => write!(f, "{name}:{port}"),
        }
    }
}
