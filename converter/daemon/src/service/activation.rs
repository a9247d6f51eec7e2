//! Listeners that the service manager made already (`sd_listen_fds(3)`): they outlive the process, so that a restart
//! refuses nobody.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::RawFd;

use socket2::{Protocol, SockRef, Socket};

use crate::config::Listen;
use crate::sys;

/// Passed sockets that no listener has claimed yet.
#[derive(Debug, Default)]
pub struct Passed(Vec<(SocketAddr, TcpListener)>);

impl Passed {
    /// What the environment announces for this process. To be called once, before any file is opened.
    pub fn take() -> io::Result<Self> {
        let count = sd_notify::listen_fds().map_or(0, Iterator::count);
        let descriptors =
            sys::passed_descriptors(RawFd::try_from(count).map_err(io::Error::other)?);
        let mut sockets = Vec::with_capacity(count);
        for descriptor in descriptors {
            let listener = TcpListener::from(Socket::from(descriptor));
            listener.set_nonblocking(true)?;
            sockets.push((listener.local_addr()?, listener));
        }
        Ok(Self(sockets))
    }

    /// The socket for this listener, if it was passed.
    pub fn claim(&mut self, listen: &Listen) -> Option<TcpListener> {
        let number = self
            .0
            .iter()
            .position(|(address, _)| *address == listen.address)?;
        let (address, listener) = self.0.swap_remove(number);
        let is_mptcp = SockRef::from(&listener).protocol().ok().flatten() == Some(Protocol::MPTCP);
        if is_mptcp != listen.takes_mptcp() {
            tracing::warn!(
                "{address} was passed {} MPTCP, and mptcp = {} (SocketProtocol=mptcp in the socket unit)",
                if is_mptcp { "with" } else { "without" },
                listen.takes_mptcp()
            );
        }
        Some(listener)
    }

    /// Says which sockets nobody claimed; they are closed.
    pub fn close_the_rest(self) {
        for (address, _) in self.0 {
            tracing::warn!(
                "{address} was passed by the service manager, and no listener has this address"
            );
        }
    }
}
