//! The agent of a node: registers it in etcd, measures round-trip times to its peers, and publishes what has changed.

use std::convert::Infallible;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ipnet::IpNet;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, sleep};
use tracing::{info, warn};

use crate::codec;
use crate::health::{Health, Pressure};
use crate::keys::{self, DELAYS, EGRESSES, HEALTH, NODES, SERVERS};
use crate::members::Members;
use crate::meter::{Peers, Readings};
use crate::name::Name;
use crate::schema::{Delays, Node, ServerDelays};
use crate::servers::{self, ServerTargets};
use crate::session_error::SessionError;
use crate::snapshot::{self, Entry};
use crate::store::{Lease, SETTLE, Store};
use crate::threshold::{self, Threshold};
use crate::window::Reading;

/// The kernel's own interval between two values of the pressure.
const PRESSURE_INTERVAL: Duration = Duration::from_secs(2);

#[derive(Clone, Debug)]
pub struct Settings {
    pub name: Name,
    /// The address at which the agent answers pings.
    pub address: SocketAddr,
    pub converter: Option<SocketAddr>,
    /// The file with the processors' pressure.
    pub pressure: PathBuf,
    /// Networks in which servers may be probed although targets there are otherwise forbidden.
    pub allow: Vec<IpNet>,
    /// Whether only a sample of the peers is measured.
    pub only_some: bool,
    pub members: Members,
    /// The changes of delays that are published.
    pub threshold: Threshold,
}

/// The channels of the measuring tasks, which outlive a session with etcd.
pub struct Measurements {
    /// To the task that pings them.
    pub peers: watch::Sender<Peers>,
    pub readings: watch::Receiver<Readings>,
    /// To the task that measures servers.
    pub targets: watch::Sender<ServerTargets>,
    pub servers: watch::Receiver<servers::Readings>,
    /// Whether the node's converter answers.
    pub answers: watch::Receiver<bool>,
}

/// One session with etcd, until an error. `held` is the lease, which the caller may revoke.
pub async fn session(
    settings: &Settings,
    held: &mut Option<Lease>,
    measured: &mut Measurements,
) -> Result<Infallible, SessionError> {
    let Measurements {
        peers,
        readings,
        targets,
        servers,
        answers,
    } = measured;
    let key = |folder| keys::key(folder, &settings.name);
    let store = Store::connect(&settings.members).await?;
    let lease = store.lease(held).await?;
    // Not within the call: the borrow would block the sender, on the same thread, until its end.
    let answered = *answers.borrow_and_update();
    register(settings, &store, lease, answered).await?;
    info!("{} is known, at {}", settings.name, settings.address);
    let mut listing = store.list(NODES, None).await?;
    let mut node_watch = store.watch(NODES, listing.revision).await?;
    peers.send_replace(others(&settings.name, &listing.entries));
    let mut egresses = store.list(EGRESSES, None).await?;
    let mut egress_watch = store.watch(EGRESSES, egresses.revision).await?;
    let set_targets = |egresses: &[Entry]| {
        let wanted = self::wanted(settings, egresses, &peers.borrow());
        for server in wanted.refused().difference(targets.borrow().refused()) {
            warn!("{server} is not connected to: accepted: a server that a converter may reach, or one of --allow");
        }
        targets.send_if_modified(|before| std::mem::replace(before, wanted) != *before);
    };
    set_targets(&egresses.entries);
    let (mut published, mut to_servers, mut health) = published(&settings.name, &store).await?;
    let mut looks = interval(PRESSURE_INTERVAL);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The present readings are new to etcd.
    readings.mark_changed();
    servers.mark_changed();
    loop {
        tokio::select! {
            error = lease.expired() => return Err(error),
            changed = node_watch.after(listing.revision) => {
                changed?;
                sleep(SETTLE).await;
                listing = store.list(NODES, None).await?;
                peers.send_replace(others(&settings.name, &listing.entries));
                set_targets(&egresses.entries);
            }
            changed = egress_watch.after(egresses.revision) => {
                changed?;
                sleep(SETTLE).await;
                egresses = store.list(EGRESSES, None).await?;
                set_targets(&egresses.entries);
            }
            changed = readings.changed() => {
                changed.map_err(|_| SessionError::new("peers are not measured any more"))?;
                let next = delays(settings, &published, &readings.borrow_and_update());
                if next != published {
                    published = next;
                    store.put(&key(DELAYS), codec::encode(&published), lease).await?;
                }
            }
            changed = servers.changed() => {
                changed.map_err(|_| SessionError::new("servers are not measured any more"))?;
                let next = threshold::next(&to_servers.round_trip_us, &servers.borrow_and_update(), settings.threshold);
                if let Some(round_trip_us) = next {
                    to_servers = ServerDelays { round_trip_us };
                    store.put(&key(SERVERS), codec::encode(&to_servers), lease).await?;
                }
            }
            changed = answers.changed() => {
                changed.map_err(|_| SessionError::new("the converter is not checked any more"))?;
                let node = codec::encode(&node(settings, *answers.borrow_and_update()));
                store.put(&key(NODES), node, lease).await?;
                looks.reset_immediately();
            }
            _ = looks.tick() => {
                let silent = settings.converter.is_some() && !*answers.borrow();
                let pressure = pressure(&settings.pressure).unwrap_or_default();
                if let Some(next) = health.next(pressure, silent) {
                    store.put(&key(HEALTH), codec::encode(&next), lease).await?;
                    health = next;
                }
            }
        }
    }
}

