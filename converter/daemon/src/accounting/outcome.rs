//! The outcome of a request, or of a connection without requests.

use std::net::SocketAddr;
use std::time::Instant;

use crate::dial::ExpectedSize;

/// The outcome of a request, for its log line.
#[derive(Clone, Copy, Debug)]
pub struct Outcome<'a> {
    /// `ok`, or why not.
    pub name: &'a str,
    /// The server, as the client named it.
    pub target: &'a str,
    /// Its address and port.
    pub server: Option<SocketAddr>,
    /// By which size its connection's way was chosen.
    pub size: Option<ExpectedSize>,
    /// The status of the HTTP response.
    pub status: Option<u16>,
    /// When it began.
    pub since: Instant,
}

impl<'a> Outcome<'a> {
    /// Of a request that began at `since`, and knows of no target yet.
    pub fn new(name: &'a str, since: Instant) -> Self {
        Self {
            name,
            target: "",
            server: None,
            size: None,
            status: None,
            since,
        }
    }
}
