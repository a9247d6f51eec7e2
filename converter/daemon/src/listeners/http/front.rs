//! The client's side of an HTTP connection, from one request to the next.

use tributary_wire::http::HeadReader;

use crate::bytes::idle_timer::IdleTimer;
use crate::session::Session;

/// Memory for heads that a client which asks for nothing may hold on to.
pub const SMALL: usize = 4 << 10;

/// What came from the client and is not used yet, and where its next head begins.
#[derive(Default)]
pub struct Front {
    /// What came.
    pub inbox: Vec<u8>,
    /// Reads the heads in it.
    pub reader: HeadReader,
    /// For exchanges.
    pub idle: IdleTimer,
}

impl Front {
    /// No other request is read: what came of one needs no memory while the client hears of its end.
    pub fn forget(&mut self, session: &Session) {
        self.inbox = Vec::new();
        session.may_hold(0);
    }

    /// So many bytes, those of a head, were used.
    pub fn pass(&mut self, head: usize) {
        self.inbox.drain(..head);
        self.rest();
    }

    /// Nothing is here: lets go of memory that a large head took.
    pub fn rest(&mut self) {
        if self.inbox.is_empty() && self.inbox.capacity() > SMALL {
            self.inbox = Vec::new();
        }
    }
}
