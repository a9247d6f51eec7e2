//! The messages between front, back ends and switch of a request hand-off: bytes in, values out, no sockets.
//!
//! A message has a fixed binary form: length, version, kind and two numbers, then what its kind has. Most have 22 bytes,
//! all offsets are named in one file, and a connection's state has its own fixed form (`Checkpoint::to_bytes`); a
//! self-describing format would only add a dependency and bytes. All lengths are bounded before anything is stored.

mod message;
mod wire;

pub use message::{Message, Payload, Rejection, Rule};
pub use wire::{HELLO_LENGTH, MAX_CLIENT_BYTES, MAX_MESSAGE_LENGTH, ParseError, Parsed, parse};
