//! Traffic for benchmarks and soak tests of a converter, and a relay as a peer to compare it with.

#![allow(clippy::cast_precision_loss)] // figures for people

mod bulk;
mod corpus;
mod failure;
mod fetch;
mod flow;
mod generate;
mod http;
mod idle_connections;
mod latency;
mod origin;
mod pattern;
mod poll;
mod random;
mod rate_limit;
mod relay;
mod requests;
mod route;
mod seconds;
mod setup;
mod soak;
mod sockets;
mod start;
mod transfers;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tokio::runtime::Builder;

use crate::failure::{Attempt as _, Failure};

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
    /// Transfer many bytes and measure the throughput
    Bulk(bulk::Options),
    /// Transfer bytes over one connection for a time, then reset it
    Flow(flow::Options),
    /// Request 1 KiB on a new connection each time, and measure connections per second
    Connect(requests::Options),
    /// Request 1 KiB repeatedly over kept-alive connections
    Requests(requests::Options),
    /// Request a path at regular intervals on new connections, and measure the response times
    Poll(poll::Options),
    /// Time transfers of given sizes, one after the other
    Transfers(transfers::Options),
    /// Open many idle connections, and check that they are alive
    IdleConnections(idle_connections::Options),
    /// Measure how long it takes to set up connections, many at once and beside many others
    Setup(setup::Options),
    /// Open, half-close and reset connections at random, and check every byte
    Soak(soak::Options),
    /// The other end of `soak`
    SoakOrigin(soak::OriginOptions),
    /// Write objects whose names describe their content
    Generate(generate::Options),
    /// Request such objects at random over kept-alive connections, and check every byte
    Fetch(fetch::Options),
    /// Relay connections with blocking reads and writes
    Relay(relay::Options),
    /// Measure how long a server takes until it listens
    Start(start::Options),
}

fn main() -> ExitCode {
    tributary_program::main(|arguments: Arguments| run(arguments.command))
}

fn run(command: Command) -> Result<(), Failure> {
    sockets::make_room();
    match command {
        Command::Origin(options) => with_runtime(origin::run(&options)),
        Command::Bulk(options) => bulk::run(&options),
        Command::Flow(options) => with_runtime(flow::run(&options)),
        Command::Connect(options) => requests::run(options, false),
        Command::Requests(options) => requests::run(options, true),
        Command::Poll(options) => with_runtime(poll::run(options)),
        Command::Transfers(options) => transfers::run(&options),
        Command::IdleConnections(options) => with_runtime(idle_connections::run(options)),
        Command::Setup(options) => with_runtime(setup::run(options)),
        Command::Soak(options) => with_runtime(soak::run(options)),
        Command::SoakOrigin(options) => with_runtime(soak::run_origin(&options)),
        Command::Generate(options) => generate::run(&options),
        Command::Fetch(options) => with_runtime(fetch::run(options)),
        Command::Relay(options) => relay::run(&options),
        Command::Start(options) => start::run(&options),
    }
}

fn with_runtime(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .attempt("an event loop")?;
    let done = runtime.block_on(work);
    // A read of standard input cannot be called back.
    runtime.shutdown_background();
    done
}
