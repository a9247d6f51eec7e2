//! Early SYN forwarding: the connection to the server is begun when the client's SYN comes in, and not when the client's
//! handshake has ended, which spares a round trip between client and converter (Siracusano et al., "On-the-Fly TCP
//! Acceleration with Miniproxy", `HotMiddlebox` 2016).
//!
//! A packet socket tells the main thread of SYNs to transparent listeners. What it begins is a socket that is connecting
//! and belongs to no event loop; the thread that accepts the client takes it over.

mod flood;
mod lookout;
mod table;

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub use lookout::Lookout;
use table::{Pair, Table};

use crate::dial::Begun;

/// What was begun and waits for its client, for all threads.
#[derive(Debug, Default)]
pub struct Early(Mutex<Table<Begun>>);

impl Early {
    /// What was begun for the client's SYN to `server`. It is the caller's from now on.
    pub fn claim(&self, client: SocketAddr, server: SocketAddr) -> Option<Begun> {
        self.table().claim(Pair { client, server }, Instant::now())
    }

    /// Connections that nobody has claimed yet.
    pub fn waiting(&self) -> usize {
        self.table().waiting()
    }

    /// Ends what nobody has claimed for as long as `patience`; how many there were.
    fn give_up(&self, patience: Duration) -> usize {
        let expired = self.table().expired(patience, Instant::now());
        let count = expired.len();
        expired.into_iter().for_each(Begun::give_up);
        count
    }

    fn table(&self) -> MutexGuard<'_, Table<Begun>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
