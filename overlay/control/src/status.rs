//! What is so in the overlay now, as JSON: what scripts/overlay status calls.

use std::time::SystemTime;

use serde::Serialize;

use crate::keys::{self, DELAYS, ELECTION, NODES, REPORT, TABLES};
use crate::store::{Lost, Store};
use crate::values::{self, Report};

/// All of it.
#[derive(Debug, Serialize)]
pub struct Status {
    /// The controller that writes; null without one.
    controller: Option<String>,
    /// Those that would take over.
    waiting: Vec<String>,
    /// Seconds since all was last computed, by the clocks of the controller and of this machine; null if nobody says.
    computed_s: Option<u64>,
    /// What the controller refused then, and what we do.
    refused: Vec<String>,
    nodes: Vec<Node>,
    tables: Vec<Table>,
}

#[derive(Debug, Serialize)]
struct Node {
    name: String,
    /// Of its agent.
    address: String,
    /// To how many others it measured the round-trip time.
    delays: usize,
}

#[derive(Debug, Serialize)]
struct Table {
    ingress: String,
    version: i64,
    /// Seconds since it was published.
    age_s: u64,
    /// How many others it has chains to.
    egresses: usize,
}

/// Ask etcd.
pub async fn ask(endpoints: &[String]) -> Result<Status, Lost> {
    let store = Store::connect(endpoints).await?;
    let candidates = candidates(&store).await?;
    let mut refused = Vec::new();
    let report = kept(report(&store).await?, &mut refused).flatten();
    let mut tables = Vec::new();
    for found in all_tables(&store).await? {
        tables.extend(kept(found, &mut refused));
    }
    let computed_s = report.as_ref().map(|report| age(report.computed));
    refused.extend(report.into_iter().flat_map(|report| report.refused));
    Ok(Status {
        controller: candidates.first().cloned(),
        waiting: candidates.into_iter().skip(1).collect(),
        computed_s,
        refused,
        nodes: nodes(&store).await?,
        tables,
    })
}

/// What was read; of what is refused only why.
fn kept<T>(found: Result<T, String>, refused: &mut Vec<String>) -> Option<T> {
    found.map_err(|what| refused.push(what)).ok()
}

async fn report(store: &Store) -> Result<Result<Option<Report>, String>, Lost> {
    let value = store.get(REPORT).await?;
    let report = value.map(|value| values::decode_report(&value)).transpose();
    Ok(report.map_err(|what| format!("{REPORT}: {what}")))
}

/// The names of the controllers, the elected one first.
async fn candidates(store: &Store) -> Result<Vec<String>, Lost> {
    let found = store.oldest_first(&format!("{ELECTION}/")).await?.entries;
    Ok(found
        .into_iter()
        .map(|(_, name)| String::from_utf8_lossy(&name).into_owned())
        .collect())
}

/// Nodes whose values are refused are among the controller's refusals.
async fn nodes(store: &Store) -> Result<Vec<Node>, Lost> {
    let mut found = Vec::new();
    for (key, value) in store.list(NODES, None).await?.entries {
        let (Ok(name), Ok(node)) = (keys::name(NODES, &key), values::decode_node(&value)) else {
            continue;
        };
        let measured = store.get(&keys::key(DELAYS, &name)).await?;
        let delays = measured
            .and_then(|value| values::decode_delays(&name, &value).ok())
            .unwrap_or_default();
        found.push(Node {
            name: name.to_string(),
            address: node.address.to_string(),
            delays: delays.round_trip_us.len(),
        });
    }
    Ok(found)
}

async fn all_tables(store: &Store) -> Result<Vec<Result<Table, String>>, Lost> {
    let mut found = Vec::new();
    for (key, _) in store.list_keys(TABLES).await?.entries {
        let Ok(ingress) = keys::name(TABLES, &key) else {
            continue;
        };
        let key = keys::key(TABLES, &ingress);
        if let Some(value) = store.get(&key).await? {
            let table = values::decode_table(&ingress, &value);
            found.push(
                table
                    .map(|table| Table::of(&table))
                    .map_err(|what| format!("{key}: {what}")),
            );
        }
    }
    Ok(found)
}

impl Table {
    fn of(table: &values::Table) -> Self {
        Self {
            ingress: table.ingress.to_string(),
            version: table.version,
            age_s: age(table.made),
            egresses: table.chains.len(),
        }
    }
}

/// Seconds since that moment; 0 where clocks differ the other way.
fn age(then: u64) -> u64 {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    now.saturating_sub(then)
}
