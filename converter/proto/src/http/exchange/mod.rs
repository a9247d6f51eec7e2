//! One request and its response, as a proxy passes them on: what happened comes in, what is to be done comes out. No
//! socket, no clock: whoever carries it out has those.
//!
//! The caller shows bytes as they come and does what the [`Action`] says: shows the rest again with more behind it, passes a
//! stretch on, or ends. Nothing is kept in here but what the bytes meant, so that a body of any size takes no memory. Heads
//! are written to `out`, so that a head and the first bytes of its body can leave in one packet.

mod download;
mod event;
mod machine;
mod upload;

pub use event::{Action, ClientAfter, Completed, Event, ExchangeResult, Fault, Input, ServerAfter, is_break};
pub use machine::Exchange;
