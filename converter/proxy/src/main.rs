//! `tributary-converter`: ends Multipath TCP (RFC 8684) on the client's side and speaks plain TCP to servers.
//!
//! A client's connection: `server/worker` accepts it and makes a `Conn`, its `listener` reads what the client wants,
//! `upstream::connect` connects to the server, `io::relay` moves bytes, `Conn::record` counts and logs the end.
//!
//! | folder | what it has |
//! |---|---|
//! | `cli` | the command line, and how a status is shown |
//! | `config` | what an operator writes, checked whole |
//! | `server` | the process: active configuration, threads, signals, what it answers |
//! | `listener` | one client, in its protocol |
//! | `policy` | who may come in, what may be reached |
//! | `upstream` | connections to servers, and to the next converter |
//! | `early` | connections begun when the client's SYN comes |
//! | `offload` | connections that are offloaded to the kernel |
//! | `io` | connections, relays, buffers, timers |
//! | `observe` | who is in, what became of the others: metrics, access log |
//! | `kernel` | what the kernel is asked for: sockets, routes, options, programs |

mod cli;
mod config;
mod early;
mod failure;
mod io;
mod kernel;
mod listener;
mod observe;
mod offload;
mod policy;
mod server;
mod upstream;

use std::io::{Write, stderr, stdout};
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use cli::{Arguments, Ask, Command, report, top};
use failure::{Exit, Failure};

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return said_by_clap(&error),
    };
    start_log();
    match execute(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("tributary-converter: {failure}");
            ExitCode::from(failure.exit as u8)
        }
    }
}

/// Help and version are no errors; anything else is wrong usage, and leaves with the code for that.
fn said_by_clap(error: &clap::Error) -> ExitCode {
    // Whoever closed the pipe does not want to read it.
    let _ = error.print();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
        _ => ExitCode::from(Exit::Usage as u8),
    }
}

fn execute(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.command {
        Some(Command::Status(ask)) => show(ask),
        Some(Command::Top(target)) => top(&target.socket),
        None if arguments.check => config::load(arguments.config.as_deref()).map(drop),
        None => server::run(arguments.config.as_deref()),
    }
}

fn show(ask: &Ask) -> Result<(), Failure> {
    let status = server::ask(&ask.target.socket)?;
    let text = if ask.json {
        serde_json::to_string_pretty(&status)
            .map_err(|error| Failure::new(Exit::System, error.to_string()))?
            + "\n"
    } else {
        report::text(&status, None, status.connections.len())
    };
    // Whoever closed the pipe has read enough.
    let _ = stdout().write_all(text.as_bytes());
    Ok(())
}

/// To standard error; the journal adds times of its own.
fn start_log() {
    let log = tracing_subscriber::fmt()
        .with_writer(stderr)
        .with_target(false)
        .with_ansi(false);
    if std::env::var_os("JOURNAL_STREAM").is_some() {
        log.without_time().init();
    } else {
        log.init();
    }
}
