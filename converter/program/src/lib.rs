//! The frame of Tributary's programs in Rust: arguments, log, exit codes, signals, and the files of an identity.

mod capabilities;
mod failure;
mod identity;

use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::signal::unix::{Signal, SignalKind, signal};

pub use capabilities::{CapabilitySet, require};
pub use failure::{Exit, Failure};
pub use identity::IdentityFolder;

/// The whole of a `main`: parses the arguments, logs to standard error, and runs.
pub fn main<A: Parser>(run: impl FnOnce(A) -> Result<(), Failure>) -> ExitCode {
    let arguments = match A::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // A closed pipe is not an error.
            let _ = error.print();
            // Help and version are not errors.
            let code = if error.use_stderr() { Exit::Usage as u8 } else { 0 };
            return ExitCode::from(code);
        }
    };
    start_log();
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{}: {failure}", A::command().get_name());
            ExitCode::from(failure.exit as u8)
        }
    }
}

/// To standard error; the journal adds times of its own.
fn start_log() {
    let log = tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_target(false)
        .with_ansi(false);
    if std::env::var_os("JOURNAL_STREAM").is_some() {
        log.without_time().init();
    } else {
        log.init();
    }
}

/// An event loop on this thread, whose tasks stay there.
pub fn event_loop() -> Result<LocalRuntime, Failure> {
    let built = Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default());
    built.map_err(Failure::at(Exit::System, "event loop"))
}

/// The text of a file that the user named.
pub fn read_text(file: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(file).map_err(Failure::unreadable(file))
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
        let listen = |kind| signal(kind).map_err(Failure::at(Exit::System, "signals"));
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Waits for the first of them, from now on.
pub async fn end_signal() -> Result<(), Failure> {
    EndSignals::listen()?.next().await;
    Ok(())
}
