//! The progress of a session: the messages that were sent, acknowledged and received.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use handoff_protocol::{Message, Parsed, Payload};

use crate::send_queue::Budget;
use crate::session::LinkError;

/// Messages are numbered from 1, which is the hello.
#[derive(Debug)]
pub(crate) struct Progress {
    /// What is acknowledged is freed there.
    budget: Arc<Budget>,
    /// The number of the last message to send.
    sent: u64,
    /// The number of the last message written to the current connection.
    written: u64,
    /// The last ones of those sent, which the peer has not acknowledged.
    unacknowledged: VecDeque<Message>,
    /// The number of the last message received.
    received: u64,
}

impl Progress {
    pub(crate) fn new(budget: Arc<Budget>) -> Self {
        Self {
            budget,
            sent: 0,
            written: 0,
            unacknowledged: VecDeque::new(),
            received: 0,
        }
    }

    /// Hellos were exchanged.
    pub(crate) fn begin(&mut self) {
        self.sent = self.sent.max(1);
        self.received = self.received.max(1);
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.sent > 0
    }

    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// Whether a message is new, and not a repeated one.
    pub(crate) fn take(&mut self, parsed: &Parsed) -> Result<bool, LinkError> {
        match parsed.message.payload {
            Payload::Hello { .. } => Err(LinkError::over("it sends a second hello")),
            Payload::Heartbeat { acknowledged } => {
                self.acknowledge(acknowledged)?;
                self.check_received(parsed.number)?;
                Ok(true)
            }
            _ => Ok(self.receive(parsed.number)?),
        }
    }

    /// Whether the message with this number is the next one; otherwise it is a repeated one. Fails if one is missing before it.
    fn receive(&mut self, number: u64) -> io::Result<bool> {
        let previous = number.saturating_sub(1);
        self.check_received(previous)?;
        let is_next = previous == self.received;
        self.received = self.received.max(number);
        Ok(is_next)
    }

    /// Fails if not all messages up to this one were received.
    fn check_received(&self, number: u64) -> io::Result<()> {
        if number <= self.received {
            return Ok(());
        }
        Err(io::Error::other("a message is missing"))
    }

    /// The peer has received all messages up to this one.
    fn acknowledge(&mut self, number: u64) -> Result<(), LinkError> {
        if number > self.written {
            return Err(LinkError::over("it acknowledges what was not sent"));
        }
        let left = self.sent - number;
        if left > self.unacknowledged.len() as u64 {
            return Err(LinkError::over("it acknowledges less than before"));
        }
        while left < self.unacknowledged.len() as u64 {
            if let Some(message) = self.unacknowledged.pop_front() {
                self.budget.free(&message);
            }
        }
        Ok(())
    }

    /// Continues after this message, which the peer has received, on a new connection.
    pub(crate) fn resume(&mut self, number: u64) -> Result<(), LinkError> {
        self.written = self.sent;
        self.acknowledge(number)?;
        self.written = number;
        Ok(())
    }

    pub(crate) fn send(&mut self, message: Message) {
        self.sent += 1;
        self.unacknowledged.push_back(message);
    }

    /// Whether there are messages to write before new ones are taken from the queue.
    pub(crate) fn is_behind(&self) -> bool {
        self.written < self.sent
    }

    /// Appends the next message to write to `bytes`; false without one.
    pub(crate) fn write_next(&mut self, bytes: &mut Vec<u8>) -> bool {
        let number = self.written + 1;
        let first = self.sent + 1 - self.unacknowledged.len() as u64;
        let place = number.checked_sub(first).and_then(|at| usize::try_from(at).ok());
        let Some(message) = place.and_then(|place| self.unacknowledged.get(place)) else {
            return false;
        };
        message.write(number, bytes);
        self.written = number;
        true
    }

    pub(crate) fn write_heartbeat(&self, bytes: &mut Vec<u8>) {
        let acknowledged = self.received;
        let payload = Payload::Heartbeat { acknowledged };
        Message { id: 0, payload }.write(self.written, bytes);
    }

    #[cfg(test)]
    pub(crate) fn unacknowledged(&self) -> usize {
        self.unacknowledged.len()
    }
}
