//! Traffic for benchmarks and soak tests of a converter, and a relay as a peer to compare it with.

#![forbid(unsafe_code)]
#![allow(clippy::cast_precision_loss)] // figures for people

mod bulk;
mod failure;
mod fetch;
mod flow;
mod hold;
mod http;
mod latency;
mod origin;
mod pace;
mod pattern;
mod poll;
mod random;
mod relay;
mod requests;
mod route;
mod seconds;
mod setup;
mod shelf;
mod soak;
mod sockets;
mod start;
mod stock;
mod transfers;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tokio::runtime::Builder;

use crate::failure::Failure;

/// Traffic for benchmarks and soak tests of a converter.
///
/// Every client prints one JSON object a line; every server prints `ready` when it listens and runs until a signal.
/// Bodies are patterns in which every lost, repeated or changed byte can be seen.
#[derive(Debug, Parser)]
#[command(name = "tributary-load", version, after_help = AFTER)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const AFTER: &str = "\
Exit status:
  0   done
  1   done, and what came out is wrong: bytes, counts, connections that were dead
  64  wrong arguments; nothing was touched
  69  something is missing: no server answers, a port is in use, too few descriptors

Example:
  tributary-load origin --listen 127.0.0.1:8080 &
  tributary-load bulk --to 127.0.0.1:8080 --bytes 1000000000 --verify";

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve patterns over HTTP, and check those that are sent
    Origin(origin::Options),
    /// Move many bytes, and tell how fast
    Bulk(bulk::Options),
    /// Move bytes for a time over one connection, and break it off
    Flow(flow::Options),
    /// Ask for 1 KiB on a new connection each time, and tell how often in a second
    Connect(requests::Options),
    /// Ask for 1 KiB again and again on connections that are kept
    Requests(requests::Options),
    /// Ask for a path at regular intervals, on a new connection each time, and tell how long each answer took
    Poll(poll::Options),
    /// Time transfers of given sizes, one after the other
    Transfers(transfers::Options),
    /// Hold many idle connections, and prove that they live
    Hold(hold::Options),
    /// Measure how long connections take to stand, many at once and beside many
    Setup(setup::Options),
    /// Open, half-close and reset connections at random, and check every byte
    Soak(soak::Options),
    /// The other end of `soak`
    SoakOrigin(soak::OriginOptions),
    /// Write objects whose names say what is in them
    Stock(stock::Options),
    /// Ask for such objects at random, on connections that are kept, and check every byte
    Fetch(fetch::Options),
    /// Relay connections in the plainest way
    Relay(relay::Options),
    /// Measure how long a server takes until it listens
    Start(start::Options),
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let code = if error.use_stderr() { 64 } else { 0 };
            error.print().ok();
            return ExitCode::from(code);
        }
    };
    sockets::make_room();
    match run(arguments.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("tributary-load: {failure}");
            ExitCode::from(failure.code())
        }
    }
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Origin(options) => with_runtime(origin::run(&options)),
        Command::Bulk(options) => bulk::run(&options),
        Command::Flow(options) => with_runtime(flow::run(&options)),
        Command::Connect(options) => requests::run(options, false),
        Command::Requests(options) => requests::run(options, true),
        Command::Poll(options) => with_runtime(poll::run(options)),
        Command::Transfers(options) => transfers::run(&options),
        Command::Hold(options) => with_runtime(hold::run(options)),
        Command::Setup(options) => with_runtime(setup::run(options)),
        Command::Soak(options) => with_runtime(soak::run(options)),
        Command::SoakOrigin(options) => with_runtime(soak::run_origin(&options)),
        Command::Stock(options) => stock::run(&options),
        Command::Fetch(options) => with_runtime(fetch::run(options)),
        Command::Relay(options) => relay::run(&options),
        Command::Start(options) => start::run(&options),
    }
}

fn with_runtime(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let done = runtime.block_on(work);
    // A read of standard input cannot be called back.
    runtime.shutdown_background();
    done
}
