//! An ingress: its converter goes by the table that the controller publishes for it.
//!
//! The converter knows nothing of etcd. Without etcd, controller or agent it goes on with the routes that it has.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::PathBuf;
use std::time::Duration;

use tokio::signal::unix::Signal;
use tokio::time::sleep;
use tracing::{info, warn};

use crate::egresses::Egresses;
use crate::handed::Handed;
use crate::keys::{self, EGRESSES, NODES, ROUTES, TABLES};
use crate::lost::Lost;
use crate::members::Members;
use crate::name::Name;
use crate::routes;
use crate::snapshot::Entry;
use crate::store::{Lease, Store};
use crate::values::{self, InUse, Node, Table};

/// A node that dies changes nodes and tables: after one, wait for the other.
const SETTLE: Duration = Duration::from_millis(50);
/// Routes that could not be handed over are so again after this time, then after twice as long each time.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// But not after more.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// What an ingress is told, and what it has handed to its converter.
pub struct Ingress {
    name: Name,
    members: Members,
    egresses_file: PathBuf,
    egresses: Egresses,
    handed: Handed,
    hangup: Signal,
}

impl Ingress {
    /// With these `egresses`, read from `egresses_file`, and again from there at each of `hangup`.
    pub fn new(
        name: Name,
        members: Members,
        (egresses_file, egresses): (PathBuf, Egresses),
        handed: Handed,
        hangup: Signal,
    ) -> Self {
        Self {
            name,
            members,
            egresses_file,
            egresses,
            handed,
            hangup,
        }
    }

    /// One session with etcd: until something goes wrong. `held` is the lease, for who ends it earlier.
    pub async fn session(&mut self, held: &mut Option<Lease>) -> Result<Infallible, Lost> {
        let store = Store::connect(&self.members).await?;
        let lease = store.lease(held).await?;
        let own = keys::key(TABLES, &self.name);
        let start = store.list_keys(NODES).await?.revision;
        let mut nodes = store.watch(NODES, start).await?;
        let mut tables = store.watch(&own, start).await?;
        self.publish_egresses(&store, lease).await?;
        let mut pause = None;
        loop {
            let (revision, handed) = self.turn(&store, lease).await?;
            pause = handed.err().map(|what| {
                warn!("{what}; trying again");
                longer(pause)
            });
            tokio::select! {
                lost = lease.lost() => return Err(lost),
                changed = nodes.after(revision) => changed?,
                changed = tables.after(revision) => changed?,
                _ = self.hangup.recv() => {
                    self.take_anew();
                    self.publish_egresses(&store, lease).await?;
                }
                () = sleep(pause.unwrap_or_default()), if pause.is_some() => {}
            }
            sleep(SETTLE).await;
        }
    }

    /// Read, write, tell; returns the revision that was read, and what kept the converter from its routes, if anything
    /// did. Without a table a converter that has routes keeps them.
    async fn turn(
        &mut self,
        store: &Store,
        lease: &Lease,
    ) -> Result<(i64, Result<(), String>), Lost> {
        let listing = store.list(NODES, None).await?;
        let table = self.table(store).await?;
        if table.is_some() || !self.handed.has_routes() {
            let nodes = alive(&listing.entries);
            let text = routes::text(&self.name, table.as_ref(), &nodes, &self.egresses);
            if let Err(what) = self.handed.over(text).await {
                return Ok((listing.revision, Err(what)));
            }
            let in_use = InUse {
                version: table.as_ref().map(|table| table.version),
                made: table.as_ref().map(|table| table.made),
            };
            let key = keys::key(ROUTES, &self.name);
            store.put(&key, values::encode(&in_use), lease).await?;
        }
        Ok((listing.revision, Ok(())))
    }

    async fn table(&self, store: &Store) -> Result<Option<Table>, Lost> {
        let key = keys::key(TABLES, &self.name);
        let value = store.get(&key).await?;
        let table = value.map(|value| values::decode_table(&self.name, &value));
        Ok(table.and_then(|table| {
            table
                .map_err(|refusal| warn!("{key}: {refusal}; routes stay as they are"))
                .ok()
        }))
    }

    async fn publish_egresses(&self, store: &Store, lease: &Lease) -> Result<(), Lost> {
        let key = keys::key(EGRESSES, &self.name);
        store.put(&key, values::encode(&self.egresses), lease).await
    }

    fn take_anew(&mut self) {
        match Egresses::load(&self.egresses_file) {
            Ok(egresses) => {
                info!("{} read anew", self.egresses_file.display());
                self.egresses = egresses;
            }
            Err(failure) => warn!("everything stays as it was: {}", failure.line),
        }
    }
}

fn longer(pause: Option<Duration>) -> Duration {
    pause.map_or(FIRST_PAUSE, |pause| (pause * 2).min(LONGEST_PAUSE))
}

/// The nodes that may be passed. Values that are refused have none; the controller tells of them.
fn alive(nodes: &[Entry]) -> BTreeMap<Name, Node> {
    let each = nodes.iter().filter_map(|(key, value)| {
        let name = keys::name(NODES, key).ok()?;
        Some((name, values::decode_node(value).ok()?))
    });
    each.collect()
}
