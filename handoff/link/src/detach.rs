//! Detaches a client's connection from its socket, together with the received bytes.

use std::io;

use handoff_protocol::MAX_CLIENT_BYTES;
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use thiserror::Error;
use tokio::net::TcpStream;
use tributary_offload::{Checkpoint, NotQuiescent, begin_dropping_all, checkpoint, release};

/// Bytes may arrive during an attempt; then it is tried again.
const ATTEMPTS: usize = 3;
const READ_SIZE: usize = 64 << 10;

/// Why a connection cannot be detached.
#[derive(Debug, Error)]
pub enum DetachError {
    /// Its state cannot be read completely.
    #[error("{0}")]
    NotQuiescent(NotQuiescent),
    #[error("the client has sent more than a message can carry")]
    TooManyBytes,
    /// Or reset it.
    #[error("the client has closed the connection")]
    ClientClosed,
}

impl From<io::Error> for DetachError {
    fn from(error: io::Error) -> Self {
        Self::NotQuiescent(error.into())
    }
}

/// Takes the connection out of its socket, and appends the received bytes to `bytes`. After an error the connection continues, with the
/// bytes read so far in `bytes`. Does not wait: it takes some microseconds.
pub fn detach(stream: &TcpStream, bytes: &mut Vec<u8>) -> Result<Checkpoint, DetachError> {
    let parted = begin_dropping_all(stream)
        .map_err(DetachError::from)
        .and_then(|()| try_to_detach(stream, bytes));
    if parted.is_err() {
        // Without effect if the filter could not be installed.
        let _ = release(stream);
    }
    parted
}

fn try_to_detach(stream: &TcpStream, bytes: &mut Vec<u8>) -> Result<Checkpoint, DetachError> {
    let mut last = NotQuiescent::Unread(0);
    for _ in 0..ATTEMPTS {
        drain(stream, bytes)?;
        match checkpoint(stream) {
            Err(reason @ NotQuiescent::Unread(_)) => last = reason,
            other => return other.map_err(DetachError::NotQuiescent),
        }
    }
    Err(DetachError::NotQuiescent(last))
}

fn drain(stream: &TcpStream, bytes: &mut Vec<u8>) -> Result<(), DetachError> {
    loop {
        if bytes.len() > MAX_CLIENT_BYTES {
            return Err(DetachError::TooManyBytes);
        }
        bytes.reserve(READ_SIZE);
        // Not through the event loop, which may not know of all bytes yet.
        match recv(stream, spare_capacity(bytes), RecvFlags::DONTWAIT) {
            Ok((0, _)) => return Err(DetachError::ClientClosed),
            Ok(_) => {}
            Err(Errno::AGAIN) => return Ok(()),
            Err(_) => return Err(DetachError::ClientClosed),
        }
    }
}
