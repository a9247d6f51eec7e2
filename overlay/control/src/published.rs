//! What is in etcd.

use crate::keys::{self, DELAYS, EGRESSES, HEALTH, NODES, SERVERS, TABLES};
use crate::lost::Lost;
use crate::name::Name;
use crate::snapshot::Listed;
use crate::store::Store;
use crate::values::{self, Table};

/// All that agents publish of nodes, and the revision at which it is so.
pub async fn all(store: &Store) -> Result<(i64, Listed), Lost> {
    let nodes = store.list_oldest_first(NODES).await?;
    let at = Some(nodes.revision);
    let listed = Listed {
        nodes: nodes.entries,
        delays: store.list(DELAYS, at).await?.entries,
        servers: store.list(SERVERS, at).await?.entries,
        health: store.list(HEALTH, at).await?.entries,
        egresses: store.list(EGRESSES, at).await?.entries,
    };
    Ok((nodes.revision, listed))
}

/// Each ingress with its table, or why that is refused; what is under no name is passed over. One after the other: all
/// at once are more than an answer of etcd's holds.
pub async fn tables(store: &Store) -> Result<Vec<(Name, Result<Table, String>)>, Lost> {
    let mut found = Vec::new();
    for (key, _) in store.list_keys(TABLES).await?.entries {
        let Ok(ingress) = keys::name(TABLES, &key) else {
            continue;
        };
        if let Some(value) = store.get(&keys::key(TABLES, &ingress)).await? {
            let table = values::decode_table(&ingress, &value);
            found.push((ingress, table));
        }
    }
    Ok(found)
}
