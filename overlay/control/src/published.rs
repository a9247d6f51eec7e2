//! The tables that are in etcd.

use crate::keys::{self, TABLES};
use crate::lost::Lost;
use crate::name::Name;
use crate::store::Store;
use crate::values::{self, Table};

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
