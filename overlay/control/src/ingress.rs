//! The agent's part for an ingress: makes its converter's routes from the table that the controller publishes.
//!
//! The converter knows nothing of etcd. Without etcd, controller or agent it continues with its routes.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tokio::signal::unix::Signal;
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use crate::codec;
use crate::egresses::Egresses;
use crate::keys::{self, EGRESSES, NODES, ROUTES, TABLES};
use crate::members::Members;
use crate::name::Name;
use crate::routes;
use crate::routes_file::RoutesFile;
use crate::schema::{self, InUse, Table};
use crate::session_error::SessionError;
use crate::snapshot;
use crate::store::{Lease, SETTLE, Store};

/// The first pause before a failed reload is tried again; it doubles each time.
const MIN_RETRY_DELAY: Duration = Duration::from_millis(500);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(30);

pub struct Ingress {
    name: Name,
    converter: Option<SocketAddr>,
    members: Members,
    egresses_file: PathBuf,
    egresses: Egresses,
    routes_file: RoutesFile,
    hangup: Signal,
    /// When to begin again after a failure, and the pause before that.
    begin_again: Option<(Instant, Duration)>,
}

impl Ingress {
    /// Reads `egresses_file` again at each `hangup`.
    pub fn new(
        (name, converter): (Name, Option<SocketAddr>),
        members: Members,
        (egresses_file, egresses): (PathBuf, Egresses),
        routes_file: RoutesFile,
        hangup: Signal,
    ) -> Self {
        Self {
            name,
            converter,
            members,
            egresses_file,
            egresses,
            routes_file,
            hangup,
            begin_again: None,
        }
    }

    /// Where there is no routes file, leads everything directly to its servers, etcd or none: the converter does not start
    /// without the file. To be called before each session, since what failed is done again.
    pub async fn begin(&mut self) {
        if self.begin_again.is_some_and(|(then, _)| Instant::now() < then) {
            return;
        }
        let text = routes::text((&self.name, self.converter), None, &BTreeMap::new(), &self.egresses);
        let begun = self.routes_file.begin(&text).await;
        let pause = longer(self.begin_again.take().map(|(_, pause)| pause));
        if let Err(what) = begun {
            warn!("{what}; trying again");
            self.begin_again = Some((Instant::now() + pause, pause));
        }
    }

    /// One session with etcd, until an error. `held` is the lease, which the caller may revoke.
    pub async fn session(&mut self, held: &mut Option<Lease>) -> Result<Infallible, SessionError> {
        let store = Store::connect(&self.members).await?;
        let lease = store.lease(held).await?;
        let own = keys::key(TABLES, &self.name);
        let start = store.list_keys(NODES).await?.revision;
        let mut nodes = store.watch(NODES, start).await?;
        let mut tables = store.watch(&own, start).await?;
        self.publish_egresses(&store, lease).await?;
        let mut pause = None;
        loop {
            let (revision, applied) = self.turn(&store, lease).await?;
            pause = applied.err().map(|what| {
                warn!("{what}; trying again");
                longer(pause)
            });
            tokio::select! {
                error = lease.expired() => return Err(error),
                changed = nodes.after(revision) => changed?,
                changed = tables.after(revision) => changed?,
                _ = self.hangup.recv() => {
                    self.reload_egresses();
                    self.publish_egresses(&store, lease).await?;
                }
                () = sleep(pause.unwrap_or_default()), if pause.is_some() => {}
            }
            sleep(SETTLE).await;
        }
    }

    /// Reads the table and applies it. Returns the revision that it read, and the error if the converter could not be
    /// reloaded. Without a table, a converter that has routes keeps them.
    async fn turn(&mut self, store: &Store, lease: &Lease) -> Result<(i64, Result<(), String>), SessionError> {
        let listing = store.list(NODES, None).await?;
        let table = self.table(store).await?;
        if table.is_some() || !self.routes_file.has_routes() {
            let nodes = snapshot::nodes(&listing.entries);
            let text = routes::text((&self.name, self.converter), table.as_ref(), &nodes, &self.egresses);
            if let Err(what) = self.routes_file.apply(text).await {
                return Ok((listing.revision, Err(what)));
            }
            let in_use = InUse {
                version: table.as_ref().map(|table| table.version),
                made: table.as_ref().map(|table| table.made),
            };
            let key = keys::key(ROUTES, &self.name);
            store.put(&key, codec::encode(&in_use), lease).await?;
        }
        Ok((listing.revision, Ok(())))
    }

    async fn table(&self, store: &Store) -> Result<Option<Table>, SessionError> {
        let key = keys::key(TABLES, &self.name);
        let value = store.get(&key).await?;
        let table = value.map(|value| schema::decode_table(&self.name, &value));
        Ok(table.and_then(|table| {
            table
                .map_err(|refusal| warn!("{key}: {refusal}; routes stay as they are"))
                .ok()
        }))
    }

    /// Fails if another agent of this name holds the key.
    async fn publish_egresses(&self, store: &Store, lease: &Lease) -> Result<(), SessionError> {
        let key = keys::key(EGRESSES, &self.name);
        let value = codec::encode(&self.egresses);
        if store.claim(&key, value, lease).await? {
            return Ok(());
        }
        Err(SessionError::name_in_use("agent", &self.name))
    }

    fn reload_egresses(&mut self) {
        match Egresses::load(&self.egresses_file) {
            Ok(egresses) => {
                info!("{} reloaded", self.egresses_file.display());
                self.egresses = egresses;
            }
            Err(failure) => warn!("the previous one stays in use: {failure}"),
        }
    }
}

fn longer(pause: Option<Duration>) -> Duration {
    pause.map_or(MIN_RETRY_DELAY, |pause| (pause * 2).min(MAX_RETRY_DELAY))
}
