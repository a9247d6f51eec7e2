//! What `tributary-overlay` and `overlay-dns` do around their work: arguments, log, exit codes, signals.

use std::io;
use std::process::ExitCode;

use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};

use crate::failure::{Exit, Failure};

/// The whole of a `main`: reads the arguments, logs to standard error, and runs.
pub fn main<A: Parser>(run: impl FnOnce(A) -> Result<(), Failure>) -> ExitCode {
    let arguments = match A::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let code = if error.use_stderr() {
                Exit::Usage as u8
            } else {
                0
            };
            error.print().ok();
            return ExitCode::from(code);
        }
    };
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_target(false)
        .with_ansi(false)
        .init();
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{}: {}", A::command().get_name(), failure.line);
            ExitCode::from(failure.exit as u8)
        }
    }
}

/// Ready once the program is told to end, by SIGTERM or SIGINT.
pub async fn asked_to_end() -> Result<(), Failure> {
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
