//! Writes to a peer at once, and keeps what the peer does not take.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use tokio::net::TcpStream;

use super::buffers::{Budget, WriteBacklog};

/// Writes to one peer.
#[derive(Debug)]
pub struct BufferedWriter<'a> {
    to: &'a TcpStream,
    backlog: WriteBacklog<'a>,
    moved: u64,
    counter: &'a AtomicU64,
}

impl<'a> BufferedWriter<'a> {
    /// Writes to `to`. `counter` counts the bytes that it takes, `budget` those that wait.
    pub fn new(to: &'a TcpStream, budget: &'a Budget, counter: &'a AtomicU64) -> Self {
        Self {
            to,
            backlog: WriteBacklog::new(budget),
            moved: 0,
            counter,
        }
    }

    /// Bytes that the peer has taken.
    pub fn moved(&self) -> u64 {
        self.moved
    }

    /// Whether the peer has taken everything.
    pub fn is_flushed(&self) -> bool {
        self.backlog.is_empty()
    }

    /// Writes as much as the peer takes now, and keeps the rest. The backlog must be empty.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.to.try_write(rest) {
                Ok(count) => {
                    self.count(count);
                    rest = &rest[count..];
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        if !rest.is_empty() {
            self.backlog.queue(rest.to_vec());
        }
        Ok(())
    }

    /// Keeps `bytes` for the next flush. The backlog must be empty.
    pub fn queue(&mut self, bytes: Vec<u8>) {
        self.backlog.queue(bytes);
    }

    /// Ready when the peer has taken everything.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.backlog.is_empty() {
            ready!(self.to.poll_write_ready(cx))?;
            match self.to.try_write(self.backlog.bytes()) {
                Ok(count) => {
                    self.backlog.take(count);
                    self.count(count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Drops the backlog.
    pub fn discard(&mut self) {
        self.backlog.discard();
    }

    fn count(&mut self, count: usize) {
        self.moved += count as u64;
        self.counter.fetch_add(count as u64, Ordering::Relaxed);
    }
}
