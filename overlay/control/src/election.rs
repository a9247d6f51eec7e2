//! The election of a controller: each writes a key under its lease, and the one with the oldest key is elected.
//!
//! It uses etcd's primitives, not etcd's own election: there candidates share a watch, with the permissions of the first
//! one.

use etcd_client::{Compare, CompareOp, KeyValue, PutOptions, TxnOp};

use crate::keys::{self, ELECTION};
use crate::name::Name;
use crate::session_error::SessionError;
use crate::store::{Lease, Store};

/// Waits until this controller is elected.
pub async fn campaign(store: &Store, name: &Name, lease: &mut Lease) -> Result<Leadership, SessionError> {
    let key = keys::key(ELECTION, name);
    if !store.claim(&key, name.as_str().into(), lease).await? {
        return Err(SessionError::name_in_use("controller", name));
    }
    loop {
        let (revision, keys) = store.oldest_first(ELECTION).await?;
        let Some(place) = keys.iter().position(|each| each.key() == key.as_bytes()) else {
            return Err(SessionError::new(format!("{key}: somebody removed it")));
        };
        if place == 0 {
            return Ok(Leadership {
                store: store.clone(),
                since: keys[place].create_revision(),
                key,
            });
        }
        let mut watch = store.watch(ELECTION, revision).await?;
        tokio::select! {
            error = lease.expired() => return Err(error),
            changed = watch.after(revision) => changed?,
        }
    }
}

/// The controllers' names, the elected one first.
pub async fn candidates(store: &Store) -> Result<Vec<String>, SessionError> {
    let (_, found) = store.oldest_first(ELECTION).await?;
    let name = |key: &KeyValue| String::from_utf8_lossy(key.value()).into_owned();
    Ok(found.iter().map(name).collect())
}

/// Proof of the election: writes succeed only while no other controller has been elected.
pub struct Leadership {
    store: Store,
    key: String,
    since: i64,
}

impl Leadership {
    /// Writes a key, which expires with `lease` if there is one.
    pub async fn put(&self, key: &str, value: Vec<u8>, lease: Option<&Lease>) -> Result<(), SessionError> {
        let options = lease.map(|lease| PutOptions::new().with_lease(lease.id()));
        self.perform(TxnOp::put(key, value, options)).await
    }

    pub async fn delete(&self, key: &str) -> Result<(), SessionError> {
        self.perform(TxnOp::delete(key, None)).await
    }

    async fn perform(&self, operation: TxnOp) -> Result<(), SessionError> {
        let held = Compare::create_revision(self.key.as_str(), CompareOp::Equal, self.since);
        if self.store.transact(held, operation).await? {
            return Ok(());
        }
        Err(SessionError::new("another controller was elected"))
    }
}
