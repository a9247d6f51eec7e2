//! Offloads connections to the kernel once their slow start is over: it translates the segments of each of two plain TCP
//! connections into segments of the other one, and this process no longer sees them (docs/converter-offload.md).
//!
//! Compiled with the feature `offload` only; without it the settings that need it are refused.

#[cfg(feature = "offload")]
mod attempt;
#[cfg(feature = "offload")]
mod offloader;
#[cfg(not(feature = "offload"))]
mod without;

use std::sync::atomic::AtomicU64;

#[cfg(feature = "offload")]
pub use offloader::Offloader;
use tokio::net::TcpStream;
#[cfg(not(feature = "offload"))]
pub use without::Offloader;

/// Two connections that are relayed, the client's first: their sockets, their marks, and the bytes that came by each.
pub struct Pair<'a> {
    /// As the relay has them.
    pub sockets: [&'a TcpStream; 2],
    /// By which their routes are found.
    pub marks: [Option<u32>; 2],
    /// Goes on being counted while they are offloaded.
    pub counters: [&'a AtomicU64; 2],
}
