//! Serves a handed-over connection until it is closed or returned.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use handoff_link::{DetachError, Sender, detach};
use handoff_protocol::{MAX_CLIENT_BYTES, Message, Payload};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout};
use tributary_offload::{Checkpoint, is_unchanged};

use crate::connection::{ClientConnection, NextStep, Server};

/// A client that asks again within this time is returned with its next request: what it sends while it is returned would be
/// lost, and repeated 200 ms later at the earliest.
const IDLE_BEFORE_RETURN: Duration = Duration::from_secs(1);
/// For the same reason the rest of a head that has begun is waited for; a front waits longer.
const REST_OF_HEAD: Duration = Duration::from_millis(20);
/// Between two attempts to detach.
const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// For all attempts to detach.
const DETACH_TIMEOUT: Duration = Duration::from_secs(30);

/// A client's connection with the state of its server.
pub struct HandedConnection<S: Server> {
    client: ClientConnection,
    state: S::State,
    /// Bytes of answers that were reported to the front.
    reported: u64,
    /// Its state while it is detached.
    checkpoint: Option<Box<Checkpoint>>,
    _place: OwnedSemaphorePermit,
}

impl<S: Server> HandedConnection<S> {
    /// Detached, with this state.
    pub fn new(client: ClientConnection, checkpoint: Box<Checkpoint>, permit: OwnedSemaphorePermit) -> Self {
        Self {
            client,
            state: S::State::default(),
            reported: 0,
            checkpoint: Some(checkpoint),
            _place: permit,
        }
    }

    /// Bytes of answers that were not reported to the front.
    fn unreported(&mut self) -> u64 {
        let sent = self.client.sent;
        sent - std::mem::replace(&mut self.reported, sent)
    }

    /// Without effect if it is not detached.
    pub fn resume(&mut self) -> io::Result<()> {
        match self.checkpoint.take() {
            Some(checkpoint) => checkpoint.release(&self.client.stream),
            None => Ok(()),
        }
    }

    /// Closes it: the front has it. Returns whether the front got everything that was acknowledged here: a packet may have
    /// been on its way through the kernel for longer than detaching could wait.
    pub fn release(self) -> bool {
        let is_unchanged = |checkpoint| is_unchanged(&self.client.stream, checkpoint).unwrap_or(true);
        self.checkpoint.as_deref().is_none_or(is_unchanged)
    }

    /// Closes it after its front is gone: in order, or by a reset if it waits for its first answer here. If another machine
    /// has it the switch drops the packets.
    pub async fn end(mut self) {
        let is_served = self.client.sent > 0;
        if self.resume().is_ok() && is_served {
            self.client.close().await;
        }
    }
}

/// Connections that wait for the front's decision: handed over and not served yet, returned, or undetachable. Dropping a
/// detached one closes it silently.
pub struct WaitingConnections<S: Server>(Mutex<HashMap<u64, HandedConnection<S>>>);

impl<S: Server> Default for WaitingConnections<S> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<S: Server> WaitingConnections<S> {
    pub fn take(&self, id: u64) -> Option<HandedConnection<S>> {
        self.lock().remove(&id)
    }

    pub fn take_all(&self) -> Vec<HandedConnection<S>> {
        self.lock().drain().map(|(_, handed)| handed).collect()
    }

