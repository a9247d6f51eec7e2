//! Reads what agents and controllers have published.

use etcd_client::KeyValue;

use crate::keys::{self, DELAYS, EGRESSES, HEALTH, NODES, SERVERS, TABLES};
use crate::name::Name;
use crate::schema::{self, Table};
use crate::session_error::SessionError;
use crate::snapshot::Entries;
use crate::store::Store;

/// All that agents publish, and the revision of it.
pub async fn all(store: &Store) -> Result<(i64, Entries), SessionError> {
    let (revision, nodes) = store.oldest_first(NODES).await?;
    let at = Some(revision);
    let listed = Entries {
        nodes: nodes.into_iter().map(KeyValue::into_key_value).collect(),
        delays: store.list(DELAYS, at).await?.entries,
        servers: store.list(SERVERS, at).await?.entries,
        health: store.list(HEALTH, at).await?.entries,
        egresses: store.list(EGRESSES, at).await?.entries,
    };
    Ok((revision, listed))
}

/// The table of each ingress, or why it is refused, and its size in etcd; malformed names are skipped. Reads one table after the other, since all
/// of them together may exceed the largest reply.
pub async fn tables(store: &Store) -> Result<Vec<(Name, Result<Table, String>, u64)>, SessionError> {
    let mut found = Vec::new();
    for (key, _) in store.list_keys(TABLES).await?.entries {
        let Ok(ingress) = keys::name(TABLES, &key) else {
            continue;
        };
        if let Some(value) = store.get(&keys::key(TABLES, &ingress)).await? {
            let table = schema::decode_table(&ingress, &value);
            found.push((ingress, table, value.len() as u64));
        }
    }
    Ok(found)
}
