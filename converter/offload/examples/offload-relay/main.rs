//! A relay between plain TCP connections that offloads each of them to the kernel once its slow start is over: for
//! benchmarks and soak tests of the crate.

mod direction;
mod offloaded;
mod session;

use std::net::{SocketAddr, TcpListener};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;

use clap::Parser;
use tributary_offload::Pause;
use tributary_sys::device_number;

use crate::offloaded::OffloadedConnections;

/// Relays connections, and offloads each of them to the kernel once its slow start is over.
///
/// Prints `ready` when it listens. For each offloaded connection it prints {"paused": MILLISECONDS} at once (how long
/// data of both ends was dropped), and at its end {"relayed": BYTES, "translated": BYTES, "refused": SEGMENTS}; for each
/// other one {"reason": REASON, "relayed": BYTES} at its end.
#[derive(Debug, Parser)]
#[command(name = "offload-relay")]
pub struct Options {
    /// Where to listen.
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
    /// Where every connection goes.
    #[arg(long, value_name = "ADDRESS:PORT")]
    to: SocketAddr,
    /// The device by which clients come.
    #[arg(long, value_name = "NAME")]
    client_device: String,
    /// The device that goes to the server.
    #[arg(long, value_name = "NAME")]
    server_device: String,
    /// Offload no connection before so many bytes have passed.
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    after: u64,
    /// Offload none at all.
    #[arg(long)]
    relay_only: bool,
}

fn main() -> ExitCode {
    match Options::try_parse() {
        Err(error) => {
            let code = if error.use_stderr() { 64 } else { 0 };
            error.print().ok();
            ExitCode::from(code)
        }
        Ok(options) => match serve(options) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("offload-relay: {error}");
                ExitCode::from(71)
            }
        },
    }
}

/// Serves until the process ends; a thread for each connection.
fn serve(options: Options) -> Result<(), String> {
    let devices = [&options.client_device, &options.server_device].map(String::as_str);
    let offloaded = OffloadedConnections::new(devices, [number(devices[0])?, number(devices[1])?])
        .map_err(|error| format!("the kernel does not take the program: {error}"))?;
    let listener = TcpListener::bind(options.listen)
        .and_then(|listener| Pause::prepare(&listener).map(|()| listener))
        .map_err(|error| format!("listening on {}: {error}", options.listen))?;
    let offloaded = Arc::new(offloaded);
    let watching = Arc::clone(&offloaded);
    thread::spawn(move || watching.watch());
    println!("ready");
    let options = Arc::new(options);
    loop {
        let accepted = listener.accept().and_then(|(client, _)| {
            let (options, offloaded) = (Arc::clone(&options), Arc::clone(&offloaded));
            thread::Builder::new()
                .stack_size(256 << 10)
                .spawn(move || session::run(client, &options, &offloaded))
        });
        accepted.map_err(|error| format!("a connection cannot be taken: {error}"))?;
    }
}

/// The number of a device.
fn number(device: &str) -> Result<u32, String> {
    device_number(device).map_err(|error| format!("device {device:?}: {error}: accepted: one that ip-link(8) shows"))
}