    pub fn put(&self, id: u64, handed: HandedConnection<S>) {
        self.lock().insert(id, handed);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, HandedConnection<S>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends messages about a connection to its front.
pub struct FrontHandle<S: Server> {
    pub id: u64,
    pub front: Sender,
    pub waiting: Arc<WaitingConnections<S>>,
}

impl<S: Server> FrontHandle<S> {
    /// A front that does not receive it has lost the connection anyway.
    pub fn send(&self, payload: Payload) {
        self.front.send(Message { id: self.id, payload });
    }

    async fn return_to_front(&self, mut handed: HandedConnection<S>, checkpoint: Checkpoint) {
        let checkpoint = Box::new(checkpoint);
        handed.checkpoint = Some(checkpoint.clone());
        self.front.room().await;
        let returned = Payload::Returned {
            sent: handed.unreported(),
            checkpoint,
            bytes: handed.client.inbox.clone(),
        };
        self.await_front(handed, returned).await;
    }

    /// Asks the front about a connection that cannot be detached.
    async fn report_undetachable(&self, mut handed: HandedConnection<S>) {
        self.front.room().await;
        let inbox = &handed.client.inbox;
        let bytes = inbox[..inbox.len().min(MAX_CLIENT_BYTES)].to_vec();
        let stuck = Payload::Undetachable {
            sent: handed.unreported(),
            bytes,
        };
        self.await_front(handed, stuck).await;
    }

    pub async fn close(&self, mut handed: HandedConnection<S>) {
        let sent = handed.unreported();
        handed.client.close().await;
        self.send(Payload::Closed { sent });
    }

    async fn await_front(&self, handed: HandedConnection<S>, payload: Payload) {
        // Before the front can reply.
        self.waiting.put(self.id, handed);
        self.send(payload);
        if self.front.is_closed() {
            if let Some(handed) = self.waiting.take(self.id) {
                handed.end().await;
            }
        }
    }
}

/// Serves a request; then the connection is closed, or returned.
pub async fn serve<S: Server>(mut handed: HandedConnection<S>, front: FrontHandle<S>, server: Arc<S>) {
    let next_step = server.serve(&mut handed.client, &mut handed.state).await;
    let may_continue = next_step == NextStep::KeepAlive && !front.front.is_closed();
    if may_continue {
        match detach_at_next_request(&mut handed.client).await {
            Detached::Checkpoint(checkpoint) => {
                return front.return_to_front(handed, *checkpoint).await;
            }
            Detached::Impossible => return front.report_undetachable(handed).await,
            Detached::Closed => {}
        }
    }
    if next_step == NextStep::Reset {
        let sent = handed.unreported();
        drop(handed);
        front.send(Payload::Closed { sent });
    } else {
        front.close(handed).await;
    }
}

enum Detached {
    Checkpoint(Box<Checkpoint>),
    /// The client has sent more, and the connection cannot be detached.
    Impossible,
    /// The client is gone, or will send nothing more.
    Closed,
}

/// Detaches the connection once its answer is acknowledged and the client has sent more, or is idle.
async fn detach_at_next_request(client: &mut ClientConnection) -> Detached {
    if client.inbox.is_empty() {
        let read = timeout(IDLE_BEFORE_RETURN, client.read()).await;
        if let Ok(Ok(0) | Err(_)) = read {
            return Detached::Closed;
        }
    }
    // An end or an error shows again when it is detached.
    let _ = timeout(REST_OF_HEAD, rest_of_head(client)).await;
    if client.acknowledged().await.is_err() {
        return Detached::Closed;
    }
    match checkpoint_when_quiet(client).await {
        Ok(checkpoint) => Detached::Checkpoint(Box::new(checkpoint)),
        _ if client.inbox.is_empty() => Detached::Closed,
        _ => Detached::Impossible,
    }
}

/// Reads until the end of a head that has begun, without parsing it, or more than can be returned.
async fn rest_of_head(client: &mut ClientConnection) -> io::Result<()> {
    let has_begun = !client.inbox.is_empty();
    let mut seen = 0;
    while has_begun && client.inbox.len() <= MAX_CLIENT_BYTES {
        if client.inbox[seen..].windows(4).any(|bytes| bytes == b"\r\n\r\n") {
            break;
        }
        // All but the beginning of an end.
        seen = client.inbox.len().saturating_sub(3);
        if client.read_more().await? == 0 {
            break;
        }
    }
    Ok(())
}

/// Nobody may stop this in its midst: between its two looks the connection is deaf. Raises [`io::ErrorKind::TimedOut`].
async fn checkpoint_when_quiet(client: &mut ClientConnection) -> io::Result<Checkpoint> {
    let end = Instant::now() + DETACH_TIMEOUT;
    while Instant::now() < end {
        match detach(&client.stream, &mut client.inbox) {
            Ok(checkpoint) => {
                // By now bytes that another processor was receiving have arrived.
                yield_now().await;
                if is_unchanged(&client.stream, &checkpoint)? {
                    return Ok(checkpoint);
                }
                checkpoint.release(&client.stream)?;
            }
            Err(DetachError::NotQuiescent(reason)) if reason.may_pass() => {}
            Err(other) => return Err(io::Error::other(other.to_string())),
        }
        sleep(POLL_INTERVAL).await;
    }
    Err(io::ErrorKind::TimedOut.into())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::io::AsyncWriteExt as _;
    use tokio::net::TcpStream;
    use tokio::sync::Semaphore;

    use super::*;
    use crate::Objects;
    use crate::connection::tests::{client_connection, connection};

    async fn handed(stream: TcpStream, checkpoint: Checkpoint) -> HandedConnection<Objects> {
        let permit = Arc::new(Semaphore::new(1)).acquire_owned().await;
        let client = client_connection(stream, Vec::new());
        HandedConnection::new(client, Box::new(checkpoint), permit.expect("one place"))
    }

    #[tokio::test]
    async fn of_a_head_without_an_end_no_more_is_read_than_can_be_returned() {
        let (mut client, stream) = connection().await;
        let sent = vec![b'x'; 4 * MAX_CLIENT_BYTES];
        let sending = tokio::spawn(async move { client.write_all(&sent).await.map(|()| client) });
        let mut client = client_connection(stream, b"GET ".to_vec());
        rest_of_head(&mut client).await.expect("not all that comes");
        let read = client.inbox.len();
        assert!(read > MAX_CLIENT_BYTES && read < 3 * MAX_CLIENT_BYTES, "{read}");
        sending.abort();
    }

    #[tokio::test]
    async fn the_end_of_a_head_is_seen_wherever_it_is_cut() {
        let head = b"GET / HTTP/1.1\r\n\r\n";
        for cut in 1..head.len() {
            let (mut client, stream) = connection().await;
            client.write_all(&head[cut..]).await.expect("sent");
            let mut client_here = client_connection(stream, head[..cut].to_vec());
            rest_of_head(&mut client_here).await.expect("its end came");
            assert_eq!(client_here.inbox, head);
        }
    }

    #[tokio::test]
    #[ignore = "needs CAP_NET_ADMIN"]
    async fn what_was_acknowledged_behind_the_state_that_was_given_back_is_noticed() {
        for is_late in [false, true] {
            let (mut client, stream) = connection().await;
            let checkpoint = detach(&stream, &mut Vec::new()).expect("detached");
            if is_late {
                checkpoint.release(&stream).expect("released");
                client.write_all(b"late").await.expect("sent");
                stream.readable().await.expect("it came");
                detach(&stream, &mut Vec::new()).expect("detached");
            }
            assert_eq!(handed(stream, checkpoint).await.release(), !is_late);
        }
    }
}
