//! The frame of `tributary-overlay` and `overlay-dns`: arguments, log, exit codes, signals.

use std::io;
use std::process;

use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};

use crate::failure::{ExitCode, Failure};

/// The whole of a `main`: parses the arguments, logs to standard error, and runs.
pub fn main<A: Parser>(run: impl FnOnce(A) -> Result<(), Failure>) -> process::ExitCode {
    let arguments = match A::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let code = if error.use_stderr() {
                ExitCode::Usage as u8
            } else {
                0
            };
            error.print().ok();
            return process::ExitCode::from(code);
        }
    };
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_target(false)
        .with_ansi(false)
        .init();
    match run(arguments) {
        Ok(()) => process::ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{}: {}", A::command().get_name(), failure.line);
            process::ExitCode::from(failure.exit as u8)
        }
    }
}

/// Waits for SIGTERM or SIGINT.
pub async fn end_signal() -> Result<(), Failure> {
    let listen = |kind| signal(kind).map_err(|error| Failure::from_io("signals", &error));
    let (mut terminate, mut interrupt) = (
        listen(SignalKind::terminate())?,
        listen(SignalKind::interrupt())?,
    );
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}
