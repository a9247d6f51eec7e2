//! Early connections that wait for their clients.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::table::{Pair, Table};

use crate::dial::PendingConnect;

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
    pub(super) fn give_up(&self, timeout: Duration) -> usize {
        let expired = self.table().expired(timeout, Instant::now());
        give_up_all(expired)
    }

    /// Returns a number for a new watcher.
    pub(super) fn number(&self) -> u64 {
        self.watchers.fetch_add(1, Ordering::Relaxed)
    }

    /// Resets the unclaimed connections of this watcher; the watcher of a later configuration may have started others.
    pub(super) fn give_up_of(&self, watcher: u64) {
        let begun = self.table().begun_by(watcher);
        give_up_all(begun);
    }

    pub(super) fn table(&self) -> MutexGuard<'_, Table<PendingConnect>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn give_up_all(pending: Vec<PendingConnect>) -> usize {
    let count = pending.len();
    pending.into_iter().for_each(PendingConnect::give_up);
    count
}
