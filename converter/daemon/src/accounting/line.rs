//! A line of the access log.

use std::net::{IpAddr, SocketAddr};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::dial::ExpectedSize;

/// What became of one request, or of one connection of an application that has no requests: a line of the access log.
#[derive(Debug, Serialize)]
pub struct Line<'a> {
    /// Seconds since 1970 at its end.
    pub time: f64,
    /// The listener's name.
    pub listener: &'a str,
    /// The client's address and port.
    pub client: SocketAddr,
    /// The server, as the client named it.
    pub target: &'a str,
    /// The server's address and port, if there was a connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<SocketAddr>,
    /// By which size the way of this connection was chosen, if it was known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<ExpectedSize>,
    /// `ok`, or why not.
    pub outcome: &'a str,
    /// The status of the HTTP response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Its length in time.
    pub seconds: f64,
    /// From the client to the server.
    pub up_bytes: u64,
    /// From the server to the client.
    pub down_bytes: u64,
    /// The client's paths; none with plain TCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paths: Option<Vec<PathLine>>,
}

/// One path of a client's connection.
#[derive(Clone, Debug, Serialize)]
pub struct PathLine {
    /// Its label in the configuration.
    pub path: String,
    /// The client's address on it.
    pub client: IpAddr,
    /// From the client.
    pub up_bytes: u64,
    /// To the client.
    pub down_bytes: u64,
    /// Segments sent again.
    pub retransmissions: u32,
}

/// Seconds since 1970.
pub fn now() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64())
}