pub fn pressure(file: &Path) -> Result<Pressure, String> {
    let text = fs::read_to_string(file).map_err(|error| error.to_string());
    text.and_then(|text| Pressure::parse(&text))
        .map_err(|what| format!("{}: {what}", file.display()))
}

/// The delays to publish in place of `published`.
fn delays(settings: &Settings, published: &Delays, readings: &Readings) -> Delays {
    let next = threshold::next(&published.round_trip_us, readings, settings.threshold);
    let silent = readings.iter().filter(|(_, reading)| **reading == Reading::Silent);
    let silent = silent.map(|(name, _)| name.clone());
    Delays {
        round_trip_us: next.unwrap_or_else(|| published.round_trip_us.clone()),
        only_some: settings.only_some,
        silent: silent.filter(|_| settings.only_some).collect(),
    }
}

/// A node whose converter does not answer is published as one without.
fn node(settings: &Settings, answers: bool) -> Node {
    Node {
        address: settings.address,
        converter: settings.converter.filter(|_| answers),
    }
}

async fn register(settings: &Settings, store: &Store, lease: &Lease, answers: bool) -> Result<(), SessionError> {
    let value = codec::encode(&node(settings, answers));
    let name = &settings.name;
    if store.claim(&keys::key(NODES, name), value, lease).await? {
        return Ok(());
    }
    Err(SessionError::name_in_use("agent", name))
}

/// The values left by an earlier session with the same lease.
async fn published(name: &Name, store: &Store) -> Result<(Delays, ServerDelays, Health), SessionError> {
    Ok((
        own(DELAYS, name, store).await?,
        own(SERVERS, name, store).await?,
        own(HEALTH, name, store).await?,
    ))
}

async fn own<T: DeserializeOwned + Default>(folder: &str, name: &Name, store: &Store) -> Result<T, SessionError> {
    let value = store.get(&keys::key(folder, name)).await?;
    let decoded = value.and_then(|value| codec::decode(&value).ok());
    Ok(decoded.unwrap_or_default())
}

/// The servers to measure, by the egresses of all ingresses. Refused values are skipped; the controller reports them.
fn wanted(settings: &Settings, egresses: &[Entry], peers: &Peers) -> ServerTargets {
    let decoded = |(_, value): &Entry| codec::decode(value).ok();
    let each: Vec<_> = egresses.iter().filter_map(decoded).collect();
    ServerTargets::of(&settings.name, &each, peers, &settings.allow)
}

/// All nodes but this one.
fn others(own: &Name, nodes: &[Entry]) -> Peers {
    let mut others = snapshot::nodes(nodes);
    others.remove(own);
    others
}
