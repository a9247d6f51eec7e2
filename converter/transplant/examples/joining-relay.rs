//! A relay between plain TCP connections whose bytes the kernel moves from the first one on: for benchmarks, beside
//! `leaving-relay`.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::thread::{self, sleep};
use std::time::Duration;

use clap::Parser;
use rustix::event::{PollFd, PollFlags, poll};
use serde_json::json;
use tributary_transplant::{Joined, Joiner, Obstacle, deafen, release};

const LOOK: Duration = Duration::from_millis(1);

/// Relays connections in the kernel (sockmap): what comes by one socket the other one writes.
///
/// Prints `ready` when it listens, and at the end of each connection {"joined": BYTES}, or {"failed": WHY}. What comes
/// faster than it goes takes memory: it is not for links that differ much.
#[derive(Debug, Parser)]
#[command(name = "joining-relay")]
struct Options {
    /// Where to listen.
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
    /// Where every connection goes.
    #[arg(long, value_name = "ADDRESS:PORT")]
    to: SocketAddr,
}

fn main() -> ExitCode {
    match Options::try_parse() {
        Err(error) => {
            let code = if error.use_stderr() { 64 } else { 0 };
            error.print().ok();
            ExitCode::from(code)
        }
        Ok(options) => match serve(&options) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("joining-relay: {error}");
                ExitCode::from(71)
            }
        },
    }
}

/// Serves until the process ends; a thread for each connection.
fn serve(options: &Options) -> Result<(), String> {
    let joiner =
        Joiner::load().map_err(|error| format!("the kernel does not take the program: {error}"))?;
    let joiner = Arc::new(Mutex::new(joiner));
    let listener = TcpListener::bind(options.listen)
        .map_err(|error| format!("listening on {}: {error}", options.listen))?;
    println!("ready");
    let to = options.to;
    loop {
        let (client, _) = listener
            .accept()
            .map_err(|error| format!("a connection cannot be taken: {error}"))?;
        let joiner = Arc::clone(&joiner);
        thread::spawn(move || match relay(client, to, &joiner) {
            Ok(bytes) => println!("{}", json!({"joined": bytes})),
            Err(error) => println!("{}", json!({"failed": error.to_string()})),
        });
    }
}

/// Relays to the end; the bytes of both directions.
fn relay(client: TcpStream, to: SocketAddr, kernel: &Mutex<Joiner>) -> io::Result<u64> {
    let sockets = [client, TcpStream::connect(to)?];
    let joined = join(&sockets, kernel)?;
    let both = sockets.each_ref().map(TcpStream::as_fd);
    let mut ended = [false, false];
    while !ended.iter().all(|&ended| ended) {
        let wanted = |own: usize| {
            if ended[own] {
                PollFlags::empty()
            } else {
                PollFlags::RDHUP
            }
        };
        let mut asked = [0, 1].map(|own| PollFd::new(&sockets[own], wanted(own)));
        poll(&mut asked, None)?;
        let told = asked.each_ref().map(PollFd::revents);
        for own in 0..2 {
            if told[own].intersects(PollFlags::ERR) {
                return Err(sockets[own]
                    .take_error()?
                    .unwrap_or(ErrorKind::ConnectionReset.into()));
            }
            if !ended[own] && told[own].intersects(PollFlags::RDHUP | PollFlags::HUP) {
                while !joined.is_written(both, own)? {
                    sleep(LOOK);
                }
                sockets[1 - own].shutdown(Shutdown::Write)?;
                ended[own] = true;
            }
        }
    }
    joined.passed(both)
}

/// Both sockets, joined. What came before that is passed on, and what is dropped meanwhile is sent again.
fn join(sockets: &[TcpStream; 2], kernel: &Mutex<Joiner>) -> io::Result<Joined> {
    let both = sockets.each_ref().map(TcpStream::as_fd);
    deafen(&both)?;
    for socket in sockets {
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
    }
    pass_on(&sockets[0], &sockets[1])?;
    pass_on(&sockets[1], &sockets[0])?;
    loop {
        match kernel.lock().expect("no thread panics").join(both) {
            Ok(joined) => {
                for socket in both {
                    release(socket)?;
                }
                return Ok(joined);
            }
            Err(Obstacle::InFlight(_)) => sleep(LOOK),
            Err(obstacle) => return Err(io::Error::other(obstacle)),
        }
    }
}

/// What has come so far.
fn pass_on(mut from: &TcpStream, mut to: &TcpStream) -> io::Result<()> {
    let mut bytes = vec![];
    match from.read_to_end(&mut bytes) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => to.write_all(&bytes),
        Err(error) => Err(error),
        Ok(_) => Err(io::Error::other("an end had nothing to say")),
    }
}
