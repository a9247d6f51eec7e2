//! Listeners that are there already, and outlive a process: made by the service manager (`sd_listen_fds(3)`), or by the
//! process before this one.

use std::env;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::RawFd;
use std::process;

use rustix::net::listen;
use socket2::Socket;

use super::successor::Predecessor;
use crate::config::{Intercept, Listen};
use crate::failure::{Exit, Failure};
use crate::kernel::{sockets, sys};

/// `SD_LISTEN_FDS_START`.
const FIRST_PASSED: RawFd = 3;

/// Sockets that were passed.
#[derive(Debug, Default)]
pub struct Passed {
    /// Those that no listener has claimed yet.
    rest: Vec<(SocketAddr, TcpListener)>,
    /// Whether the process before made them, by the configuration that it had.
    by_predecessor: bool,
}

impl Passed {
    /// What the environment announces for this process. To be called once, before any file is opened.
    pub fn take(predecessor: Option<&Predecessor>) -> io::Result<Self> {
        let numbers: Vec<RawFd> = match predecessor {
            Some(predecessor) => predecessor.sockets.clone(),
            None => announced().collect(),
        };
        let mut rest = Vec::with_capacity(numbers.len());
        for descriptor in sys::inherited(numbers)? {
            let listener = TcpListener::from(Socket::from(descriptor));
            listener.set_nonblocking(true)?;
            rest.push((listener.local_addr()?, listener));
        }
        Ok(Self {
            rest,
            by_predecessor: predecessor.is_some(),
        })
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The socket for this listener, if it was passed, set up as one of our own. The predecessor's is refused (exit code 64) if
    /// it is another one than this listener would make; the service manager's is taken as its socket unit has it.
    pub fn claim(&mut self, wanted: &Listen, backlog: u16) -> Result<Option<TcpListener>, Failure> {
        let address = wanted.address;
        let Some(listener) = self.claim_address(address) else {
            return Ok(None);
        };
        let is_transparent = wanted.intercept == Some(Intercept::Tproxy);
        for (key, directive, is, should_be) in [
            (
                "mptcp",
                "SocketProtocol=mptcp",
                Some(sockets::is_mptcp(&listener)),
                wanted.takes_mptcp(),
            ),
            (
                "intercept",
                "Transparent=yes",
                sockets::is_transparent(&listener),
                is_transparent,
            ),
        ] {
            if is.is_none_or(|is| is == should_be) {
                continue;
            }
            if self.by_predecessor {
                let message =
                    format!("{address}: {key} of a listener can change by a restart only");
                return Err(Failure::new(Exit::Usage, message));
            }
            let has = if should_be { "without" } else { "with" };
            tracing::warn!(
                "{address} was passed {has} {directive} (systemd.socket(5)), which is not what {key} of its listener says"
            );
        }
        let failed = |error: io::Error| Failure::from_io(&format!("set up {address}"), &error);
        sockets::set_up(&listener, wanted).map_err(failed)?;
        if self.by_predecessor {
            // Once more is no error, and sets the backlog (listen(2)).
            listen(&listener, i32::from(backlog)).map_err(|error| failed(error.into()))?;
        }
        Ok(Some(listener))
    }

    /// The socket at this address, whatever it is for.
    pub fn claim_address(&mut self, wanted: SocketAddr) -> Option<TcpListener> {
        let number = self
            .rest
            .iter()
            .position(|(address, _)| *address == wanted)?;
        Some(self.rest.swap_remove(number).1)
    }

    /// Says which sockets nobody claimed; they are closed.
    pub fn close_the_rest(self) {
        for (address, _) in self.rest {
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
