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

#![cfg_attr(not(feature = "offload"), allow(dead_code))] // some is for the offloader alone

mod cli;
mod config;
mod early;
mod io;
mod kernel;
mod listener;
mod observe;
mod offload;
mod policy;
mod server;
mod upstream;

use std::io::{Write, stdout};
use std::process::ExitCode;

use cli::{Arguments, Ask, Command, report, top};
use tributary_program::{Exit, Failure};

fn main() -> ExitCode {
    tributary_program::main(|arguments: Arguments| execute(&arguments))
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
        serde_json::to_string_pretty(&status).map_err(|error| Failure::new(Exit::System, error.to_string()))? + "\n"
    } else {
        report::text(&status, None, status.connections.len())
    };
    // Whoever closed the pipe has read enough.
    let _ = stdout().write_all(text.as_bytes());
    Ok(())
}
