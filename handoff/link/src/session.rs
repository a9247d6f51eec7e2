//! A session: messages in both directions, each delivered exactly once and in order, over one connection after another.
//!
//! Messages are numbered, and kept until the peer acknowledges them. When a connection breaks nothing is lost: on the next one
//! each end tells the last message that it received, and gets all later ones.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use handoff_protocol::{HELLO_LENGTH, Message, Payload, parse};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, split};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::carrier;
use crate::progress::Progress;
use crate::send_queue::{Budget, Sender, send_queue};

/// An accepted connection must begin with a hello within this time.
const HELLO_TIMEOUT: Duration = Duration::from_secs(2);

/// One end of a session. Dropping it ends the session.
#[derive(Debug)]
pub struct Session {
    queue: mpsc::UnboundedReceiver<Message>,
    budget: Arc<Budget>,
    progress: Mutex<Progress>,
}

/// The peer's first message on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    pub session: u64,
    /// The last message that the peer received; 0 if the session is new to it.
    pub acknowledged: u64,
}

/// Why messages are no longer carried.
#[derive(Debug, Error)]
pub enum LinkError {
    /// The connection has broken; the session can be resumed on another one.
    #[error("{0}")]
    Connection(#[from] io::Error),
    /// The session is over.
    #[error("{0}")]
    Session(io::Error),
}

impl LinkError {
    pub(crate) fn over(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Session(io::Error::other(why))
    }
}

/// Reads the hello on an accepted connection.
pub async fn read_hello(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Hello> {
    timeout(HELLO_TIMEOUT, read_peer_hello(stream)).await?
}

async fn read_peer_hello(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Hello> {
    let mut bytes = [0; HELLO_LENGTH];
    stream.read_exact(&mut bytes).await?;
    let parsed = parse(&bytes).map_err(io::Error::other)?;
    match parsed.map(|parsed| parsed.message) {
        Some(Message {
            id: session,
            payload: Payload::Hello { acknowledged },
        }) => Ok(Hello { session, acknowledged }),
        _ => Err(io::Error::other("its first message is no hello")),
    }
}

impl Session {
    /// A new session, and the sender of its messages.
    pub fn new() -> (Sender, Self) {
        let (sender, queue, budget) = send_queue();
        let progress = Mutex::new(Progress::new(Arc::clone(&budget)));
        let session = Self {
            queue,
            budget,
            progress,
        };
        (sender, session)
    }

    /// Whether hellos were exchanged on a connection.
    pub fn has_begun(&self) -> bool {
        self.progress().has_begun()
    }

    /// Exchanges hellos on an outgoing connection, to begin or resume the session with this number. Returns the last message
    /// that the peer received.
    pub async fn connect(
        &self,
        stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
        number: u64,
    ) -> Result<u64, LinkError> {
        self.write_hello(stream, number).await?;
        let hello = read_peer_hello(stream).await?;
        if self.has_begun() && hello.acknowledged == 0 {
            return Err(LinkError::over("it does not know the session any more"));
        }
        self.progress().begin();
        Ok(hello.acknowledged)
    }

    /// Sends the hello on an accepted connection, after [`read_hello`].
    pub async fn accept(&self, stream: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        self.write_hello(stream, 0).await?;
        self.progress().begin();
        Ok(())
    }

    async fn write_hello(&self, stream: &mut (impl AsyncWrite + Unpin), id: u64) -> io::Result<()> {
        let acknowledged = self.progress().received();
        let payload = Payload::Hello { acknowledged };
        let mut bytes = Vec::new();
        Message { id, payload }.write(0, &mut bytes);
        stream.write_all(&bytes).await?;
        stream.flush().await
    }

    /// Sends all messages after `acknowledged`, the last one that the peer received, and passes received ones to `take`. Returns
    /// when the connection breaks, or the peer acknowledges too little.
    pub async fn run(
        &mut self,
        stream: impl AsyncRead + AsyncWrite,
        acknowledged: u64,
        take: impl FnMut(Message),
    ) -> LinkError {
        let Self {
            queue,
            budget,
            progress,
        } = self;
        // The hello itself was received.
        let resumed = lock(progress).resume(acknowledged.max(1));
        if let Err(error) = resumed {
            return error;
        }
        let (reader, writer) = split(stream);
        tokio::select! {
            error = carrier::read(progress, reader, take) => error,
            error = carrier::write(progress, writer, queue) => error,
            () = budget.full() => LinkError::over("the peer acknowledges too little"),
        }
    }

    pub(crate) fn progress(&self) -> MutexGuard<'_, Progress> {
        lock(&self.progress)
    }
}

pub(crate) fn lock(progress: &Mutex<Progress>) -> MutexGuard<'_, Progress> {
    progress.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use tokio::io::{DuplexStream, duplex};

    use super::*;

    fn message(id: u64) -> Message {
        let payload = Payload::Accepted;
        Message { id, payload }
    }

    /// Both ends of a session, and the messages that each received.
    struct Pair {
        senders: [Sender; 2],
        sessions: [Session; 2],
        came: [Vec<u64>; 2],
    }

    impl Pair {
        fn new() -> Self {
            let ((near, here), (far, there)) = (Session::new(), Session::new());
            Self {
                senders: [near, far],
                sessions: [here, there],
                came: [vec![], vec![]],
            }
        }

        /// One connection, which breaks after so many bytes in each direction.
        async fn connect(&mut self, most: [usize; 2]) -> [LinkError; 2] {
            let (mut here, mut near) = duplex(1 << 20);
            let (mut there, mut far) = duplex(1 << 20);
            let [one, other] = &mut self.sessions;
            let [came_near, came_far] = &mut self.came;
            let wire = async move { pass(&mut near, &mut far, most).await };
            let connecting = async {
                let heard = match one.connect(&mut here, 7).await {
                    Ok(heard) => heard,
                    Err(error) => return error,
                };
                one.run(here, heard, |message| push(came_near, &message)).await
            };
            let accepting = async {
                let hello = match read_hello(&mut there).await {
                    Ok(hello) => hello,
                    Err(error) => return error.into(),
                };
                if let Err(error) = other.accept(&mut there).await {
                    return error.into();
                }
                other
                    .run(there, hello.acknowledged, |message| {
                        push(came_far, &message);
                    })
                    .await
            };
            let (one, other, ()) = tokio::join!(connecting, accepting, wire);
            [one, other]
        }
    }

    fn push(came: &mut Vec<u64>, message: &Message) {
        if message.payload == Payload::Accepted {
            came.push(message.id);
        }
    }

    /// Passes bytes in both directions until one of the limits is reached.
    async fn pass(near: &mut DuplexStream, far: &mut DuplexStream, most: [usize; 2]) {
        let ((from_near, to_near), (from_far, to_far)) = (split(near), split(far));
        tokio::select! {
            () = pass_on(from_near, to_far, most[0]) => {}
            () = pass_on(from_far, to_near, most[1]) => {}
        }
    }

    async fn pass_on(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, most: usize) {
        for _ in 0..most {
            let Ok(byte) = from.read_u8().await else {
                return;
            };
            if to.write_u8(byte).await.is_err() {
                return;
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn every_message_comes_once_and_in_order_wherever_connections_are_cut() {
        for step in [23, 37, 61, 200, 1000] {
            let mut pair = Pair::new();
            for id in 1..=50 {
                assert!(pair.senders[0].send(message(id)));
                assert!(pair.senders[1].send(message(100 + id)));
            }
            let mut cuts = 0;
            while pair.came.iter().any(|came| came.len() < 50) {
                cuts += 1;
                assert!(cuts < 500, "{step}: {:?}", pair.came);
                let cut = step + 7 * cuts;
                let error = pair.connect([cut, 2 * cut]).await;
                for each in error {
                    assert!(matches!(each, LinkError::Connection(_)), "{step}: {each}");
                }
            }
            let expected = [101..=150, 1..=50].map(Vec::from_iter);
            assert_eq!(pair.came, expected, "{step}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_taken_is_kept_no_longer() {
        let mut pair = Pair::new();
        for id in 0..10 {
            pair.senders[0].send(message(id));
        }
        // The second heartbeat acknowledges.
        pair.connect([10_000, HELLO_LENGTH + 3 * HELLO_LENGTH]).await;
        assert_eq!(pair.came[1].len(), 10);
        assert!(pair.sessions[0].progress().unacknowledged() == 0);
    }

    #[tokio::test(start_paused = true)]
    async fn an_end_that_knows_nothing_of_what_was_ends_the_session() {
        let mut pair = Pair::new();
        pair.senders[0].send(message(1));
        pair.connect([1000, 1000]).await;
        pair.sessions[1] = Session::new().1;
        let [near, _] = pair.connect([1000, 1000]).await;
        assert!(matches!(near, LinkError::Session(_)), "{near}");
    }
}
