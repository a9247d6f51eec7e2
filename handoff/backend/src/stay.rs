//! One guest from its arrival to its leave.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use handoff_link::{Parting, Sender, part};
use handoff_protocol::{MOST_BYTES, Message, What};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};
use tributary_offload::{Checkpoint, is_unchanged};

use crate::guest::{After, Guest, Server};

/// A client that asks again within this time is given back with its next request: what it sends while it is given back would
/// be lost, and sent again 200 ms later at the earliest.
const REST: Duration = Duration::from_secs(1);
/// The rest of a head that has begun may take so long, for the same reason; a front waits for more.
const REST_OF_HEAD: Duration = Duration::from_millis(20);
/// Between two attempts to freeze what has been acknowledged.
const LOOK: Duration = Duration::from_millis(1);
/// So long they may take.
const SETTLING: Duration = Duration::from_secs(30);

/// A guest, with what its server keeps for it.
pub struct Visit<S: Server> {
    guest: Guest,
    kept: S::Kept,
    /// Bytes that the front knows of.
    told: u64,
    /// What it was frozen as, while it is.
    frozen: Option<Box<Checkpoint>>,
    _place: OwnedSemaphorePermit,
}

impl<S: Server> Visit<S> {
    /// Of a connection with a request that came already.
    pub fn new(guest: Guest, place: OwnedSemaphorePermit) -> Self {
        Self {
            guest,
            kept: S::Kept::default(),
            told: 0,
            frozen: None,
            _place: place,
        }
    }

    /// Bytes that the front does not know of yet.
    fn news(&mut self) -> u64 {
        let news = self.guest.sent() - self.told;
        self.told = self.guest.sent();
        news
    }

    /// It is no longer frozen, if it was: it stays, or is to be reset.
    pub fn wake(&mut self) -> io::Result<()> {
        match self.frozen.take() {
            Some(frozen) => frozen.release(&self.guest.stream),
            None => Ok(()),
        }
    }

    /// Lets go of it, which the front has. Whether that has got all that was acknowledged here: a packet can have been on its
    /// way through the kernel while the connection was frozen, longer than who froze it could wait.
    pub fn let_go(self) -> bool {
        let has_kept_still = |frozen| is_unchanged(&self.guest.stream, frozen).unwrap_or(true);
        self.frozen.as_deref().is_none_or(has_kept_still)
    }

    /// Ends it in order, whose front is gone. The switch lets nothing through if somebody else has it.
    pub async fn end(mut self) {
        if self.wake().is_ok() {
            self.guest.close().await;
        }
    }
}

/// Guests of one front until that says what becomes of them. They are frozen, or stuck. To drop a frozen one says nothing to
/// its client.
pub struct GivenBack<S: Server>(Mutex<HashMap<u64, Visit<S>>>);

impl<S: Server> Default for GivenBack<S> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<S: Server> GivenBack<S> {
    /// The guest with this number, if it was given back.
    pub fn take(&self, id: u64) -> Option<Visit<S>> {
        self.lock().remove(&id)
    }

    /// All that are left.
    pub fn take_all(&self) -> Vec<Visit<S>> {
        self.lock().drain().map(|(_, visit)| visit).collect()
    }

