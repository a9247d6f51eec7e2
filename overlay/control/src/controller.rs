//! The controller: the elected one computes the tables and publishes them.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use tokio::time::sleep;
use tracing::{info, warn};

use crate::clock::now;
use crate::codec;
use crate::election::{Leadership, campaign};
use crate::estimates::Estimates;
use crate::keys::{self, DELAYS, EGRESSES, HEALTH, NODES, REPORT, SERVERS, TABLES};
use crate::members::Members;
use crate::name::Name;
use crate::schema::{Report, Table};
use crate::session_error::SessionError;
use crate::snapshot::Snapshot;
use crate::store::{Lease, SETTLE, Store};
use crate::tables::TableSet;
use crate::write_budget::WriteBudget;
use crate::{estimates, published, sanity, tables};

/// The tables are computed again after this time even without a change.
const RECOMPUTE_INTERVAL: Duration = Duration::from_secs(300);

#[derive(Clone, Debug)]
pub struct Settings {
    pub name: Name,
    pub members: Members,
    /// The limit of [`sanity::check`], in percent of pairs.
    pub max_through: u32,
}

/// One session with etcd, until an error. `held` is the lease, which the caller may revoke; `budget` outlives the session: etcd
/// remembers what was written before.
pub async fn session(
    settings: &Settings,
    held: &mut Option<Lease>,
    budget: &mut WriteBudget,
) -> Result<Infallible, SessionError> {
    let store = Store::connect(&settings.members).await?;
    store.has_room().await?;
    let lease = store.lease(held).await?;
    info!("{} is a candidate", settings.name);
    let leadership = campaign(&store, &settings.name, lease).await?;
    info!("{} is elected", settings.name);
    let published = published_tables(&store, budget).await?;
    let term = ElectedController {
        settings,
        store,
        leadership,
        published,
        estimates: Estimates::new(),
        refused: Vec::new(),
        budget,
    };
    Box::pin(term.serve(lease)).await
}

/// A controller from its election until it loses the leadership.
struct ElectedController<'a> {
    settings: &'a Settings,
    store: Store,
    leadership: Leadership,
    published: TableSet,
    /// The estimates of unmeasured pairs in the last tables.
    estimates: Estimates,
    /// The refusals of the last report.
    refused: Vec<String>,
    budget: &'a mut WriteBudget,
}

