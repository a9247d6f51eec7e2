//! The election among controllers: each writes a key under its lease, and the one whose key is the oldest is elected.
//!
//! Of etcd's primitives, not etcd's own election: there, candidates share a watch, with the permissions of who came first.

use etcd_client::{Compare, CompareOp, KeyValue, PutOptions, TxnOp};

use crate::keys::{self, ELECTION};
use crate::lost::Lost;
use crate::name::Name;
use crate::store::{Lease, Store};

/// Be elected, however long that takes.
pub async fn campaign(store: &Store, name: &Name, lease: &mut Lease) -> Result<Office, Lost> {
    let key = keys::key(ELECTION, name);
    if !store.claim(&key, name.as_str().into(), lease).await? {
        let line = format!("another controller is {name}, or was until a moment ago");
        return Err(Lost::new(line));
    }
    loop {
        let (revision, keys) = store.oldest_first(ELECTION).await?;
        let Some(place) = keys.iter().position(|each| each.key() == key.as_bytes()) else {
            return Err(Lost::new(format!("{key}: somebody removed it")));
        };
        if place == 0 {
            return Ok(Office {
                store: store.clone(),
                since: keys[place].create_revision(),
                key,
            });
        }
        let mut watch = store.watch(ELECTION, revision).await?;
        tokio::select! {
            lost = lease.lost() => return Err(lost),
            changed = watch.after(revision) => changed?,
        }
    }
}

/// The names of the controllers, the elected one first.
pub async fn candidates(store: &Store) -> Result<Vec<String>, Lost> {
    let (_, found) = store.oldest_first(ELECTION).await?;
    let name = |key: &KeyValue| String::from_utf8_lossy(key.value()).into_owned();
    Ok(found.iter().map(name).collect())
}

/// What a controller was elected to: it writes as long as nobody else was.
pub struct Office {
    store: Store,
    key: String,
    since: i64,
}

impl Office {
    /// Write one key, to go with `lease` or to stay.
    pub async fn put(&self, key: &str, value: Vec<u8>, lease: Option<&Lease>) -> Result<(), Lost> {
        let options = lease.map(|lease| PutOptions::new().with_lease(lease.id()));
        self.perform(TxnOp::put(key, value, options)).await
    }

    /// Remove one key.
    pub async fn delete(&self, key: &str) -> Result<(), Lost> {
        self.perform(TxnOp::delete(key, None)).await
    }

    async fn perform(&self, operation: TxnOp) -> Result<(), Lost> {
        let held = Compare::create_revision(self.key.as_str(), CompareOp::Equal, self.since);
        if self.store.transact(held, operation).await? {
            return Ok(());
        }
        Err(Lost::new("another controller was elected"))
    }
}
