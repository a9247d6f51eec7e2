//! A back end, as a front sees it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::SocketAddrV4;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use handoff_link::Sender;
use handoff_protocol::{Message, What};
use tokio::sync::mpsc;

use crate::links::BackEnd as Settings;
use crate::standing::Far;

/// One of them.
pub struct BackEnd {
    name: String,
    /// Where connections go on that are handed to it.
    pub hand_off: SocketAddrV4,
    /// Connections that are there, of all threads.
    connections: Arc<AtomicUsize>,
    /// Of the session that there is.
    sender: RefCell<Option<Sender>>,
    is_in_reach: Cell<bool>,
    is_leaving: Cell<bool>,
    there: RefCell<HashMap<u64, mpsc::UnboundedSender<What>>>,
}

impl BackEnd {
    /// It is not connected yet.
    pub fn new(settings: &Settings) -> Rc<Self> {
        Rc::new(Self {
            name: format!("the back end {}", settings.name),
            hand_off: settings.hand_off,
            connections: Arc::clone(&settings.connections),
            sender: RefCell::default(),
            is_in_reach: Cell::default(),
            is_leaving: Cell::default(),
            there: RefCell::default(),
        })
    }

    /// Whether it can take connections.
    pub fn is_up(&self) -> bool {
        self.is_in_reach.get() && !self.is_leaving.get()
    }

    /// How many connections are there.
    pub fn load(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Begins a hand-over with this number by its first message; `None` if the back end is away.
    pub fn hand(self: &Rc<Self>, id: u64, what: What) -> Option<Away> {
        let (tell, events) = mpsc::unbounded_channel();
        let away = Away {
            back_end: Rc::clone(self),
            id,
            events,
        };
        self.there.borrow_mut().insert(id, tell);
        self.connections.fetch_add(1, Ordering::Relaxed);
        away.say(what).then_some(away)
    }
}

impl Far for BackEnd {
    /// Its clients get their answers while only the connection to it is broken, so that it is worth waiting; but as long
    /// those of one that is lost do not hear of it. A SYN that is lost is sent again after a second, and two seconds later
    /// (RFC 6298); the rest is for busy machines.
    const PATIENCE: Duration = Duration::from_secs(5);

    fn name(&self) -> &str {
        &self.name
    }

    fn is_there(&self, sender: &Sender) {
        self.sender.replace(Some(sender.clone()));
        self.is_in_reach.set(true);
    }

    fn said(&self, message: Message) {
        if message.what == What::Leaving {
            tracing::info!("{} is about to end", self.name);
            self.is_leaving.set(true);
        } else if let Some(tell) = self.there.borrow().get(&message.id) {
            // Who listened may have left.
            let _ = tell.send(message.what);
        }
    }

    fn is_away(&self) {
        self.is_in_reach.set(false);
    }

    fn is_gone(&self) {
        self.sender.take();
        self.is_leaving.set(false);
        self.there.take();
    }
}

/// A connection that is at a back end.
pub struct Away {
    back_end: Rc<BackEnd>,
    id: u64,
    events: mpsc::UnboundedReceiver<What>,
}

impl Away {
    /// What the back end says of it next; `None` once it is lost.
    pub async fn next(&mut self) -> Option<What> {
        self.events.recv().await
    }

    /// Tells the back end, now or when it is in reach again; whether there is a session with it.
    pub fn say(&self, what: What) -> bool {
        let sender = self.back_end.sender.borrow();
        let message = Message { id: self.id, what };
        sender.as_ref().is_some_and(|sender| sender.send(message))
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        self.back_end.there.borrow_mut().remove(&self.id);
        self.back_end.connections.fetch_sub(1, Ordering::Relaxed);
    }
}