impl ElectedController<'_> {
    async fn serve(mut self, lease: &mut Lease) -> Result<Infallible, SessionError> {
        let start = self.store.list_keys(NODES).await?.revision;
        let mut nodes = self.store.watch(NODES, start).await?;
        let mut delays = self.store.watch(DELAYS, start).await?;
        let mut servers = self.store.watch(SERVERS, start).await?;
        let mut health = self.store.watch(HEALTH, start).await?;
        let mut egresses = self.store.watch(EGRESSES, start).await?;
        loop {
            let revision = self.turn(lease).await?;
            let pause = self.budget.pause(Instant::now());
            if !pause.is_zero() {
                warn!(
                    "no new tables for {} s: etcd keeps an hour of them, and has room for so many",
                    pause.as_secs()
                );
            }
            tokio::select! {
                error = lease.expired() => return Err(error),
                () = sleep(pause) => {}
            }
            tokio::select! {
                error = lease.expired() => return Err(error),
                changed = nodes.after(revision) => changed?,
                changed = delays.after(revision) => changed?,
                changed = servers.after(revision) => changed?,
                changed = health.after(revision) => changed?,
                changed = egresses.after(revision) => changed?,
                () = sleep(RECOMPUTE_INTERVAL) => {}
            }
            sleep(SETTLE).await;
        }
    }

    /// Reads, computes and publishes; returns the revision that it read.
    async fn turn(&mut self, lease: &Lease) -> Result<i64, SessionError> {
        let (revision, listed) = published::all(&self.store).await?;
        let snapshot = Snapshot::read(&listed);
        let mut refused = snapshot.refused.clone();
        match self.compute(snapshot, revision).await? {
            Ok(chosen) => refused.extend(self.publish(chosen, revision).await?),
            Err(refusal) => refused.push(format!("new tables: {refusal}")),
        }
        self.report(refused, lease).await?;
        Ok(revision)
    }

    /// All pairs of 300 nodes take a second on a busy machine: not on the thread that keeps the lease alive.
    async fn compute(&mut self, snapshot: Snapshot, version: i64) -> Result<Result<TableSet, String>, SessionError> {
        let published = std::mem::take(&mut self.published);
        let before = std::mem::take(&mut self.estimates);
        let max_through = self.settings.max_through;
        let work = move || {
            let estimates = estimates::steady(&before, estimates::of(&snapshot));
            let chosen = tables::choose(&snapshot, &estimates, &published, (version, now()));
            let checked = sanity::check(&chosen, max_through);
            (published, estimates, checked.map(|()| chosen))
        };
        let done = tokio::task::spawn_blocking(work).await;
        let (published, estimates, chosen) = done.map_err(|error| SessionError::new(error.to_string()))?;
        (self.published, self.estimates) = (published, estimates);
        Ok(chosen)
    }

    /// Returns a line for each table that could not be published: there the previous one stays.
    async fn publish(&mut self, chosen: TableSet, version: i64) -> Result<Vec<String>, SessionError> {
        let known = self.published.keys();
        let gone: Vec<Name> = known.filter(|ingress| !chosen.contains_key(ingress)).cloned().collect();
        let changed = tables::changed(chosen, &self.published);
        if !changed.is_empty() || !gone.is_empty() {
            info!(
                "version {version}: {} tables changed, {} gone",
                changed.len(),
                gone.len()
            );
        }
        let mut refused = Vec::new();
        for table in changed {
            match self.publish_one(&table).await? {
                Ok(bytes) => {
                    self.budget.spend(bytes, Instant::now());
                    self.published.insert(table.ingress.clone(), table);
                }
                Err(refusal) => refused.push(refusal),
            }
        }
        for ingress in gone {
            self.leadership.delete(&keys::key(TABLES, &ingress)).await?;
            self.published.remove(&ingress);
        }
        Ok(refused)
    }

    /// Returns the size of what was written.
    async fn publish_one(&self, table: &Table) -> Result<Result<u64, String>, SessionError> {
        let key = keys::key(TABLES, &table.ingress);
        let fewer = "fewer lines among its egresses, or fewer nodes in them";
        let value = match codec::encode_bounded(table) {
            Ok(value) => value,
            Err(refusal) => return Ok(Err(format!("{key}: {refusal}: {fewer}"))),
        };
        let bytes = value.len() as u64;
        match self.leadership.put(&key, value, None).await {
            Err(error) if error.is_too_large() => Ok(Err(format!("{key}: {error}: accepted: {fewer}"))),
            other => other.map(|()| Ok(bytes)),
        }
    }

    async fn report(&mut self, refused: Vec<String>, lease: &Lease) -> Result<(), SessionError> {
        for line in refused.iter().filter(|line| !self.refused.contains(line)) {
            warn!("refused: {line}");
        }
        let report = Report::new(self.settings.name.clone(), now(), refused.clone());
        self.refused = refused;
        self.leadership.put(REPORT, codec::encode(&report), Some(lease)).await
    }
}

/// The tables of the previous controller, which may have written them just now. Refused ones are replaced if their ingress is
/// alive.
async fn published_tables(store: &Store, budget: &mut WriteBudget) -> Result<TableSet, SessionError> {
    let (mut found, listed) = (TableSet::new(), published::tables(store).await?);
    budget.spend_at_least(listed.iter().map(|(_, _, bytes)| bytes).sum(), Instant::now());
    for (ingress, table, _) in listed {
        match table {
            Ok(table) => drop(found.insert(ingress, table)),
            Err(refusal) => warn!("the table of {ingress} is refused: {refusal}"),
        }
    }
    Ok(found)
}
