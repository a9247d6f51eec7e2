//! The client's side of an HTTP connection, from one request to the next.

use tributary_wire::http::{HeadReader, Method, Refused, Request};

use crate::bytes::idle_timer::IdleTimer;
use crate::session::Session;

/// Memory for heads that a client which asks for nothing may hold on to.
const SMALL: usize = 4 << 10;

/// Why a client's request is not taken.
pub const NO_MEMORY: Refused = Refused::new(503, "out of memory for requests");

/// So many bytes as they are counted: few are part of what every connection takes.
pub fn counted(bytes: usize) -> usize {
    if bytes > SMALL { bytes } else { 0 }
}

/// What came from the client and is not used yet, and where its next head begins.
#[derive(Default)]
pub struct ClientBuffer {
    /// What came.
    pub inbox: Vec<u8>,
    /// Reads the heads in it.
    pub reader: HeadReader,
    /// For exchanges.
    pub idle: IdleTimer,
}

impl ClientBuffer {
    /// No other request is read: what came of one needs no memory while the client hears of its end.
    pub fn discard(&mut self, session: &Session) {
        self.inbox = Vec::new();
        session.reserve(0);
    }

    /// Refuses a request for which there is no memory: for what is kept of it, for its head until the server has that, of
    /// which `head` bytes are not in the inbox, and for what came behind it.
    pub fn reserve(
        &self,
        session: &Session,
        request: &Request,
        head: usize,
    ) -> Result<(), Refused> {
        if session.reserve(counted(request.memory() + head + self.inbox.len())) {
            Ok(())
        } else {
            Err(NO_MEMORY.to_head(request.method == Method::Head))
        }
    }

    /// So many bytes, those of a head, were used.
    pub fn consume(&mut self, head: usize) {
        self.inbox.drain(..head);
        // A byte behind a large head needs no such memory; a copy of the rest for each of many small heads is spared.
        if self.inbox.capacity() > SMALL.max(2 * self.inbox.len()) {
            self.inbox.shrink_to_fit();
        }
    }

    /// Nothing is here: lets go of memory that a large head took.
    pub fn shrink(&mut self) {
        if self.inbox.is_empty() && self.inbox.capacity() > SMALL {
            self.inbox = Vec::new();
        }
    }
}
