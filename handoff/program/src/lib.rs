//! What `tributary-switch` and `tributary-backend` do around their work: arguments, log, exit codes, signals.
#![forbid(unsafe_code)]

mod capabilities;

use std::fmt::Display;
use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;
use tokio::signal::unix::{Signal, SignalKind, signal};

pub use capabilities::{CapabilitySet, need};

/// sysexits(3), as every Tributary command has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Wrong arguments.
    Usage = 64,
    /// A file is not there or cannot be read.
    NoInput = 66,
    /// The system refuses.
    System = 71,
    /// A capability is missing.
    NoPermission = 77,
}

/// Why a program ends: its exit code, and one line for who started it.
#[derive(Debug)]
pub struct Failure(pub Exit, pub String);

impl Failure {
    /// For `map_err`: what was attempted goes before the error.
    pub fn at<E: Display>(exit: Exit, attempted: impl Display) -> impl Fn(E) -> Self {
        move |error| Self(exit, format!("{attempted}: {error}"))
    }
}

/// The whole of a `main`: reads the arguments, logs to standard error, and runs.
pub fn main<A: Parser>(run: impl FnOnce(&A) -> Result<(), Failure>) -> ExitCode {
    let arguments = match A::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return said_by_clap(&error),
    };
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_target(false)
        .with_ansi(false)
        .init();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure(exit, message)) => {
            eprintln!("{}: {message}", A::command().get_name());
            ExitCode::from(exit as u8)
        }
    }
}

/// Help and version are no errors.
fn said_by_clap(error: &clap::Error) -> ExitCode {
    // Whoever closed the pipe does not want to read it.
    let _ = error.print();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
        _ => ExitCode::from(Exit::Usage as u8),
    }
}

/// Tells on standard output that the program does its work from now on.
pub fn say_ready() {
    // Whoever closed our standard output does not wait for this.
    let _ = writeln!(io::stdout(), "ready");
}

/// SIGTERM and SIGINT, from now on: none is missed between two looks.
pub struct EndSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl EndSignals {
    /// Begins to listen.
    pub fn listen() -> Result<Self, Failure> {
        let listen = |kind| signal(kind).map_err(Failure::at(Exit::System, "signals"));
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    /// Ready once the program is told to end, again each time.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
