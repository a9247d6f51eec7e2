//! The state of the overlay, as JSON for scripts/overlay status.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::Serialize;

use crate::clock::now;
use crate::codec;
use crate::election::candidates;
use crate::estimates;
use crate::keys::{self, NODES, REPORT, ROUTES, TABLES};
use crate::members::Members;
use crate::name::Name;
use crate::published;
use crate::schema::{self, InUse, Report};
use crate::session_error::SessionError;
use crate::snapshot::{Entry, Snapshot};
use crate::store::Store;

#[derive(Debug, Serialize)]
pub struct Status {
    /// The elected controller; null without one.
    controller: Option<String>,
    /// The other candidates.
    waiting: Vec<String>,
    /// Seconds since the last computation, by the clocks of the controller and of this machine; null without a report.
    computed_s: Option<u64>,
    /// What the controller, and this program, refused.
    refused: Vec<String>,
    nodes: Vec<Node>,
    tables: Vec<Table>,
}

#[derive(Debug, Serialize)]
struct Node {
    name: Name,
    /// The agent's address.
    address: SocketAddr,
    /// Its converter; null without one, and while it does not answer.
    converter: Option<SocketAddr>,
    /// Whether it has a converter that does not answer.
    converter_silent: bool,
    /// The processors' pressure as last published.
    pressure_percent: u8,
    /// The number of peers that it measured.
    delays: usize,
    /// Their round-trip times in milliseconds.
    round_trip_ms: BTreeMap<Name, f64>,
    /// The number of peers whose delay is estimated, since neither measured the other.
    estimated: usize,
    /// The number of server networks that it measured.
    servers: usize,
    /// The table that its converter uses, if it is an ingress.
    routes: Option<Routes>,
}

#[derive(Debug, Serialize)]
struct Routes {
    /// The version of that table; null before the first one.
    version: Option<i64>,
    /// Seconds since that table was computed.
    age_s: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Table {
    ingress: Name,
    version: i64,
    /// Seconds since it was computed.
    age_s: u64,
    /// The number of nodes to which it has chains.
    egresses: usize,
    /// The chains to each of them, by ascending rounds.
    chains: BTreeMap<Name, Vec<schema::Chain>>,
}

/// Reads the state from etcd.
pub async fn ask(members: &Members) -> Result<Status, SessionError> {
    let store = Store::connect(members).await?;
    let candidates = candidates(&store).await?;
    let mut refused = Vec::new();
    kept(store.has_room().await.map_err(|error| error.to_string()), &mut refused);
    let report = kept(report(&store).await?, &mut refused).flatten();
    let mut tables = Vec::new();
    for (ingress, found, _) in published::tables(&store).await? {
        let named = found.map_err(|what| format!("{}: {what}", keys::key(TABLES, &ingress)));
        tables.extend(kept(named, &mut refused).map(Table::of));
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

/// The value; a refusal is added to `refused`.
fn kept<T>(found: Result<T, String>, refused: &mut Vec<String>) -> Option<T> {
    found.map_err(|what| refused.push(what)).ok()
}

async fn report(store: &Store) -> Result<Result<Option<Report>, String>, SessionError> {
    let value = store.get(REPORT).await?;
    let report = value.map(|value| codec::decode(&value)).transpose();
    Ok(report.map_err(|what| format!("{REPORT}: {what}")))
}

/// Nodes with refused values are missing here; the controller reports them.
async fn nodes(store: &Store) -> Result<Vec<Node>, SessionError> {
    let (revision, listed) = published::all(store).await?;
    let routes = store.list(ROUTES, Some(revision)).await?.entries;
    let snapshot = Snapshot::read(&listed);
    let estimates = estimates::of(&snapshot);
    let guesses = estimates::by_node(&estimates);
    let each = listed.nodes.iter().filter_map(|(key, value)| {
        let name = keys::name(NODES, key).ok()?;
        let node: schema::Node = codec::decode(value).ok()?;
        let measured = snapshot.delays.get(&name);
        let to_servers = snapshot.servers.get(&name);
        let health = snapshot.health.get(&name).cloned().unwrap_or_default();
        Some(Node {
            routes: routes_of(&name, &routes),
            address: node.address,
            converter: node.converter,
            converter_silent: health.converter_silent,
            pressure_percent: health.pressure_percent.percent(),
            delays: measured.map_or(0, |measured| measured.round_trip_us.len()),
            round_trip_ms: measured.map(milliseconds).unwrap_or_default(),
            estimated: guesses.get(&name).copied().unwrap_or(0),
            servers: to_servers.map_or(0, |measured| measured.round_trip_us.len()),
            name,
        })
    });
    Ok(each.collect())
}

fn milliseconds(measured: &schema::Delays) -> BTreeMap<Name, f64> {
    let each = measured.round_trip_us.iter();
    each.map(|(peer, delay)| (peer.clone(), f64::from(delay.microseconds()) / 1000.0))
        .collect()
}

/// None for a node that is not an ingress, or a malformed value.
fn routes_of(name: &Name, routes: &[Entry]) -> Option<Routes> {
    let own = keys::key(ROUTES, name);
    let (_, value) = routes.iter().find(|(key, _)| key == own.as_bytes())?;
    let in_use: InUse = codec::decode(value).ok()?;
    Some(Routes {
        version: in_use.version,
        age_s: in_use.made.map(age),
    })
}

impl Table {
    fn of(table: schema::Table) -> Self {
        Self {
            ingress: table.ingress,
            version: table.version,
            age_s: age(table.made),
            egresses: table.chains.len(),
            chains: table.chains,
        }
    }
}

/// Seconds since then; 0 if the clocks disagree.
fn age(then: u64) -> u64 {
    now().saturating_sub(then)
}
