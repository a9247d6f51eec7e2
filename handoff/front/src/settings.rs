use std::net::{SocketAddr, SocketAddrV4};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use handoff_link::Identity;

#[derive(Clone)]
pub struct Settings {
    pub identity: Identity,
    pub switch: SwitchAddress,
    pub switch_sessions: Sessions,
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
    /// Sessions with it in which it takes connections.
    pub sessions: Sessions,
}

/// The open sessions with a remote end, of all threads with these settings.
#[derive(Clone, Debug, Default)]
pub struct Sessions(Arc<AtomicUsize>);

impl Sessions {
    /// Whether there is one.
    pub fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    /// Counts one until the value is dropped.
    pub(crate) fn open(&self) -> OpenSession {
        self.0.fetch_add(1, Ordering::Relaxed);
        OpenSession(self.clone())
    }
}

pub(crate) struct OpenSession(Sessions);

impl Drop for OpenSession {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}
