//! A client's connection while it is here, and what a server does with it.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use rustix::fs::sendfile;
use socket2::SockRef;
use tokio::io::{AsyncWriteExt as _, Interest};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};
use tributary_offload::unacknowledged;

/// What a client still sends behind the last answer is read for so long: to close at once would reset the connection, and
/// the reset could overtake the answer (RFC 9112 section 9.6).
const LINGER: Duration = Duration::from_secs(2);
/// Between two looks whether the client has acknowledged all: a sixteenth of what it has taken so far, within these limits.
const LOOKS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));
/// Read at a time.
const PIECE: usize = 64 << 10;
/// Given to the kernel at a time.
const FILE_PIECE: usize = 1 << 20;

/// Answers requests.
pub trait Server: Send + Sync + 'static {
    /// What it keeps for one guest from request to request.
    type Kept: Default + Send;

    /// Answers the next request, which begins with the guest's inbox; more of it may have to be read.
    fn serve(&self, guest: &mut Guest, kept: &mut Self::Kept)
    -> impl Future<Output = After> + Send;
}

/// Reads once into the room that `bytes` have; 0 at the end. To read by `AsyncRead` would take a read that returned less than
/// was asked for to mean that the socket is empty, but recv(2) stops before urgent data.
pub(crate) async fn read_some(stream: &TcpStream, bytes: &mut Vec<u8>) -> io::Result<usize> {
    loop {
        stream.readable().await?;
        match stream.try_read_buf(bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            read => return read,
        }
    }
}

/// Urgent data stay where they are in the stream (RFC 6093 section 6).
pub(crate) fn read_urgent_data_inline(stream: &TcpStream) {
    // TCP's sockets all take it.
    let _ = SockRef::from(stream).set_out_of_band_inline(true);
}

/// What becomes of a connection behind an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// Another request may follow.
    Next,
    /// It ends in order.
    Close,
    /// It is reset.
    Reset,
}

/// A client's connection.
#[derive(Debug)]
pub struct Guest {
    /// To drop it resets it.
    pub stream: TcpStream,
    /// The client's address, and the one that it connected to.
    pub ends: [SocketAddr; 2],
    /// What came and was not used yet.
    pub inbox: Vec<u8>,
    /// Bytes that were sent so far.
    pub(crate) sent: u64,
    /// It may take so long for the next byte.
    pub(crate) idle: Duration,
}

impl Guest {
    pub(crate) fn new(
        stream: TcpStream,
        ends: [SocketAddr; 2],
        inbox: Vec<u8>,
        idle: Duration,
    ) -> Self {
        read_urgent_data_inline(&stream);
        Self {
            stream,
            ends,
            inbox,
            sent: 0,
            idle,
        }
    }

    /// Bytes that were sent so far.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Waits for more bytes behind the inbox; 0 at the client's end. Raises also that it took too long.
    pub async fn read_more(&mut self) -> io::Result<usize> {
        timeout(self.idle, self.read()).await?
    }

    /// The same, however long it takes.
    pub(crate) async fn read(&mut self) -> io::Result<usize> {
        self.inbox.reserve(PIECE);
        read_some(&self.stream, &mut self.inbox).await
    }

    /// Sends all of `bytes`.
    pub async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let count = timeout(self.idle, self.stream.write(rest)).await??;
            rest = &rest[count..];
            self.sent += count as u64;
        }
        Ok(())
    }

    /// Sends so many bytes of a file (sendfile(2)). Raises also that it has become shorter.
    pub async fn send_file(&mut self, file: &File, mut from: u64, length: u64) -> io::Result<()> {
        let end = from + length;
        while from < end {
            let most = usize::try_from(end - from).map_or(FILE_PIECE, |rest| rest.min(FILE_PIECE));
            let stream = &self.stream;
            let send = || Ok(sendfile(stream, file, Some(&mut from), most)?);
            match stream.try_io(Interest::WRITABLE, send) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.sent += count as u64,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    timeout(self.idle, stream.writable()).await??;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits until the client has acknowledged all that was sent. Raises that it took nothing of it for too long, and that
    /// the connection is gone.
    pub(crate) async fn delivered(&self) -> io::Result<()> {
        let begun = Instant::now();
        let (mut left, mut moved) = (u32::MAX, begun);
        loop {
            let now = unacknowledged(&self.stream)?;
            if now == 0 {
                return Ok(());
            }
            // Of a connection that is gone the count stays as it was, and whoever read last was told its error.
            self.stream.peer_addr()?;
            if now < left {
                (left, moved) = (now, Instant::now());
            } else if moved.elapsed() > self.idle {
                return Err(io::ErrorKind::TimedOut.into());
            }
            sleep((begun.elapsed() / 16).clamp(LOOKS.0, LOOKS.1)).await;
        }
    }

    /// Ends in order; ready when the client has all that was sent, or is gone. Until then its packets are to come here.
    pub(crate) async fn close(mut self) {
        // A connection that is gone shows below.
        let _ = SockRef::from(&self.stream).set_linger(None);
        let _ = self.stream.shutdown().await;
        let mut rest = pin!(self.ignore_the_rest());
        let ended = tokio::select! {
            ended = &mut rest => ended,
            delivered = self.delivered() => match delivered {
                Ok(()) => return drop(timeout(LINGER, rest).await),
                Err(_) => return,
            },
        };
        if ended.is_ok() {
            // Or it is gone.
            let _ = self.delivered().await;
        }
    }

    /// Reads until the client's end.
    async fn ignore_the_rest(&self) -> io::Result<()> {
        let mut ignored = vec![0; PIECE];
        loop {
            self.stream.readable().await?;
            match self.stream.try_read(&mut ignored) {
                Ok(0) => return Ok(()),
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                _ => {}
            }
        }
    }
}
