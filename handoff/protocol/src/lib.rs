//! What the front, the back ends and the switch of a request hand-off tell each other: bytes in, values out, no socket.
//!
//! A message is a fixed binary one: its length, a version, its kind and two numbers, then what its kind has. Most are 22 bytes
//! long, all offsets are named in one file, and a connection's state has its own fixed form (`Checkpoint::to_bytes`), so that a
//! format that describes itself would only add a dependency and bytes. Every length is bounded before anything is kept.
#![forbid(unsafe_code)]

mod message;
mod wire;

pub use message::{Denial, Message, Rule, What};
pub use wire::{Bad, HELLO_LENGTH, LONGEST, MOST_BYTES, Parsed, parse};
