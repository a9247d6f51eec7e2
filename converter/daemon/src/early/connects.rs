//! What was begun and waits for its client.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::table::{Pair, Table};

use crate::dial::PendingConnect;

/// What was begun and waits for its client, for all threads.
#[derive(Debug, Default)]
pub struct EarlyConnects {
    table: Mutex<Table<PendingConnect>>,
    watchers: AtomicU64,
}

impl EarlyConnects {
    /// What was begun for the client's SYN to `server`. It is the caller's from now on.
    pub fn claim(&self, client: SocketAddr, server: SocketAddr) -> Option<PendingConnect> {
        self.table().claim(Pair { client, server }, Instant::now())
    }

    /// Connections that nobody has claimed yet.
    pub fn waiting(&self) -> usize {
        self.table().waiting()
    }

    /// Ends what nobody has claimed for as long as `timeout`; how many there were.
    pub(super) fn give_up(&self, timeout: Duration) -> usize {
        let expired = self.table().expired(timeout, Instant::now());
        give_up_all(expired)
    }

    /// A number for one more watcher.
    pub(super) fn number(&self) -> u64 {
        self.watchers.fetch_add(1, Ordering::Relaxed)
    }

    /// Ends what this watcher began and nobody has claimed; a watcher of a later configuration may have begun others since.
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
