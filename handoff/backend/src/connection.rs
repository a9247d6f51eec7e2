//! A client's connection, and the server that serves it.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use rustix::fs::sendfile;
use socket2::SockRef;
use tokio::io::{AsyncWriteExt as _, Interest};
use tokio::net::TcpStream;
use tokio::task::{coop::consume_budget, yield_now};
use tokio::time::{Instant, sleep, timeout};
use tributary_sys::unacknowledged;

/// After the last answer, what the client still sends is read for so long: closing at once would reset the connection, and
/// the reset might overtake the answer (RFC 9112 section 9.6).
const LINGER: Duration = Duration::from_secs(2);
/// The interval of checks whether the client has acknowledged everything: a sixteenth of the time so far, within these
/// limits.
const ACK_POLL: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));
const READ_SIZE: usize = 64 << 10;
/// The most bytes per sendfile(2).
const SENDFILE_SIZE: usize = 1 << 20;

pub trait Server: Send + Sync + 'static {
    /// What it keeps for a connection between requests.
    type State: Default + Send;

    /// Serves the next request, the beginning of which is in the inbox.
    fn serve(&self, client: &mut ClientConnection, state: &mut Self::State) -> impl Future<Output = NextStep> + Send;
}

/// Reads once into the spare capacity of `bytes`; 0 at the end. `AsyncRead` would take a short read to mean that the socket
/// is empty, but recv(2) also stops before urgent data. However much comes, others have their turns, and time-outs count.
pub(crate) async fn read_some(stream: &TcpStream, bytes: &mut Vec<u8>) -> io::Result<usize> {
    loop {
        consume_budget().await;
        stream.readable().await?;
        match stream.try_read_buf(bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            read => return read,
        }
    }
}

/// Urgent data stay in the stream (RFC 6093 section 6).
pub(crate) fn inline_urgent_data(stream: &TcpStream) {
    // Every TCP socket supports it.
    let _ = SockRef::from(stream).set_out_of_band_inline(true);
}

/// What happens to a connection after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// Another request may follow.
    KeepAlive,
    Close,
    Reset,
}

#[derive(Debug)]
pub struct ClientConnection {
    /// Dropping it resets the connection.
    pub stream: TcpStream,
    /// The client's address, and the address that it connected to.
    pub ends: [SocketAddr; 2],
    /// Received bytes that were not used yet.
    pub inbox: Vec<u8>,
    pub(crate) sent: u64,
    /// The longest time without a byte.
    pub(crate) idle: Duration,
}

impl ClientConnection {
    pub(crate) fn new(stream: TcpStream, ends: [SocketAddr; 2], inbox: Vec<u8>, idle: Duration) -> Self {
        inline_urgent_data(&stream);
        Self {
            stream,
            ends,
            inbox,
            sent: 0,
            idle,
        }
    }

    /// Reads more bytes into the inbox; 0 at the client's end. Times out.
    pub async fn read_more(&mut self) -> io::Result<usize> {
        timeout(self.idle, self.read()).await?
    }

    /// The same without a time-out.
    pub(crate) async fn read(&mut self) -> io::Result<usize> {
        self.inbox.reserve(READ_SIZE);
        read_some(&self.stream, &mut self.inbox).await
    }

