//! What is so in the overlay now, as JSON: what scripts/overlay status calls.

use serde::Serialize;

use crate::clock::now;
use crate::election::candidates;
use crate::estimates;
use crate::keys::{self, NODES, REPORT, ROUTES, TABLES};
use crate::lost::Lost;
use crate::members::Members;
use crate::name::Name;
use crate::published;
use crate::snapshot::{Entry, Snapshot};
use crate::store::Store;
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
    /// Its converter; null without one, and while it does not answer.
    converter: Option<String>,
    /// It has one that does not answer.
    converter_silent: bool,
    /// That on its processors when it was last published; 0 if that was never worth while.
    pressure_percent: u8,
    /// To how many others it measured the round-trip time.
    delays: usize,
    /// To how many more it is estimated, as neither of the two measured it.
    estimated: usize,
    /// Of how many networks that it may be next to it measured the round-trip time to servers.
    servers: usize,
    /// What its converter goes by, if it is an ingress.
    routes: Option<Routes>,
}

#[derive(Debug, Serialize)]
struct Routes {
    /// The table's; null before there was one.
    version: Option<i64>,
    /// Seconds since that table was published.
    age_s: Option<u64>,
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
pub async fn ask(members: &Members) -> Result<Status, Lost> {
    let store = Store::connect(members).await?;
    let candidates = candidates(&store).await?;
    let mut refused = Vec::new();
    kept(
        store.has_room().await.map_err(|lost| lost.to_string()),
        &mut refused,
    );
    let report = kept(report(&store).await?, &mut refused).flatten();
    let mut tables = Vec::new();
    for (ingress, found) in published::tables(&store).await? {
        let named = found.map_err(|what| format!("{}: {what}", keys::key(TABLES, &ingress)));
        tables.extend(kept(named, &mut refused).map(|table| Table::of(&table)));
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

/// Nodes whose values are refused are among the controller's refusals.
async fn nodes(store: &Store) -> Result<Vec<Node>, Lost> {
    let (revision, listed) = published::all(store).await?;
    let routes = store.list(ROUTES, Some(revision)).await?.entries;
    let taken = Snapshot::read(&listed);
    let estimates = estimates::of(&taken);
    let guesses = estimates::by_node(&estimates);
    let each = listed.nodes.iter().filter_map(|(key, value)| {
        let name = keys::name(NODES, key).ok()?;
        let node = values::decode_node(value).ok()?;
        let measured = taken.delays.get(&name);
        let to_servers = taken.servers.get(&name);
        let health = taken.health.get(&name).cloned().unwrap_or_default();
        Some(Node {
            name: name.to_string(),
            routes: routes_of(&name, &routes),
            address: node.address.to_string(),
            converter: node.converter.map(|converter| converter.to_string()),
            converter_silent: health.converter_silent,
            pressure_percent: health.pressure_percent.percent(),
            delays: measured.map_or(0, |measured| measured.round_trip_us.len()),
            estimated: guesses.get(&name).copied().unwrap_or(0),
            servers: to_servers.map_or(0, |measured| measured.round_trip_us.len()),
        })
    });
    Ok(each.collect())
}

/// None if it is no ingress, or says nothing that is understood.
fn routes_of(name: &Name, routes: &[Entry]) -> Option<Routes> {
    let own = keys::key(ROUTES, name);
    let (_, value) = routes.iter().find(|(key, _)| key == own.as_bytes())?;
    let in_use = values::decode_in_use(value).ok()?;
    Some(Routes {
        version: in_use.version,
        age_s: in_use.made.map(age),
    })
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
    now().saturating_sub(then)
}
