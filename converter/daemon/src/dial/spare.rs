//! Descriptors beyond the two that every connection is sure of, a client's and a server's. Whoever needs more for a while
//! asks here, and does with less where there are none.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What a look-up may have open at a time: questions for two families to two name servers.
pub const LOOK_UP: u32 = 4;

/// The spare descriptors of this process, for all threads.
#[derive(Clone, Debug)]
pub struct SpareDescriptors(Arc<Semaphore>);

/// The right to have some of them open.
#[derive(Debug)]
pub struct Spare(#[allow(dead_code)] OwnedSemaphorePermit); // it is given back when dropped

impl SpareDescriptors {
    /// So many; one look-up at a time can be made in any case.
    pub fn new(count: usize) -> Self {
        Self(Arc::new(Semaphore::new(count.max(LOOK_UP as usize))))
    }

    /// One, if there is one at this moment.
    pub fn one(&self) -> Option<Spare> {
        Arc::clone(&self.0).try_acquire_owned().ok().map(Spare)
    }

    /// As many as a look-up takes, as soon as there are. The semaphore is never closed.
    pub async fn for_look_up(&self) -> Option<Spare> {
        let spare = Arc::clone(&self.0).acquire_many_owned(LOOK_UP).await;
        spare.ok().map(Spare)
    }
}