    pub async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let count = timeout(self.idle, self.stream.write(rest)).await??;
            rest = &rest[count..];
            self.sent += count as u64;
        }
        Ok(())
    }

    /// Sends `length` bytes of a file (sendfile(2)). Fails if the file has become shorter.
    pub async fn send_file(&mut self, file: &File, mut from: u64, length: u64) -> io::Result<()> {
        let end = from + length;
        while from < end {
            let most = usize::try_from(end - from).map_or(SENDFILE_SIZE, |rest| rest.min(SENDFILE_SIZE));
            let stream = &self.stream;
            let send = || Ok(sendfile(stream, file, Some(&mut from), most)?);
            match stream.try_io(Interest::WRITABLE, send) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    self.sent += count as u64;
                    // Where the disk is slower than the client there is always room for more.
                    yield_now().await;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    timeout(self.idle, stream.writable()).await??;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits until the client has acknowledged everything. Fails if it acknowledges nothing for too long, or the connection
    /// is gone.
    pub(crate) async fn acknowledged(&self) -> io::Result<()> {
        let begun = Instant::now();
        let (mut left, mut moved) = (u32::MAX, begun);
        loop {
            let now = unacknowledged(&self.stream)?;
            if now == 0 {
                return Ok(());
            }
            // The count of a dead connection does not change, and an earlier read has taken its error.
            self.stream.peer_addr()?;
            if now < left {
                (left, moved) = (now, Instant::now());
            } else if moved.elapsed() > self.idle {
                return Err(io::ErrorKind::TimedOut.into());
            }
            sleep((begun.elapsed() / 16).clamp(ACK_POLL.0, ACK_POLL.1)).await;
        }
    }

    /// Closes the connection, and waits until the client has received everything, or is gone. Until then its packets must
    /// arrive here.
    pub(crate) async fn close(mut self) {
        // An error shows below.
        let _ = SockRef::from(&self.stream).set_linger(None);
        let _ = self.stream.shutdown().await;
        let mut rest = pin!(self.drain_input());
        let ended = tokio::select! {
            ended = &mut rest => ended,
            acknowledged = self.acknowledged() => match acknowledged {
                Ok(()) => return drop(timeout(LINGER, rest).await),
                Err(_) => return,
            },
        };
        if ended.is_ok() {
            // Or it is gone.
            let _ = self.acknowledged().await;
        }
    }

    /// Reads and discards until the client's end.
    async fn drain_input(&self) -> io::Result<()> {
        let mut ignored = vec![0; READ_SIZE];
        loop {
            consume_budget().await;
            self.stream.readable().await?;
            match self.stream.try_read(&mut ignored) {
                Ok(0) => return Ok(()),
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::future::poll_fn;
    use std::task::Poll;

    use tokio::net::TcpListener;

    use super::*;

    /// A connection over loopback: the client's end, and the back end's.
    pub(crate) async fn connection() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let address = listener.local_addr().expect("an address");
        let client = TcpStream::connect(address).await.expect("connected");
        (client, listener.accept().await.expect("accepted").0)
    }

    pub(crate) fn client_connection(stream: TcpStream, inbox: Vec<u8>) -> ClientConnection {
        let ends = [stream.peer_addr(), stream.local_addr()].map(|end| end.expect("an address"));
        ClientConnection::new(stream, ends, inbox, Duration::from_secs(1))
    }

    async fn takes_one_turn(work: impl Future) -> bool {
        let mut work = pin!(work);
        poll_fn(|context| Poll::Ready(work.as_mut().poll(context).is_ready())).await
    }

    #[tokio::test]
    async fn a_client_that_has_always_sent_more_leaves_others_their_turns() {
        let (mut client, stream) = connection().await;
        client.write_all(&[7; 1000]).await.expect("sent");
        let reading = async {
            for _ in 0..1000 {
                read_some(&stream, &mut Vec::with_capacity(1)).await.expect("more");
            }
        };
        assert!(!takes_one_turn(reading).await);
    }

    #[tokio::test]
    async fn a_client_that_always_has_room_leaves_others_their_turns() {
        let (_client, stream) = connection().await;
        let path = std::env::temp_dir().join(format!("room-{}", std::process::id()));
        let file = File::create_new(&path).expect("made");
        let length = 2 * SENDFILE_SIZE as u64;
        file.set_len(length).expect("long");
        let file = File::open(&path).expect("opened");
        std::fs::remove_file(path).expect("removed");
        let mut client = client_connection(stream, Vec::new());
        assert!(!takes_one_turn(client.send_file(&file, 0, length)).await);
        assert!(client.sent <= SENDFILE_SIZE as u64, "{}", client.sent);
    }
}
