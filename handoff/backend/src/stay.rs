//! One guest from its arrival to its leave.

use std::io;
use std::time::Duration;

use handoff_link::{Parting, Sender, part};
use handoff_protocol::{Message, What};
use tokio::sync::mpsc;
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};
use tributary_transplant::{Frozen, Obstacle, at_rest, keeps_still, release};

use crate::guest::{After, Guest, Server};

/// A client that asks again within this time is given back with its next request: what it sends while it is given back would
/// be lost, and sent again 200 ms later at the earliest.
const REST: Duration = Duration::from_secs(1);
/// Between two looks whether the client has acknowledged all.
const LOOK: Duration = Duration::from_millis(1);
/// So long it may take to do so.
const SETTLING: Duration = Duration::from_secs(30);
/// So long the front may take to say what becomes of it.
const DECISION: Duration = Duration::from_secs(5);

/// What the front says of a guest that was given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// It stays, and its next request is for here.
    Keep,
    /// It is gone from here.
    Released,
}

/// A guest's number, and the way to the front that brought it and from there.
pub struct Ticket {
    pub id: u64,
    pub front: Sender,
    pub orders: mpsc::UnboundedReceiver<Order>,
}

impl Ticket {
    /// A front that does not hear it has lost the guest anyway.
    fn say(&self, what: What) {
        let _ = self.front.try_send(Message { id: self.id, what });
    }
}

/// Why a guest has left.
enum Left {
    /// Its connection has ended or broken.
    Ended(u64),
    /// The front has it.
    Released,
}

/// Serves a guest until its connection is over or somebody else's.
pub async fn stay<S: Server>(guest: Guest, mut ticket: Ticket, server: &S) {
    match serve(guest, &mut ticket, server).await {
        Left::Ended(sent) => ticket.say(What::Ended { sent }),
        Left::Released => {}
    }
}

async fn serve<S: Server>(mut guest: Guest, ticket: &mut Ticket, server: &S) -> Left {
    let mut kept = S::Kept::default();
    let mut told = 0;
    loop {
        match server.serve(&mut guest, &mut kept).await {
            After::Next if !ticket.front.is_closed() => {}
            After::Next | After::Close => return close(guest, told).await,
            After::Reset => return Left::Ended(guest.sent() - told),
        }
        let Some(frozen) = give_back(&mut guest).await else {
            return close(guest, told).await;
        };
        let bytes = guest.inbox.clone();
        ticket.say(What::Returned {
            sent: guest.sent() - told,
            frozen: Box::new(frozen),
            bytes,
        });
        told = guest.sent();
        match timeout(DECISION, ticket.orders.recv()).await {
            Ok(Some(Order::Keep)) if release(&guest.stream).is_ok() => {}
            // It is frozen: its end says nothing to the client.
            Ok(Some(Order::Released)) => return Left::Released,
            _ => {
                // Without its front it ends here; the switch lets nothing through if it is somebody else's.
                let _ = release(&guest.stream);
                return close(guest, told).await;
            }
        }
    }
}

async fn close(guest: Guest, told: u64) -> Left {
    let sent = guest.sent() - told;
    guest.close().await;
    Left::Ended(sent)
}

/// Freezes the guest once its answer is acknowledged and it has sent more, or rests; `None` if its connection is over.
async fn give_back(guest: &mut Guest) -> Option<Frozen> {
    if guest.inbox.is_empty() {
        let read = timeout(REST, guest.read_more()).await;
        if let Ok(Ok(0) | Err(_)) = read {
            return None;
        }
    }
    timeout(SETTLING, frozen(guest)).await.ok()?.ok()
}

async fn frozen(guest: &mut Guest) -> io::Result<Frozen> {
    loop {
        if !is_in_flight(guest) {
            match part(&guest.stream, &mut guest.inbox) {
                Ok(frozen) => {
                    // What another processor was just taking is in by now.
                    yield_now().await;
                    if keeps_still(&guest.stream, &frozen)? {
                        return Ok(frozen);
                    }
                    release(&guest.stream)?;
                }
                Err(Parting::Obstacle(
                    Obstacle::InFlight(_) | Obstacle::Unread(_) | Obstacle::OutOfOrder,
                )) => {}
                Err(other) => return Err(io::Error::other(other.to_string())),
            }
        }
        sleep(LOOK).await;
    }
}

fn is_in_flight(guest: &Guest) -> bool {
    matches!(at_rest(&guest.stream), Err(Obstacle::InFlight(_)))
}