    fn put(&self, id: u64, visit: Visit<S>) {
        self.lock().insert(id, visit);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Visit<S>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A guest's number, and where it goes when it is given back.
pub struct Ticket<S: Server> {
    pub id: u64,
    pub front: Sender,
    pub given_back: Arc<GivenBack<S>>,
}

impl<S: Server> Ticket<S> {
    /// A front that does not hear it has lost the guest anyway.
    pub fn say(&self, what: What) {
        self.front.send(Message { id: self.id, what });
    }

    async fn give_back(&self, mut visit: Visit<S>, frozen: Checkpoint) {
        let frozen = Box::new(frozen);
        visit.frozen = Some(frozen.clone());
        let returned = What::Returned {
            sent: visit.news(),
            frozen,
            bytes: visit.guest.inbox.clone(),
        };
        self.leave_to_the_front(visit, returned).await;
    }

    /// Asks whether a guest that cannot leave is to be served here.
    async fn ask(&self, mut visit: Visit<S>) {
        let inbox = &visit.guest.inbox;
        let bytes = inbox[..inbox.len().min(MOST_BYTES)].to_vec();
        let stuck = What::Stuck {
            sent: visit.news(),
            bytes,
        };
        self.leave_to_the_front(visit, stuck).await;
    }

    /// Ends a guest in order.
    pub async fn close(&self, mut visit: Visit<S>) {
        let sent = visit.news();
        visit.guest.close().await;
        self.say(What::Ended { sent });
    }

    async fn leave_to_the_front(&self, visit: Visit<S>, what: What) {
        // Before the front can answer.
        self.given_back.put(self.id, visit);
        self.say(what);
        if self.front.is_closed() {
            if let Some(visit) = self.given_back.take(self.id) {
                visit.end().await;
            }
        }
    }
}

/// Serves a guest until its connection is over, or frozen and given back.
pub async fn stay<S: Server>(mut visit: Visit<S>, ticket: Ticket<S>, server: Arc<S>) {
    let after = server.serve(&mut visit.guest, &mut visit.kept).await;
    let goes_on = after == After::Next && !ticket.front.is_closed();
    if goes_on {
        match at_next_request(&mut visit.guest).await {
            AtNext::Checkpoint(frozen) => return ticket.give_back(visit, *frozen).await,
            AtNext::Stuck => return ticket.ask(visit).await,
            AtNext::Over => {}
        }
    }
    if after == After::Reset {
        let sent = visit.news();
        drop(visit);
        ticket.say(What::Ended { sent });
    } else {
        ticket.close(visit).await;
    }
}

/// What there is of a guest behind an answer.
enum AtNext {
    Checkpoint(Box<Checkpoint>),
    /// It has asked for more, and cannot be frozen.
    Stuck,
    /// Nothing more will come of it.
    Over,
}

/// Freezes the guest once its answer is acknowledged and it has sent more, or rests.
async fn at_next_request(guest: &mut Guest) -> AtNext {
    if guest.inbox.is_empty() {
        let read = timeout(REST, guest.read()).await;
        if let Ok(Ok(0) | Err(_)) = read {
            return AtNext::Over;
        }
    }
    // An end or an error of the connection's shows again when it is frozen.
    let _ = timeout(REST_OF_HEAD, rest_of_head(guest)).await;
    if guest.delivered().await.is_err() {
        return AtNext::Over;
    }
    match timeout(SETTLING, frozen(guest)).await {
        Ok(Ok(frozen)) => AtNext::Checkpoint(Box::new(frozen)),
        _ if guest.inbox.is_empty() => AtNext::Over,
        _ => AtNext::Stuck,
    }
}

/// Reads until the head that has begun is whole, as far as can be seen without parsing it.
async fn rest_of_head(guest: &mut Guest) -> io::Result<()> {
    let has_begun = !guest.inbox.is_empty();
    while has_begun && !guest.inbox.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
        if guest.read_more().await? == 0 {
            break;
        }
    }
    Ok(())
}

async fn frozen(guest: &mut Guest) -> io::Result<Checkpoint> {
    loop {
        match part(&guest.stream, &mut guest.inbox) {
            Ok(frozen) => {
                // What another processor was just taking is in by now.
                yield_now().await;
                if is_unchanged(&guest.stream, &frozen)? {
                    return Ok(frozen);
                }
                frozen.release(&guest.stream)?;
            }
            Err(Parting::NotQuiescent(obstacle)) if obstacle.may_pass() => {}
            Err(other) => return Err(io::Error::other(other.to_string())),
        }
        sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::io::AsyncWriteExt as _;
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::Semaphore;

    use super::*;
    use crate::Objects;

    /// A connection of this machine's with itself.
    async fn connection() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let address = listener.local_addr().expect("an address");
        let client = TcpStream::connect(address).await.expect("connected");
        (client, listener.accept().await.expect("accepted").0)
    }

    async fn visit(stream: TcpStream, frozen: Checkpoint) -> Visit<Objects> {
        let place = Arc::new(Semaphore::new(1)).acquire_owned().await;
        let ends = [stream.peer_addr(), stream.local_addr()].map(|end| end.expect("an address"));
        let guest = Guest::new(stream, ends, Vec::new(), Duration::from_secs(1));
        let mut visit = Visit::new(guest, place.expect("one place"));
        visit.frozen = Some(Box::new(frozen));
        visit
    }

    #[tokio::test]
    #[ignore = "needs CAP_NET_ADMIN"]
    async fn what_was_acknowledged_behind_the_state_that_was_given_back_is_noticed() {
        for is_late in [false, true] {
            let (mut client, stream) = connection().await;
            let frozen = part(&stream, &mut Vec::new()).expect("frozen");
            if is_late {
                frozen.release(&stream).expect("released");
                client.write_all(b"late").await.expect("sent");
                stream.readable().await.expect("it came");
                part(&stream, &mut Vec::new()).expect("frozen");
            }
            assert_eq!(visit(stream, frozen).await.let_go(), !is_late);
        }
    }
}
