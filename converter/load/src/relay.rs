//! The plainest relay there is, as a peer: two threads for each connection, blocking reads and writes.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;

use clap::Args;

use crate::failure::{Attempt as _, Failure};
use crate::sockets::Listen;

/// A thread for each direction of each connection reads and writes. It has no limits, no time-outs and no way to pass a
/// reset on: it shows what moving the bytes costs, and nothing else.
#[derive(Args, Debug)]
pub struct Options {
    #[command(flatten)]
    listen: Listen,
    /// Where every connection goes, by plain TCP.
    #[arg(long, value_name = "ADDRESS:PORT")]
    to: SocketAddr,
    /// What is read at once.
    #[arg(long, default_value = "256KiB", value_name = "SIZE", value_parser = size)]
    buffer: usize,
}

pub fn run(options: &Options) -> Result<(), Failure> {
    let listener = options.listen.listen(100_000)?;
    listener.set_nonblocking(false).attempt("a listener")?;
    loop {
        let accepted = listener.accept().and_then(|(client, _)| {
            let (to, buffer) = (options.to, options.buffer);
            // Nobody is told of a connection that failed: this relay's peers are.
            spawn(move || relay(client, to, buffer).unwrap_or_default())
        });
        accepted.attempt("a connection")?;
    }
}

fn spawn(work: impl FnOnce() + Send + 'static) -> io::Result<thread::JoinHandle<()>> {
    thread::Builder::new().stack_size(64 << 10).spawn(work)
}

fn relay(client: TcpStream, to: SocketAddr, buffer: usize) -> io::Result<()> {
    let server = Arc::new(TcpStream::connect(to)?);
    let client = Arc::new(client);
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let ends = (Arc::clone(&client), Arc::clone(&server));
    spawn(move || copy(&ends.0, &ends.1, buffer))?;
    copy(&server, &client, buffer);
    Ok(())
}

/// Copies until either end is gone, and passes an end on.
fn copy(mut from: &TcpStream, mut to: &TcpStream, buffer: usize) {
    let mut buffer = vec![0; buffer];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    to.shutdown(Shutdown::Write).ok();
}

/// `256KiB`, `1MiB` or `4096B`; at least one byte.
fn size(text: &str) -> Result<usize, String> {
    let units = [("KiB", 1 << 10), ("MiB", 1 << 20), ("B", 1)];
    let parsed = units.iter().find_map(|(unit, factor)| {
        let number: usize = text.strip_suffix(unit)?.parse().ok()?;
        number.checked_mul(*factor).filter(|size| *size > 0)
    });
    parsed.ok_or_else(|| "accepted: a whole number and B, KiB or MiB, such as 256KiB".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_needs_a_unit() {
        assert_eq!(size("256KiB"), Ok(262_144));
        assert_eq!(size("2MiB"), Ok(2_097_152));
        assert_eq!(size("17B"), Ok(17));
        for wrong in ["256", "0KiB", "x", "KiB", "-1B", "99999999999999999999MiB"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
