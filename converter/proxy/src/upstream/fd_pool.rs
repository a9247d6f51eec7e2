//! Descriptors beyond the two that every connection is sure of, a client's and a server's. Whoever needs more for a while
//! asks here, and does with less where there are none.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What a look-up may have open at a time: a query for each family.
const LOOK_UP: u32 = 2;
/// Of all look-ups that there may be at a time one client has an eighth at most, and no more than these.
const SHARE: usize = 8;
const MOST_OF_CLIENT: usize = 64;
/// Clients whose look-ups may be counted before those that have none are forgotten.
const MOST_KNOWN: usize = 4096;

/// The spare descriptors of this process, for all threads. Half of them are for look-ups: connections that race to servers
/// that say nothing keep no name waiting.
#[derive(Clone, Debug)]
pub struct FdPool {
    /// Without those for look-ups.
    count: usize,
    single: Arc<Semaphore>,
    for_look_ups: Arc<Semaphore>,
    by_client: Arc<Mutex<HashMap<IpAddr, Arc<Semaphore>>>>,
    /// Look-ups of one client at a time.
    share: usize,
}

/// The right to have some of them open.
#[derive(Debug)]
pub struct FdPermit(#[allow(dead_code)] OwnedSemaphorePermit); // it is given back when dropped

/// The right to look a name up, from a client's share and from all.
#[derive(Debug)]
#[allow(dead_code)] // they are given back when dropped
pub struct LookUp {
    of_client: Option<OwnedSemaphorePermit>,
    of_all: OwnedSemaphorePermit,
}

impl FdPool {
    /// So many; one look-up at a time can be made in any case.
    pub fn new(count: usize) -> Self {
        let for_look_ups = (count / 2).max(LOOK_UP as usize);
        let share = for_look_ups / LOOK_UP as usize / SHARE;
        Self {
            count: count / 2,
            single: Arc::new(Semaphore::new(count / 2)),
            for_look_ups: Arc::new(Semaphore::new(for_look_ups)),
            by_client: Arc::default(),
            share: share.clamp(1, MOST_OF_CLIENT),
        }
    }

    pub fn one(&self) -> Option<FdPermit> {
        Arc::clone(&self.single).try_acquire_owned().ok().map(FdPermit)
    }

    /// One, if more than half of them are free: for what may as well do without.
    pub fn one_of_many(&self) -> Option<FdPermit> {
        if self.single.available_permits() > self.count / 2 {
            self.one()
        } else {
            None
        }
    }

    /// As many as a look-up takes, as soon as there are, and as soon as the client has not used up its share: one that asks
    /// for names whose servers are silent keeps nobody else waiting. The semaphores are never closed.
    pub async fn for_look_up(&self, client: Option<IpAddr>) -> Option<LookUp> {
        let of_client = match client.map(|client| self.of_client(client)) {
            Some(share) => Some(share.acquire_owned().await.ok()?),
            None => None,
        };
        let of_all = Arc::clone(&self.for_look_ups).acquire_many_owned(LOOK_UP).await;
        Some(LookUp {
            of_client,
            of_all: of_all.ok()?,
        })
    }

    fn of_client(&self, client: IpAddr) -> Arc<Semaphore> {
        let mut known = self.by_client.lock();
        if known.len() >= MOST_KNOWN {
            known.retain(|_, share| Arc::strong_count(share) > 1);
        }
        let share = known.entry(client);
        Arc::clone(share.or_insert_with(|| Arc::new(Semaphore::new(self.share))))
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    async fn comes<T>(of: impl Future<Output = Option<T>>) -> Option<T> {
        timeout(std::time::Duration::from_millis(1), of).await.ok()?
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_has_used_up_its_share_keeps_nobody_else_waiting() {
        let fd_pool = FdPool::new(64);
        let [one, other] = [1, 2].map(|last| Some(IpAddr::from([10, 0, 0, last])));
        let mut held = Vec::new();
        while let Some(look_up) = comes(fd_pool.for_look_up(one)).await {
            held.push(look_up);
        }
        assert_eq!(held.len(), 2);
        assert!(comes(fd_pool.for_look_up(other)).await.is_some());
        held.pop();
        assert!(comes(fd_pool.for_look_up(one)).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn with_few_descriptors_there_is_one_look_up_at_a_time() {
        let fd_pool = FdPool::new(0);
        let client = Some(IpAddr::from([10, 0, 0, 1]));
        let held = comes(fd_pool.for_look_up(client)).await;
        assert!(held.is_some());
        assert!(comes(fd_pool.for_look_up(None)).await.is_none());
        drop(held);
        assert!(comes(fd_pool.for_look_up(None)).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn what_races_hold_is_not_taken_from_look_ups() {
        let fd_pool = FdPool::new(8);
        let held: Vec<_> = std::iter::from_fn(|| fd_pool.one()).collect();
        assert_eq!(held.len(), 4);
        assert!(comes(fd_pool.for_look_up(None)).await.is_some());
    }
}
