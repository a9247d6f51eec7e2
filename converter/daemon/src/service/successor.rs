//! An upgrade that refuses nobody and cuts nothing: on SIGUSR2 the program that is installed now is started beside this
//! one, with the same sockets. Once it serves it says so by SIGUSR1; this one then lets its connections end.
//!
//! ```text
//! operator --USR2--> old --starts, with its sockets--> new
//!                    old <--USR1, it serves------------ new
//!                    old drains, up to timeouts.hand_over
//! ```
//!
//! Who is told to end (SIGTERM) tells it the one before, which then has no longer than `timeouts.drain`, and waits for its end:
//! the service manager takes the end of the main process for that of all, and kills who is left.

use std::env;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::process::{ExitStatus, Stdio};

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, getppid, kill_process};
use tokio::process::{Child, Command};

const PREDECESSOR: &str = "TRIBUTARY_PREDECESSOR";
const SOCKETS: &str = "TRIBUTARY_SOCKETS";
/// Those of them that no service manager has made.
const OURS: &str = "TRIBUTARY_OWN_SOCKETS";

/// A successor that was started.
#[derive(Debug)]
pub struct Successor(Child);

impl Successor {
    /// Starts the program by the name that this process was started by, with its arguments, and sockets: `ours`, and `others`
    /// that the service manager has made.
    pub fn start(ours: &[BorrowedFd<'_>], others: &[BorrowedFd<'_>]) -> io::Result<Self> {
        let mut arguments = env::args_os();
        let program = arguments.next().ok_or(io::ErrorKind::NotFound)?;
        let sockets = [ours, others].concat();
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdin(Stdio::null())
            .env(PREDECESSOR, std::process::id().to_string())
            .env(SOCKETS, numbers(&sockets))
            .env(OURS, numbers(ours))
            // It names this process (sd_watchdog_enabled(3)), and the successor has to answer as well.
            .env_remove("WATCHDOG_PID");
        keep_over_exec(&sockets, true)?;
        let child = command.spawn();
        keep_over_exec(&sockets, false)?;
        child.map(Self)
    }

    /// Its process, as long as it was not seen to end.
    pub fn id(&self) -> Option<u32> {
        self.0.id()
    }

    /// Waits until it has ended.
    pub async fn ended(&mut self) -> io::Result<ExitStatus> {
        self.0.wait().await
    }

    /// Ends it, before it serves.
    pub fn kill(&mut self) {
        // One that has ended already is as good.
        let _ = self.0.start_kill();
    }
}

fn numbers(sockets: &[BorrowedFd<'_>]) -> String {
    let numbers: Vec<String> = sockets
        .iter()
        .map(|fd| fd.as_raw_fd().to_string())
        .collect();
    numbers.join(",")
}

/// As [`numbers`] has written them.
fn descriptors(numbers: &str) -> Vec<RawFd> {
    numbers
        .split(',')
        .filter_map(|number| number.parse().ok())
        .collect()
}

fn keep_over_exec(sockets: &[BorrowedFd<'_>], keep: bool) -> io::Result<()> {
    let flags = if keep {
        FdFlags::empty()
    } else {
        FdFlags::CLOEXEC
    };
    for socket in sockets {
        fcntl_setfd(socket, flags)?;
    }
    Ok(())
}

/// Who started this process to be succeeded by it.
#[derive(Debug)]
pub struct Predecessor {
    process: Pid,
    /// The descriptors of its sockets, which are this process's now.
    pub sockets: Vec<RawFd>,
    /// Those of them that a converter has made; of one that does not tell, none.
    pub ours: Vec<RawFd>,
}

impl Predecessor {
    /// From the environment. A process that was started in any other way has none.
    pub fn find() -> Option<Self> {
        let told: i32 = env::var(PREDECESSOR).ok()?.parse().ok()?;
        let process = getppid()?;
        let sockets = env::var(SOCKETS).ok()?;
        (process.as_raw_nonzero().get() == told).then(|| Self {
            process,
            sockets: descriptors(&sockets),
            ours: descriptors(&env::var(OURS).unwrap_or_default()),
        })
    }

    /// Whether it is the process of this number.
    pub fn is(&self, process: u32) -> bool {
        u32::try_from(self.process.as_raw_nonzero().get()) == Ok(process)
    }

    /// Tells it that this process serves.
    pub fn notify_ready(&self) -> io::Result<()> {
        Ok(kill_process(self.process, Signal::USR1)?)
    }

    /// Whether it has not ended yet: then it is still this process's parent.
    pub fn is_there(&self) -> bool {
        getppid() == Some(self.process)
    }

    /// Tells it to end: at first soon, and said again at once. Only while it is there.
    pub fn end(&self) {
        if self.is_there() {
            // It has ended in this moment.
            let _ = kill_process(self.process, Signal::TERM);
        }
    }
}
