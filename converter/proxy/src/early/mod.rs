//! Early SYN forwarding: the connection to the server starts when the client's SYN arrives, not when the client's
//! handshake has ended, which saves a round trip between client and converter (Siracusano et al., "On-the-Fly TCP
//! Acceleration with Miniproxy", `HotMiddlebox` 2016).
//!
//! A packet socket shows the main thread SYNs to transparent listeners. It starts a socket that is connecting and belongs
//! to no event loop; the thread that accepts the client takes it over.

mod syn_watcher;
mod table;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

pub use syn_watcher::SynWatcher;

use crate::upstream::PendingConnect;
use table::{Pair, Table};

/// Early connections that wait for their clients; shared by all threads.
#[derive(Debug, Default)]
pub struct EarlyConnects {
    table: Mutex<Table<PendingConnect>>,
    watchers: AtomicU64,
}

impl EarlyConnects {
    /// Takes the connection that was started for the client's SYN to `server`.
    pub fn claim(&self, client: SocketAddr, server: SocketAddr) -> Option<PendingConnect> {
        self.table().claim(Pair { client, server }, Instant::now())
    }

    /// The number of connections that are not claimed yet.
    pub fn waiting(&self) -> usize {
        self.table().waiting()
    }

    /// Resets the connections that have not been claimed for `timeout`, and returns their number.
    fn give_up(&self, timeout: Duration) -> usize {
        let expired = self.table().expired(timeout, Instant::now());
        give_up_all(expired)
    }

    /// Returns a number for a new watcher.
    fn number(&self) -> u64 {
        self.watchers.fetch_add(1, Ordering::Relaxed)
    }

    /// Resets the unclaimed connections of this watcher; the watcher of a later configuration may have started others.
    fn give_up_of(&self, watcher: u64) {
        let begun = self.table().begun_by(watcher);
        give_up_all(begun);
    }

    fn table(&self) -> MutexGuard<'_, Table<PendingConnect>> {
        self.table.lock()
    }
}

fn give_up_all(pending: Vec<PendingConnect>) -> usize {
    let count = pending.len();
    pending.into_iter().for_each(PendingConnect::give_up);
    count
}
