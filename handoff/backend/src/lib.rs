//! A back end of a request hand-off: takes connections over in mid-way with a request that is still to be answered, answers
//! the client itself, and gives them back.
//!
//! A server implements [`Server`] and gets [`Guest`]s from a [`Host`]. Two are here: [`Objects`] serves files, [`Relay`]
//! asks any HTTP server on the same machine.
#![forbid(unsafe_code)]

mod guest;
mod head;
mod host;
mod objects;
mod plain;
mod port;
mod range;
mod relay;
mod stay;

pub use guest::{After, Guest, Server};
pub use host::{Host, Settings};
pub use objects::Objects;
pub use plain::serve_plain;
pub use port::Port;
pub use relay::Relay;
