//! A back end of a request hand-off: takes over connections with a request to serve, answers the client itself, and returns
//! them.
//!
//! A server implements [`Server`] and gets [`ClientConnection`]s from an [`Acceptor`]. There are two: [`Objects`] serves
//! files, [`Relay`] forwards to an HTTP server on the same machine.

mod acceptor;
mod connection;
mod head;
mod objects;
mod plain;
mod port;
mod range;
mod relay;
mod serving;

pub use acceptor::{Acceptor, Settings};
pub use connection::{ClientConnection, NextStep, Server};
pub use objects::Objects;
pub use plain::serve_plain;
pub use port::Port;
pub use relay::Relay;
