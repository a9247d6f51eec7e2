//! Upgrades without refused or cut connections: SIGUSR2 starts the program that is installed now, with the same sockets.
//! Once the new process serves, it sends SIGUSR1, and the old one lets its connections end.
//!
//! ```text
//! operator --USR2--> old --starts, with its sockets--> new
//!                    old <--USR1, it serves------------ new
//!                    old drains, up to timeouts.hand_over
//! ```
//!
//! A process passes SIGTERM to its predecessor, which then ends within `timeouts.drain`, and waits for that: when the main
//! process ends, the service manager kills the others.
//!
//! Listening sockets may also be the service manager's (`sd_listen_fds(3)`).

use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::process::{self, Child, Command, ExitStatus, Stdio};
use std::time::Duration;
use std::{env, io, thread};

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, getppid, kill_process};
use socket2::Socket;
use tokio::signal::unix::{self, SignalKind};
use tokio::time::timeout;
use tributary_program::{Exit, Failure};

use crate::config::Listen;
use crate::kernel::sockets;

const PREDECESSOR: &str = "TRIBUTARY_PREDECESSOR";
const SOCKETS: &str = "TRIBUTARY_SOCKETS";
/// Those that a converter made, and not a service manager.
const OURS: &str = "TRIBUTARY_OWN_SOCKETS";

/// How long a killed process may take to end, before another one is started all the same.
const KILLED: Duration = Duration::from_secs(1);
/// How long the event loop may take to hear of a signal.
const UNHEARD: Duration = Duration::from_millis(50);

/// The process that takes over.
#[derive(Debug)]
pub struct Successor {
    child: Child,
    /// SIGCHLD.
    changes: unix::Signal,
}

impl Successor {
    /// Starts the program by this process's name, with its arguments and sockets: `ours`, and `others` of the service
    /// manager.
    pub fn start(ours: &[BorrowedFd<'_>], others: &[BorrowedFd<'_>]) -> io::Result<Self> {
        let mut arguments = env::args_os();
        let program = arguments.next().ok_or(io::ErrorKind::NotFound)?;
        let sockets = [ours, others].concat();
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdin(Stdio::null())
            .env(PREDECESSOR, process::id().to_string())
            .env(SOCKETS, numbers(&sockets))
            .env(OURS, numbers(ours))
            // It names this process (sd_watchdog_enabled(3)), and the successor has to answer as well.
            .env_remove("WATCHDOG_PID");
        let changes = unix::signal(SignalKind::child())?;
        keep_over_exec(&sockets, true)?;
        let started = command.spawn().map(|child| Self { child, changes });
        if let Err(error) = keep_over_exec(&sockets, false) {
            started.map(Self::kill)?;
            return Err(error);
        }
        started
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub async fn ended(&mut self) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            self.changes.recv().await;
        }
    }

    /// Kills it before it serves. Its end may take a while, for which nobody here waits.
    pub fn kill(mut self) {
        // One that has ended already is as good.
        let _ = self.child.kill();
        thread::spawn(move || self.child.wait());
    }

    /// The same, before another one is started: waits for its end, and takes the SIGUSR1 that it may have sent in the last
    /// moment from `superseded`, which is not the next one's.
    pub async fn kill_for_another(mut self, superseded: &mut unix::Signal) {
        let _ = self.child.kill();
        let ended = timeout(KILLED, self.ended()).await;
        // Its end can be known before the event loop has heard of the signal.
        let _ = timeout(UNHEARD, superseded.recv()).await;
        if ended.is_err() {
            self.kill();
        }
    }
}

fn numbers(sockets: &[BorrowedFd<'_>]) -> String {
    let numbers: Vec<String> = sockets.iter().map(|fd| fd.as_raw_fd().to_string()).collect();
    numbers.join(",")
}

/// Parses what [`numbers`] wrote.
fn descriptors(numbers: &str) -> Vec<RawFd> {
    numbers.split(',').filter_map(|number| number.parse().ok()).collect()
}

fn keep_over_exec(sockets: &[BorrowedFd<'_>], keep: bool) -> io::Result<()> {
    let flags = if keep { FdFlags::empty() } else { FdFlags::CLOEXEC };
    for socket in sockets {
        fcntl_setfd(socket, flags)?;
    }
    Ok(())
}

/// The process that started this one to be succeeded by it.
#[derive(Debug)]
pub struct Predecessor {
    process: Pid,
    /// The descriptors of its sockets, which are this process's now.
    pub sockets: Vec<RawFd>,
    /// Those of them that a converter made.
    pub ours: Vec<RawFd>,
}

impl Predecessor {
    /// Finds it in the environment. A process that was started in any other way has none.
    pub fn find() -> Option<Self> {
        let announced: i32 = env::var(PREDECESSOR).ok()?.parse().ok()?;
        let process = getppid()?;
        let sockets = env::var(SOCKETS).ok()?;
        (process.as_raw_nonzero().get() == announced).then(|| Self {
            process,
            sockets: descriptors(&sockets),
            ours: descriptors(&env::var(OURS).unwrap_or_default()),
        })
    }

    /// Whether it is the process of this number.
    pub fn is(&self, process: u32) -> bool {
        u32::try_from(self.process.as_raw_nonzero().get()) == Ok(process)
    }

    /// Sends SIGUSR1: this process serves.
    pub fn notify_ready(&self) -> io::Result<()> {
        Ok(kill_process(self.process, Signal::USR1)?)
    }

    /// Whether it still runs: then it is this process's parent.
    pub fn is_there(&self) -> bool {
        getppid() == Some(self.process)
    }

    /// Sends SIGTERM, if it still runs: the first one shortens its deadline, the second one ends it at once.
    pub fn end(&self) {
        if self.is_there() {
            // It has ended in this moment.
            let _ = kill_process(self.process, Signal::TERM);
        }
    }
}

/// `SD_LISTEN_FDS_START`.
const FIRST_PASSED: RawFd = 3;

#[derive(Debug)]
pub struct InheritedSocket {
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
        for descriptor in tributary_sys::inherited(numbers)? {
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
        let is_transparent = wanted.tproxy().is_some();
        for (key, directive, is, should_be) in [
            (
                "mptcp",
                "SocketProtocol=mptcp",
                Some(sockets::is_mptcp(&socket.listener)),
                wanted.mptcp,
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
                let message = format!("{address}: {key} of a listener can change by a restart only");
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
    let is_meant = number("LISTEN_PID").and_then(|id| u32::try_from(id).ok()) == Some(process::id());
    let count = number("LISTEN_FDS").filter(|_| is_meant).unwrap_or(0);
    FIRST_PASSED..FIRST_PASSED.saturating_add(count)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};

    use super::*;
    use crate::io::loopback;

    /// It is about to serve when it is killed.
    #[test]
    fn what_a_killed_successor_has_sent_is_not_the_next_ones() {
        loopback::block_on(async {
            let mut superseded = unix::signal(SignalKind::user_defined1()).expect("a handler");
            let changes = unix::signal(SignalKind::child()).expect("a handler");
            let mut command = Command::new("sh");
            command.args(["-c", "kill -USR1 $PPID; echo sent; exec sleep 60"]);
            let mut child = command.stdout(Stdio::piped()).spawn().expect("started");
            let mut said = BufReader::new(child.stdout.take().expect("a pipe"));
            said.read_line(&mut String::new()).expect("a line");
            Successor { child, changes }.kill_for_another(&mut superseded).await;
            let next = timeout(Duration::from_millis(100), superseded.recv()).await;
            next.expect_err("no other signal");
        });
    }
}
