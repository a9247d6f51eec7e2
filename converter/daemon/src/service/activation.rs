//! Listeners that are there already, and outlive a process: made by the service manager (`sd_listen_fds(3)`), or by the
//! process before this one.

use std::env;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::RawFd;
use std::process;

use socket2::{Protocol, SockRef, Socket};

use super::successor::Predecessor;
use crate::config::Listen;
use crate::kernel::{sockets, sys};

/// `SD_LISTEN_FDS_START`.
const FIRST_PASSED: RawFd = 3;

/// Passed sockets that no listener has claimed yet.
#[derive(Debug, Default)]
pub struct Passed(Vec<(SocketAddr, TcpListener)>);

impl Passed {
    /// What the environment announces for this process. To be called once, before any file is opened.
    pub fn take(predecessor: Option<&Predecessor>) -> io::Result<Self> {
        let numbers: Vec<RawFd> = match predecessor {
            Some(predecessor) => predecessor.sockets.clone(),
            None => announced().collect(),
        };
        let mut sockets = Vec::with_capacity(numbers.len());
        for descriptor in sys::inherited(numbers)? {
            let listener = TcpListener::from(Socket::from(descriptor));
            listener.set_nonblocking(true)?;
            sockets.push((listener.local_addr()?, listener));
        }
        Ok(Self(sockets))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The socket for this listener, if it was passed, set up as one of our own. Raises what setsockopt(2) does.
    pub fn claim(&mut self, listen: &Listen) -> io::Result<Option<TcpListener>> {
        let address = listen.address;
        let Some(listener) = self.claim_address(address) else {
            return Ok(None);
        };
        sockets::set_up(&listener, listen)?;
        let is_mptcp = SockRef::from(&listener).protocol().ok().flatten() == Some(Protocol::MPTCP);
        if is_mptcp != listen.takes_mptcp() {
            tracing::warn!(
                "{address} was passed {} MPTCP, and mptcp = {} (SocketProtocol=mptcp in the socket unit)",
                if is_mptcp { "with" } else { "without" },
                listen.takes_mptcp()
            );
        }
        Ok(Some(listener))
    }

    /// The socket at this address, whatever it is for.
    pub fn claim_address(&mut self, wanted: SocketAddr) -> Option<TcpListener> {
        let number = self.0.iter().position(|(address, _)| *address == wanted)?;
        Some(self.0.swap_remove(number).1)
    }

    /// Says which sockets nobody claimed; they are closed.
    pub fn close_the_rest(self) {
        for (address, _) in self.0 {
            tracing::warn!("a socket at {address} was passed, and no listener has this address");
        }
    }
}

/// The descriptors that the service manager announces to this process (`sd_listen_fds(3)`).
fn announced() -> impl Iterator<Item = RawFd> {
    let number = |name| env::var(name).ok()?.parse::<RawFd>().ok();
    let is_meant =
        number("LISTEN_PID").and_then(|id| u32::try_from(id).ok()) == Some(process::id());
    let count = number("LISTEN_FDS").filter(|_| is_meant).unwrap_or(0);
    FIRST_PASSED..FIRST_PASSED.saturating_add(count)
}
