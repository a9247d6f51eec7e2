//! A back end, as a front sees it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::SocketAddrV4;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use handoff_link::Sender;
use handoff_protocol::{Message, Payload};
use tokio::sync::mpsc;

use crate::reconnect::RemoteEnd;
use crate::settings::{BackEndSettings, OpenSession, Sessions};

pub struct BackEnd {
    name: String,
    /// The address at which it continues connections.
    pub hand_off: SocketAddrV4,
    /// Connections there, of all threads.
    connections: Arc<AtomicUsize>,
    /// Of the current session.
    sender: RefCell<Option<Sender>>,
    sessions: Sessions,
    /// While it takes connections.
    open: RefCell<Option<OpenSession>>,
    is_draining: Cell<bool>,
    remote_connections: RefCell<HashMap<u64, mpsc::UnboundedSender<Payload>>>,
}

impl BackEnd {
    pub fn new(settings: &BackEndSettings) -> Rc<Self> {
        Rc::new(Self {
            name: format!("the back end {}", settings.name),
            hand_off: settings.hand_off,
            connections: Arc::clone(&settings.connections),
            sender: RefCell::default(),
            sessions: settings.sessions.clone(),
            open: RefCell::default(),
            is_draining: Cell::default(),
            remote_connections: RefCell::default(),
        })
    }

    /// Whether it can take connections.
    pub fn is_up(&self) -> bool {
        self.open.borrow().is_some()
    }

    /// Connections there, of all threads.
    pub fn load(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Begins a hand-over with this number by its first message; `None` without a session, or if the back end is far behind.
    pub fn hand(self: &Rc<Self>, id: u64, payload: Payload) -> Option<RemoteConnection> {
        if !self.sender.borrow().as_ref().is_some_and(Sender::has_room) {
            return None;
        }
        let (events_sender, events) = mpsc::unbounded_channel();
        let remote = RemoteConnection {
            back_end: Rc::clone(self),
            id,
            events,
        };
        self.remote_connections.borrow_mut().insert(id, events_sender);
        self.connections.fetch_add(1, Ordering::Relaxed);
        remote.send(payload).then_some(remote)
    }
}

impl RemoteEnd for BackEnd {
    /// While only the connection to the back end is broken, its clients get their answers, so it is worth waiting; but
    /// clients of a dead one wait as long. A lost SYN is repeated after one second and two seconds later (RFC 6298); the
    /// rest is for busy machines.
    const RESUME_TIMEOUT: Duration = Duration::from_secs(5);

    fn name(&self) -> &str {
        &self.name
    }

    fn on_connected(&self, sender: &Sender) {
        self.sender.replace(Some(sender.clone()));
        if !self.is_draining.get() {
            self.open.replace(Some(self.sessions.open()));
        }
    }

    fn on_message(&self, message: Message) {
        if message.payload == Payload::Draining {
            tracing::info!("{} is draining", self.name);
            self.is_draining.set(true);
            self.open.take();
        } else if let Some(events_sender) = self.remote_connections.borrow().get(&message.id) {
            // The receiver may be gone.
            let _ = events_sender.send(message.payload);
        } else if matches!(message.payload, Payload::Returned { .. } | Payload::Undetachable { .. }) {
            // It was aborted just when it returned: there it would wait for ever.
            let payload = Payload::Abort;
            if let Some(sender) = self.sender.borrow().as_ref() {
                sender.send(Message {
                    id: message.id,
                    payload,
                });
            }
        }
    }

    fn on_disconnected(&self) {
        self.open.take();
    }

    fn on_session_end(&self) {
        self.sender.take();
        self.is_draining.set(false);
        self.remote_connections.take();
    }
}

/// A connection at a back end.
pub struct RemoteConnection {
    back_end: Rc<BackEnd>,
    id: u64,
    events: mpsc::UnboundedReceiver<Payload>,
}

impl RemoteConnection {
    /// The back end's next message about it; `None` once the session is over.
    pub async fn next(&mut self) -> Option<Payload> {
        self.events.recv().await
    }

    /// Whether the session is over, and the back end has lost the connection.
    pub fn is_lost(&self) -> bool {
        self.events.is_closed()
    }

    /// Sends a message, now or after a reconnection; false without a session.
    pub fn send(&self, payload: Payload) -> bool {
        let sender = self.back_end.sender.borrow();
        let message = Message { id: self.id, payload };
        sender.as_ref().is_some_and(|sender| sender.send(message))
    }
}

impl Drop for RemoteConnection {
    fn drop(&mut self) {
        self.back_end.remote_connections.borrow_mut().remove(&self.id);
        self.back_end.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use handoff_link::Session;
    use handoff_protocol::MAX_CLIENT_BYTES;

    use super::*;

    #[test]
    fn what_clients_have_sent_ends_no_session() {
        let back_end = BackEnd::new(&BackEndSettings {
            name: "a".to_owned(),
            fronts: "10.0.0.3:7401".parse().expect("an address"),
            hand_off: "10.0.0.3:7400".parse().expect("an address"),
            connections: Arc::default(),
            sessions: Sessions::default(),
        });
        let (sender, _session) = Session::new();
        back_end.on_connected(&sender);
        let payload = Payload::Undetachable {
            sent: 0,
            bytes: vec![0; MAX_CLIENT_BYTES],
        };
        let handed: Vec<_> = (0..100).map_while(|id| back_end.hand(id, payload.clone())).collect();
        assert!(handed.len() > 10 && handed.len() < 100, "{}", handed.len());
        assert_eq!(back_end.load(), handed.len());
        assert!(handed[0].send(Payload::Serve), "the session is not over");
    }
}
