//! What was begun and waits for its client.

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::table::{Pair, Table};

use crate::dial::PendingDial;

/// What was begun and waits for its client, for all threads.
#[derive(Debug, Default)]
pub struct Early(Mutex<Table<PendingDial>>);

impl Early {
    /// What was begun for the client's SYN to `server`. It is the caller's from now on.
    pub fn claim(&self, client: SocketAddr, server: SocketAddr) -> Option<PendingDial> {
        self.table().claim(Pair { client, server }, Instant::now())
    }

    /// Connections that nobody has claimed yet.
    pub fn waiting(&self) -> usize {
        self.table().waiting()
    }

    /// Ends what nobody has claimed for as long as `timeout`; how many there were.
    pub(super) fn give_up(&self, timeout: Duration) -> usize {
        let expired = self.table().expired(timeout, Instant::now());
        let count = expired.len();
        expired.into_iter().for_each(PendingDial::give_up);
        count
    }

    pub(super) fn table(&self) -> MutexGuard<'_, Table<PendingDial>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
