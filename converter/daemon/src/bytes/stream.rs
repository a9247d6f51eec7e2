//! Connections that are reset if they are dropped in mid-way, so that nobody takes a part for the whole.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::ops::Deref;
use std::task::Poll;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::RecvFlags;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use crate::bytes::buffers::with_scratch;
use crate::bytes::deadline::Deadline;
use crate::kernel::sockets;

/// What a peer may still send after it was refused, and for how long, until it is cut off.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES: usize = 256 << 10;
const PIECE: usize = 16 << 10;

/// A connection; to drop it resets it, unless it was finished.
#[derive(Debug)]
pub struct Stream {
    tcp: TcpStream,
    finished: bool,
    /// For reads.
    read_deadline: RefCell<Deadline>,
}

impl Stream {
    /// Takes over `tcp`.
    pub fn new(tcp: TcpStream) -> Self {
        Self {
            tcp,
            finished: false,
            read_deadline: RefCell::default(),
        }
    }

    /// All was said: to drop it closes it in order.
    pub fn finish(&mut self) {
        self.finished = true;
    }

    /// Waits for bytes, until the deadline if there is one, and adds what came to `inbox`; 0 at the end. No memory is
    /// taken while it waits. One caller at a time.
    pub async fn read_more(
        &self,
        inbox: &mut Vec<u8>,
        most: usize,
        deadline: Option<Instant>,
    ) -> io::Result<usize> {
        poll_fn(|cx| {
            loop {
                if self.tcp.poll_read_ready(cx)?.is_pending() {
                    let late = deadline.is_some_and(|deadline| {
                        self.read_deadline
                            .borrow_mut()
                            .poll_until(cx, deadline)
                            .is_ready()
                    });
                    return if late {
                        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
                    } else {
                        Poll::Pending
                    };
                }
                match self.read_now(inbox, most) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    other => return Poll::Ready(other),
                }
            }
        })
        .await
    }

    fn read_now(&self, inbox: &mut Vec<u8>, most: usize) -> io::Result<usize> {
        with_scratch(most, |scratch| {
            let count = sockets::read(&self.tcp, &mut scratch[..most])?;
            inbox.extend_from_slice(&scratch[..count]);
            Ok(count)
        })
    }

    /// Writes all of `bytes`.
    pub async fn send(&self, bytes: &[u8], deadline: Option<Instant>) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.tcp.try_write(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    by(deadline, self.tcp.writable()).await?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Says `last` and ends. What the peer still sends is read for a moment: to close at once would reset the
    /// connection, and the reset could overtake `last` (RFC 9112 section 9.6, RFC 8803 section 6.2.2).
    pub async fn end_with(mut self, last: &[u8]) {
        let deadline = Some(Instant::now() + LINGER);
        if self.send(last, deadline).await.is_err() || sockets::end_writing(&self.tcp).is_err() {
            return;
        }
        let mut ignored = Vec::new();
        let mut heard = 0;
        while heard < LINGER_BYTES {
            match self.read_more(&mut ignored, PIECE, deadline).await {
                Ok(0) => break,
                Ok(count) => heard += count,
                Err(_) => return,
            }
            ignored.clear();
        }
        self.finish();
    }

    /// More will be said: from now on to drop it resets it again.
    pub fn resume(&mut self) {
        self.finished = false;
    }

    /// Whether the peer reset the connection and left nothing to be read.
    pub fn is_broken(&self) -> bool {
        let peeked = rustix::net::recv(
            &self.tcp,
            &mut [0; 1],
            RecvFlags::PEEK | RecvFlags::DONTWAIT,
        );
        peeked.is_err_and(|error| error != Errno::WOULDBLOCK)
    }

    /// Whether the peer has neither sent anything nor ended, as far as the event loop knows: a kept connection that can
    /// be used again.
    pub fn is_quiet(&self) -> bool {
        let read = self.tcp.try_read(&mut [0; 1]);
        read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }
}

async fn by<T>(
    deadline: Option<Instant>,
    action: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    match deadline {
        Some(deadline) => timeout_at(deadline, action)
            .await
            .map_err(|_| io::ErrorKind::TimedOut)?,
        None => action.await,
    }
}

impl Deref for Stream {
    type Target = TcpStream;

    fn deref(&self) -> &TcpStream {
        &self.tcp
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if !self.finished {
            sockets::reset_on_close(&self.tcp);
        }
    }
}
