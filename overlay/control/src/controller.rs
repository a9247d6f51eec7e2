//! The controller: of several the one that etcd elects computes the tables and publishes them.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::time::Duration;

use tokio::time::sleep;
use tracing::{info, warn};

use crate::clock::now;
use crate::election::{Office, campaign};
use crate::estimates::Estimates;
use crate::keys::{self, DELAYS, EGRESSES, HEALTH, NODES, REPORT, SERVERS, TABLES};
use crate::lost::Lost;
use crate::members::Members;
use crate::name::Name;
use crate::snapshot::Snapshot;
use crate::store::{Lease, Store};
use crate::tables::Chosen;
use crate::values::{self, Exits, Report, Table};
use crate::{canary, estimates, published, tables};

/// Changes come in bunches: after the first, wait for more.
const SETTLE: Duration = Duration::from_millis(50);
/// Without a change all is computed again after this time.
const AT_LEAST_EVERY: Duration = Duration::from_secs(300);

/// What a controller is told.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its name.
    pub name: Name,
    /// etcd's members.
    pub members: Members,
    /// The canary's limit in percent of pairs, see [`canary::judge`].
    pub most_through: u32,
}

/// One session with etcd: until something goes wrong. `held` is the lease, for who ends it earlier.
pub async fn session(settings: &Settings, held: &mut Option<Lease>) -> Result<Infallible, Lost> {
    let store = Store::connect(&settings.members).await?;
    store.has_room().await?;
    let lease = store.lease(held).await?;
    info!("{} is a candidate", settings.name);
    let office = campaign(&store, &settings.name, lease).await?;
    info!("{} is elected", settings.name);
    let published = left_by_others(&store).await?;
    let term = Term {
        settings,
        store,
        office,
        published,
        estimates: Estimates::new(),
        refused: Vec::new(),
    };
    Box::pin(term.serve(lease)).await
}

/// The time between an election and the loss of the office.
struct Term<'a> {
    settings: &'a Settings,
    store: Store,
    office: Office,
    published: BTreeMap<Name, Table>,
    /// Of pairs that nobody measured, as the last tables had them.
    estimates: Estimates,
    /// The refusals last reported.
    refused: Vec<String>,
}

impl Term<'_> {
    async fn serve(mut self, lease: &mut Lease) -> Result<Infallible, Lost> {
        let start = self.store.list_keys(NODES).await?.revision;
        let mut nodes = self.store.watch(NODES, start).await?;
        let mut delays = self.store.watch(DELAYS, start).await?;
        let mut servers = self.store.watch(SERVERS, start).await?;
        let mut health = self.store.watch(HEALTH, start).await?;
        let mut egresses = self.store.watch(EGRESSES, start).await?;
        loop {
            let revision = self.turn(lease).await?;
            tokio::select! {
                lost = lease.lost() => return Err(lost),
                changed = nodes.after(revision) => changed?,
                changed = delays.after(revision) => changed?,
                changed = servers.after(revision) => changed?,
                changed = health.after(revision) => changed?,
                changed = egresses.after(revision) => changed?,
                () = sleep(AT_LEAST_EVERY) => {}
            }
            sleep(SETTLE).await;
        }
    }

    /// Read, compute, publish; returns the revision that was read.
    async fn turn(&mut self, lease: &Lease) -> Result<i64, Lost> {
        let (revision, listed) = published::all(&self.store).await?;
        let taken = Snapshot::read(&listed);
        let mut refused = taken.refused.clone();
        let before = self.published.iter();
        let before = before.map(|(ingress, table)| (ingress.clone(), table.exits.clone()));
        let before = (before.collect(), std::mem::take(&mut self.estimates));
        let most_through = self.settings.most_through;
        let (chosen, estimates) = compute(taken, before, most_through).await?;
        self.estimates = estimates;
        match chosen {
            Ok(chosen) => refused.extend(self.publish(&chosen, revision).await?),
            Err(refusal) => refused.push(format!("new tables: {refusal}")),
        }
        self.report(refused, lease).await?;
        Ok(revision)
    }

    /// A line for each table that cannot be published: there, the one before stays.
    async fn publish(&mut self, chosen: &Chosen, version: i64) -> Result<Vec<String>, Lost> {
        let changed = tables::changed(chosen, &self.published, version, now());
        let gone: BTreeSet<Name> = self
            .published
            .keys()
            .filter(|ingress| !chosen.contains_key(ingress))
            .cloned()
            .collect();
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
                Ok(()) => drop(self.published.insert(table.ingress.clone(), table)),
                Err(refusal) => refused.push(refusal),
            }
        }
        for ingress in gone {
            self.office.delete(&keys::key(TABLES, &ingress)).await?;
            self.published.remove(&ingress);
        }
        Ok(refused)
    }

    async fn publish_one(&self, table: &Table) -> Result<Result<(), String>, Lost> {
        let key = keys::key(TABLES, &table.ingress);
        let fewer = "fewer lines among its egresses, or fewer nodes in them";
        let put = match values::encode_bounded(table) {
            Ok(value) => self.office.put(&key, value, None).await,
            Err(refusal) => return Ok(Err(format!("{key}: {refusal}: {fewer}"))),
        };
        match put {
            Err(lost) if lost.is_too_large() => {
                Ok(Err(format!("{key}: {lost}: accepted: {fewer}")))
            }
            other => other.map(Ok),
        }
    }

    async fn report(&mut self, refused: Vec<String>, lease: &Lease) -> Result<(), Lost> {
        for line in refused.iter().filter(|line| !self.refused.contains(line)) {
            warn!("refused: {line}");
        }
        let report = Report::new(self.settings.name.clone(), now(), refused.clone());
        self.refused = refused;
        self.office
            .put(REPORT, values::encode(&report), Some(lease))
            .await
    }
}

/// The tables that an earlier controller left. One that is refused is written anew if its ingress is alive.
async fn left_by_others(store: &Store) -> Result<BTreeMap<Name, Table>, Lost> {
    let mut found = BTreeMap::new();
    for (ingress, table) in published::tables(store).await? {
        match table {
            Ok(table) => drop(found.insert(ingress, table)),
            Err(refusal) => warn!("the table of {ingress} is refused: {refusal}"),
        }
    }
    Ok(found)
}

/// All pairs of 300 nodes take a second on a busy machine: not where the lease is kept alive.
async fn compute(
    taken: Snapshot,
    (exits, before): (BTreeMap<Name, Vec<Exits>>, Estimates),
    most_through: u32,
) -> Result<(Result<Chosen, String>, Estimates), Lost> {
    let work = move || {
        let estimates = estimates::steady(&before, estimates::of(&taken));
        let chosen = tables::choose(&taken, &estimates, &exits);
        let judged = canary::judge(&chosen, most_through);
        (judged.map(|()| chosen), estimates)
    };
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| Lost::new(error.to_string()))
}
