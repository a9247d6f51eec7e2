//! What waits to be sent to the other end of a session.

use std::mem::size_of;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use handoff_protocol::{Message, What};
use tokio::sync::{Notify, mpsc};

/// Bytes of messages that wait to be sent, or for the other end to say that it has taken them; with more it takes too little,
/// and counts as gone. A switch that is back hears at once of all rules, 32768 that there are at most, and as many that have
/// ended: 9 MB. The rest is for requests that came with content.
pub(crate) const MOST: usize = 64 << 20;

/// Where messages for the other end go.
#[derive(Clone, Debug)]
pub struct Sender {
    queue: mpsc::UnboundedSender<Message>,
    room: Arc<Room>,
}

/// Room for messages, shared by who sends them and who carries them.
#[derive(Debug, Default)]
pub(crate) struct Room {
    taken: AtomicUsize,
    is_full: AtomicBool,
    told: Notify,
}

/// A sender, and the other end of its queue.
pub(crate) fn waiting() -> (Sender, mpsc::UnboundedReceiver<Message>, Arc<Room>) {
    let (to, queue) = mpsc::unbounded_channel();
    let room = Arc::<Room>::default();
    let sender = Sender {
        queue: to,
        room: Arc::clone(&room),
    };
    (sender, queue, room)
}

impl Sender {
    /// Whether the message is on its way. One for which there is no room ends the session, and none behind it is sent: an end
    /// that misses a message would go on from what is no longer so.
    pub fn send(&self, message: Message) -> bool {
        self.room.take(&message) && self.queue.send(message).is_ok()
    }

    /// Whether the other end has not taken all yet.
    pub fn is_waiting(&self) -> bool {
        self.room.taken.load(Ordering::Acquire) > 0
    }

    /// Whether the session is over.
    pub fn is_closed(&self) -> bool {
        self.queue.is_closed()
    }
}

impl Room {
    fn take(&self, message: &Message) -> bool {
        if self.is_full() {
            return false;
        }
        let size = size(message);
        if self.taken.fetch_add(size, Ordering::AcqRel) + size <= MOST {
            return true;
        }
        self.is_full.store(true, Ordering::Release);
        self.told.notify_one();
        false
    }

    /// This message waits no longer.
    pub(crate) fn free(&self, message: &Message) {
        self.taken.fetch_sub(size(message), Ordering::AcqRel);
    }

    /// Whether a message found no room.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Acquire)
    }

    /// Ready once a message finds no room.
    pub(crate) async fn full(&self) {
        if !self.is_full() {
            self.told.notified().await;
        }
    }
}

/// Of a message in memory.
fn size(message: &Message) -> usize {
    let bytes = match &message.what {
        What::Hand { frozen, bytes } | What::Returned { frozen, bytes, .. } => {
            size_of_val(frozen.as_ref()) + bytes.len()
        }
        What::Stuck { bytes, .. } => bytes.len(),
        _ => 0,
    };
    size_of::<Message>() + bytes
}
