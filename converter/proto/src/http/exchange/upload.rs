//! The request on its way to the server.

use super::super::{Body, BodyReader};

/// The request on its way from the client to the server.
#[derive(Clone, Debug)]
pub struct Upload {
    /// How much of its body has come from the client.
    pub body: BodyReader,
    pub sent: Sent,
}

/// How much of the request the server's connection has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    Part,
    Whole,
    /// A part, and the connection takes no more.
    Refused,
}

impl Upload {
    /// Of a request with this body.
    pub fn of(body: Body) -> Self {
        Self {
            body: BodyReader::new(body),
            sent: Sent::Part,
        }
    }

    /// Whether more of its body is to come from the client.
    pub fn is_open(&self) -> bool {
        self.sent == Sent::Part && !self.body.has_ended()
    }

    /// The server's connection has taken what has come so far.
    pub fn flushed(&mut self) {
        if self.sent == Sent::Part && self.body.has_ended() {
            self.sent = Sent::Whole;
        }
    }
}
