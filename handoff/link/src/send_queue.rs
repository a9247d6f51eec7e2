//! The queue of messages to the peer of a session.

use std::mem::size_of;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use handoff_protocol::{Message, Payload};
use tokio::sync::{Notify, mpsc};

/// The limit for messages that are queued or unacknowledged; beyond it the session ends. A restarted switch gets all rules,
/// 32,768 at most, and as many removals: 9 MB. The rest is for requests with content.
pub(crate) const MAX_QUEUED_BYTES: usize = 64 << 20;
/// Clients' bytes leave the rest to messages that cannot wait: otherwise a few clients could end the session of all.
const MAX_CLIENTS_QUEUED_BYTES: usize = MAX_QUEUED_BYTES / 2;

#[derive(Clone, Debug)]
pub struct Sender {
    queue: mpsc::UnboundedSender<Message>,
    budget: Arc<Budget>,
}

/// The bytes in use, shared by senders and the carrier.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    taken: AtomicUsize,
    is_full: AtomicBool,
    exhausted: Notify,
    freed: Notify,
}

pub(crate) fn send_queue() -> (Sender, mpsc::UnboundedReceiver<Message>, Arc<Budget>) {
    let (to, queue) = mpsc::unbounded_channel();
    let budget = Arc::<Budget>::default();
    let sender = Sender {
        queue: to,
        budget: Arc::clone(&budget),
    };
    (sender, queue, budget)
}

impl Sender {
    /// Queues a message; false if the session is over. A message beyond the limit ends the session, and none after it is
    /// sent: a peer that misses a message would act on an outdated state.
    pub fn send(&self, message: Message) -> bool {
        self.budget.take(&message) && self.queue.send(message).is_ok()
    }

    /// Whether there is room for a message with a client's bytes; otherwise others must be acknowledged first.
    pub fn has_room(&self) -> bool {
        self.budget.taken.load(Ordering::Acquire) < MAX_CLIENTS_QUEUED_BYTES
    }

    /// Waits until there is, or the session is over.
    pub async fn room(&self) {
        loop {
            // Before the look: what is freed after it is noticed.
            let freed = self.budget.freed.notified();
            if self.has_room() {
                return;
            }
            tokio::select! {
                () = freed => {}
                () = self.queue.closed() => return,
            }
        }
    }

    /// Whether there are unacknowledged messages.
    pub fn is_waiting(&self) -> bool {
        self.budget.taken.load(Ordering::Acquire) > 0
    }

    pub fn is_closed(&self) -> bool {
        self.queue.is_closed()
    }
}

impl Budget {
    fn take(&self, message: &Message) -> bool {
        if self.is_full() {
            return false;
        }
        let size = size(message);
        if self.taken.fetch_add(size, Ordering::AcqRel) + size <= MAX_QUEUED_BYTES {
            return true;
        }
        self.is_full.store(true, Ordering::Release);
        self.exhausted.notify_one();
        false
    }

    /// The message is acknowledged.
    pub(crate) fn free(&self, message: &Message) {
        self.taken.fetch_sub(size(message), Ordering::AcqRel);
        self.freed.notify_waiters();
    }

    /// Whether the limit was exceeded.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Acquire)
    }

    /// Waits until the limit is exceeded.
    pub(crate) async fn full(&self) {
        if !self.is_full() {
            self.exhausted.notified().await;
        }
    }
}

fn size(message: &Message) -> usize {
    let bytes = match &message.payload {
        Payload::HandOver { checkpoint, bytes } | Payload::Returned { checkpoint, bytes, .. } => {
            size_of_val(checkpoint.as_ref()) + bytes.len()
        }
        Payload::Undetachable { bytes, .. } => bytes.len(),
        _ => 0,
    };
    size_of::<Message>() + bytes
}
