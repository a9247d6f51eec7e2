//! The frame of `tributary-switch` and `tributary-backend`: arguments, log, exit codes, signals.
#![forbid(unsafe_code)]
#![allow(missing_docs)] // for the programs of this project alone: what its name says needs no comment

mod capabilities;

use std::fmt::Display;
use std::io::{self, Write as _};
use std::process;

use clap::Parser;
use clap::error::ErrorKind;
use tokio::signal::unix::{Signal, SignalKind, signal};

pub use capabilities::{CapabilitySet, require};

/// sysexits(3), as in every Tributary command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitCode {
    /// Wrong arguments.
    Usage = 64,
    /// A file is not there or cannot be read.
    NoInput = 66,
    /// The system refuses.
    System = 71,
    /// A capability is missing.
    NoPermission = 77,
}

/// Why a program ends: its exit code, and one line for the user.
#[derive(Debug)]
pub struct Failure(pub ExitCode, pub String);

impl Failure {
    /// For `map_err`: puts the attempt before the error.
    pub fn at<E: Display>(exit: ExitCode, attempted: impl Display) -> impl Fn(E) -> Self {
        move |error| Self(exit, format!("{attempted}: {error}"))
    }
}

/// The whole of a `main`: parses the arguments, logs to standard error, and runs.
pub fn main<A: Parser>(run: impl FnOnce(&A) -> Result<(), Failure>) -> process::ExitCode {
    let arguments = match A::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return clap_exit(&error),
    };
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_target(false)
        .with_ansi(false)
        .init();
    match run(&arguments) {
        Ok(()) => process::ExitCode::SUCCESS,
        Err(Failure(exit, message)) => {
            eprintln!("{}: {message}", A::command().get_name());
            process::ExitCode::from(exit as u8)
        }
    }
}

/// Help and version are not errors.
fn clap_exit(error: &clap::Error) -> process::ExitCode {
    // A closed pipe is not an error.
    let _ = error.print();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => process::ExitCode::SUCCESS,
        _ => process::ExitCode::from(ExitCode::Usage as u8),
    }
}

/// Tells on standard output that the program is ready.
pub fn print_ready() {
    // A closed pipe is not an error.
    let _ = writeln!(io::stdout(), "ready");
}

/// SIGTERM and SIGINT, none of which is missed between two calls.
pub struct EndSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl EndSignals {
    pub fn listen() -> Result<Self, Failure> {
        let listen = |kind| signal(kind).map_err(Failure::at(ExitCode::System, "signals"));
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next signal.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
