//! How long a server takes from its start until it listens.

use std::ffi::OsString;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Args;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::json;

use crate::bulk::print_report;
use crate::failure::{self, Attempt as _, Failure};

const NEVER: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_micros(100);

/// Starts a server so many times, one after the other, and measures the time until its address takes a connection; it is
/// tried every 0.1 ms. Each time the server is ended again, by SIGTERM or, after 5 s, by SIGKILL to its process group.
/// Prints `{"milliseconds": [...]}`.
#[derive(Args, Debug)]
pub struct Options {
    /// Where the server will listen.
    #[arg(long, value_name = "ADDRESS:PORT")]
    listens: SocketAddr,
    /// How many times.
    #[arg(long, default_value_t = 20, value_name = "COUNT")]
    times: u32,
    /// The server and its arguments; it has to stay in the foreground.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub fn run(options: &Options) -> Result<(), Failure> {
    let milliseconds: Vec<f64> = (0..options.times).map(|_| once(options)).collect::<Result<_, _>>()?;
    print_report(&json!({"milliseconds": milliseconds}));
    Ok(())
}

fn once(options: &Options) -> Result<f64, Failure> {
    if listens(options.listens) {
        return Err(failure::unavailable(format!("{} is in use", options.listens)));
    }
    let name = options.command[0].to_string_lossy();
    let start = Instant::now();
    let mut server = Command::new(&options.command[0])
        .args(&options.command[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .attempt(format!("starting {name}"))?;
    let listening = until_it_listens(options, &mut server, start);
    end(&mut server)?;
    // What the server leaves to its children may take a moment longer to end.
    while listens(options.listens) && start.elapsed() < NEVER {
        sleep(LOOK);
    }
    listening.map(|time| 1e3 * time.as_secs_f64())
}

fn until_it_listens(options: &Options, server: &mut Child, start: Instant) -> Result<Duration, Failure> {
    let name = options.command[0].to_string_lossy();
    loop {
        if listens(options.listens) {
            return Ok(start.elapsed());
        }
        if let Some(status) = server.try_wait().attempt(&name)? {
            let how = status
                .signal()
                .map_or_else(|| status.to_string(), |signal| format!("signal {signal}"));
            return Err(failure::unavailable(format!(
                "{name} ended instead of listening: {how}"
            )));
        }
        if start.elapsed() > NEVER {
            return Err(failure::unavailable(format!(
                "{name} does not listen on {}",
                options.listens
            )));
        }
        sleep(LOOK);
    }
}

fn listens(address: SocketAddr) -> bool {
    TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok()
}

fn end(server: &mut Child) -> Result<(), Failure> {
    let group = i32::try_from(server.id()).ok().and_then(Pid::from_raw);
    let group = group.ok_or_else(|| failure::unavailable("a process without a process id"))?;
    kill_process_group(group, Signal::TERM).ok(); // it may have ended
    let asked = Instant::now();
    while matches!(server.try_wait(), Ok(None)) && asked.elapsed() < Duration::from_secs(5) {
        sleep(Duration::from_millis(1));
    }
    kill_process_group(group, Signal::KILL).ok(); // mostly nothing is left
    server.wait().attempt("the server's end")?;
    Ok(())
}
