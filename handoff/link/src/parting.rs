//! A client's connection out of its socket, together with what came by it.

use std::{fmt, io};

use handoff_protocol::MOST_BYTES;
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use tokio::net::TcpStream;
use tributary_offload::{Checkpoint, NotQuiescent, begin_dropping_all, checkpoint, release};

/// Something may come while it is frozen; then again.
const TRIES: usize = 3;
/// Read at a time.
const PIECE: usize = 64 << 10;

/// Why a connection stays in its socket.
#[derive(Debug)]
pub enum Parting {
    /// Its state cannot be had whole.
    NotQuiescent(NotQuiescent),
    /// The client has sent more than travels with it.
    TooMuch,
    /// The client has ended, or broke off.
    Gone,
}

impl fmt::Display for Parting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotQuiescent(obstacle) => obstacle.fmt(f),
            Self::TooMuch => f.write_str("the client has sent more than travels along"),
            Self::Gone => f.write_str("the client has left"),
        }
    }
}

impl From<io::Error> for Parting {
    fn from(error: io::Error) -> Self {
        Self::NotQuiescent(error.into())
    }
}

/// Freezes the connection; what came by it and was not read is behind `bytes` then. Otherwise it goes on, and what was read
/// is there, too. Waits for nobody: some microseconds.
pub fn part(stream: &TcpStream, bytes: &mut Vec<u8>) -> Result<Checkpoint, Parting> {
    let parted = begin_dropping_all(stream)
        .map_err(Parting::from)
        .and_then(|()| try_to_part(stream, bytes));
    if parted.is_err() {
        // It was not held if that was what failed.
        let _ = release(stream);
    }
    parted
}

fn try_to_part(stream: &TcpStream, bytes: &mut Vec<u8>) -> Result<Checkpoint, Parting> {
    let mut last = NotQuiescent::Unread(0);
    for _ in 0..TRIES {
        drain(stream, bytes)?;
        match checkpoint(stream) {
            Err(obstacle @ NotQuiescent::Unread(_)) => last = obstacle,
            other => return other.map_err(Parting::NotQuiescent),
        }
    }
    Err(Parting::NotQuiescent(last))
}

fn drain(stream: &TcpStream, bytes: &mut Vec<u8>) -> Result<(), Parting> {
    loop {
        if bytes.len() > MOST_BYTES {
            return Err(Parting::TooMuch);
        }
        bytes.reserve(PIECE);
        // Not by way of the event loop, which may not have heard of all yet.
        match recv(stream, spare_capacity(bytes), RecvFlags::DONTWAIT) {
            Ok((0, _)) => return Err(Parting::Gone),
            Ok(_) => {}
            Err(Errno::AGAIN) => return Ok(()),
            Err(_) => return Err(Parting::Gone),
        }
    }
}
