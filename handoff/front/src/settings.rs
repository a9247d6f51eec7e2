use std::net::{SocketAddr, SocketAddrV4};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use handoff_link::Identity;

/// The addresses of the switch and the back ends.
#[derive(Clone, Debug)]
pub struct Settings {
    pub identity: Identity,
    pub switch: SwitchAddress,
    /// Identified by their places in this list.
    pub back_ends: Vec<BackEndSettings>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SwitchAddress {
    /// On this machine: a Unix socket.
    Unix(PathBuf),
    /// Elsewhere, by mutual TLS.
    Tcp(SocketAddr),
}

/// The addresses of a back end.
#[derive(Clone, Debug)]
pub struct BackEndSettings {
    /// For the log.
    pub name: String,
    /// Its address for fronts.
    pub fronts: SocketAddr,
    /// Its address for handed-over connections.
    pub hand_off: SocketAddrV4,
    /// Connections there, of all threads with these settings.
    pub connections: Arc<AtomicUsize>,
}
