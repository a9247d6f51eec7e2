//! Inherited listening sockets: made by the service manager (`sd_listen_fds(3)`), or by the process before this one.

use std::env;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsRawFd as _, RawFd};
use std::process;

use socket2::Socket;

use super::successor::Predecessor;
use crate::config::{Intercept, Listen};
use crate::failure::{Exit, Failure};
use crate::kernel::{sockets, sys};

/// `SD_LISTEN_FDS_START`.
const FIRST_PASSED: RawFd = 3;

/// An inherited socket.
#[derive(Debug)]
pub struct InheritedSocket {
    /// The listening socket.
    pub listener: TcpListener,
    address: SocketAddr,
    /// Whether a converter made it, and not the service manager.
    pub is_ours: bool,
}

/// Inherited sockets that no listener has claimed yet.
#[derive(Debug, Default)]
pub struct InheritedSockets(Vec<InheritedSocket>);

impl InheritedSockets {
    /// Takes the sockets that the environment announces. To be called once, before any file is opened.
    pub fn take(predecessor: Option<&Predecessor>) -> io::Result<Self> {
        let (numbers, ours) = match predecessor {
            Some(predecessor) => (predecessor.sockets.clone(), &predecessor.ours[..]),
            None => (announced().collect(), &[][..]),
        };
        let mut sockets = Vec::with_capacity(numbers.len());
        for descriptor in sys::inherited(numbers)? {
            let is_ours = ours.contains(&descriptor.as_raw_fd());
            let listener = TcpListener::from(Socket::from(descriptor));
            listener.set_nonblocking(true)?;
            sockets.push(InheritedSocket {
                address: listener.local_addr()?,
                listener,
                is_ours,
            });
        }
        Ok(Self(sockets))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes the socket for this listener, unchanged. A converter's is refused (exit code 64) if the listener would make
    /// another one; the service manager's is taken as its socket unit has it.
    pub fn claim(&mut self, wanted: &Listen) -> Result<Option<InheritedSocket>, Failure> {
        let address = wanted.address;
        let Some(socket) = self.claim_address(address) else {
            return Ok(None);
        };
        let is_transparent = wanted.intercept == Some(Intercept::Tproxy);
        for (key, directive, is, should_be) in [
            (
                "mptcp",
                "SocketProtocol=mptcp",
                Some(sockets::is_mptcp(&socket.listener)),
                wanted.takes_mptcp(),
            ),
            (
                "intercept",
                "Transparent=yes",
                sockets::is_transparent(&socket.listener),
                is_transparent,
            ),
        ] {
            if is.is_none_or(|is| is == should_be) {
                continue;
            }
            if socket.is_ours {
                let message =
                    format!("{address}: {key} of a listener can change by a restart only");
                return Err(Failure::new(Exit::Usage, message));
            }
            let has = if should_be { "without" } else { "with" };
            tracing::warn!(
                "{address} was passed {has} {directive} (systemd.socket(5)), which is not what {key} of its listener says"
            );
        }
        Ok(Some(socket))
    }

    /// Takes the socket at this address.
    pub fn claim_address(&mut self, wanted: SocketAddr) -> Option<InheritedSocket> {
        let number = self.0.iter().position(|each| each.address == wanted)?;
        Some(self.0.swap_remove(number))
    }

    /// Closes the unclaimed sockets, and logs them.
    pub fn close_the_rest(self) {
        for InheritedSocket { address, .. } in self.0 {
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
