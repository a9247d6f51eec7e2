//! The agent of a node: says that it is alive and how it fares, measures the round-trip times to its peers, publishes what
//! changes.

use std::convert::Infallible;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ipnet::IpNet;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, sleep};
use tracing::{info, warn};

use crate::health::{Health, Pressure};
use crate::keys::{self, DELAYS, EGRESSES, HEALTH, NODES, SERVERS};
use crate::lost::Lost;
use crate::members::Members;
use crate::meter::{Peers, Readings};
use crate::name::Name;
use crate::servers::{self, Wanted};
use crate::snapshot::Entry;
use crate::store::{Lease, Store};
use crate::threshold::{self, Threshold};
use crate::values::{self, Delays, Node, ServerDelays};
use crate::window::Reading;

/// Many nodes come and go at the same time: after a change, wait for more.
const SETTLE: Duration = Duration::from_millis(50);

/// The kernel computes pressure anew once in this time.
const PRESSURE_EVERY: Duration = Duration::from_secs(2);

/// What an agent is told.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The node's name.
    pub name: Name,
    /// Where the agent answers pings.
    pub address: SocketAddr,
    /// Where the node's converter listens, if it has one.
    pub converter: Option<SocketAddr>,
    /// Where the kernel tells the pressure on the processors.
    pub pressure: PathBuf,
    /// Networks of the list of forbidden targets in which servers may be connected to all the same.
    pub allow: Vec<IpNet>,
    /// Whether only some of its peers are measured.
    pub only_some: bool,
    /// etcd's members.
    pub members: Members,
    /// Which changes are published.
    pub threshold: Threshold,
}

/// What is measured, and who measures it: all of it outlives a session with etcd.
pub struct Measured {
    /// The other nodes.
    pub peers: watch::Sender<Peers>,
    /// How far they are.
    pub readings: watch::Receiver<Readings>,
    /// The servers that the node may be next to.
    pub wanted: watch::Sender<Wanted>,
    /// How far they are.
    pub servers: watch::Receiver<servers::Readings>,
    /// Whether the node's converter answers.
    pub answers: watch::Receiver<bool>,
}

/// One session with etcd: until something goes wrong. `held` is the lease, for who ends it earlier.
pub async fn session(
    settings: &Settings,
    held: &mut Option<Lease>,
    measured: &mut Measured,
) -> Result<Infallible, Lost> {
    let Measured {
        peers,
        readings,
        wanted,
        servers,
        answers,
    } = measured;
    let store = Store::connect(&settings.members).await?;
    let lease = store.lease(held).await?;
    // Not in the call: who tells would wait for its end, on the same thread.
    let answered = *answers.borrow_and_update();
    register(settings, &store, lease, answered).await?;
    info!("{} is known, at {}", settings.name, settings.address);
    let mut listing = store.list(NODES, None).await?;
    let mut changes = store.watch(NODES, listing.revision).await?;
    peers.send_replace(others(&settings.name, &listing.entries));
    let mut egresses = store.list(EGRESSES, None).await?;
    let mut other_egresses = store.watch(EGRESSES, egresses.revision).await?;
    let want = |egresses: &[Entry]| {
        let wants = self::wanted(settings, egresses, &peers.borrow());
        for server in wants.refused().difference(wanted.borrow().refused()) {
            warn!(
                "{server} is not connected to: accepted: a server that a converter may reach, or one of --allow"
            );
        }
        wanted.send_if_modified(|before| std::mem::replace(before, wants) != *before);
    };
    want(&egresses.entries);
    let (mut published, mut to_servers, mut health) = published(&settings.name, &store).await?;
    let mut looks = interval(PRESSURE_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // What is known already is new to etcd.
    readings.mark_changed();
    servers.mark_changed();
    loop {
        tokio::select! {
            lost = lease.lost() => return Err(lost),
            news = changes.after(listing.revision) => {
                news?;
                sleep(SETTLE).await;
                listing = store.list(NODES, None).await?;
                peers.send_replace(others(&settings.name, &listing.entries));
                want(&egresses.entries);
            }
            news = other_egresses.after(egresses.revision) => {
                news?;
                sleep(SETTLE).await;
                egresses = store.list(EGRESSES, None).await?;
                want(&egresses.entries);
            }
            told = readings.changed() => {
                told.map_err(|_| Lost::new("nothing is measured any more"))?;
                let next = delays(settings, &published, &readings.borrow_and_update());
                if next != published {
                    published = next;
                    store.put(&keys::key(DELAYS, &settings.name), values::encode(&published), lease).await?;
                }
            }
            told = servers.changed() => {
                told.map_err(|_| Lost::new("no way to servers is measured any more"))?;
                let next = threshold::next(&to_servers.round_trip_us, &servers.borrow_and_update(), settings.threshold);
                if let Some(round_trip_us) = next {
                    to_servers = ServerDelays { round_trip_us };
                    store.put(&keys::key(SERVERS, &settings.name), values::encode(&to_servers), lease).await?;
                }
            }
            told = answers.changed() => {
                told.map_err(|_| Lost::new("nobody asks the converter any more"))?;
                let node = values::encode(&node(settings, *answers.borrow_and_update()));
                store.put(&keys::key(NODES, &settings.name), node, lease).await?;
                looks.reset_immediately();
            }
            _ = looks.tick() => {
                let silent = settings.converter.is_some() && !*answers.borrow();
                let pressure = pressure(&settings.pressure).unwrap_or_default();
                if let Some(next) = health.next(pressure, silent) {
                    store.put(&keys::key(HEALTH, &settings.name), values::encode(&next), lease).await?;
                    health = next;
                }
            }
        }
    }
}

/// The pressure on the processors as the file says now, or what is wrong with the file.
pub fn pressure(file: &Path) -> Result<Pressure, String> {
    let text = fs::read_to_string(file).map_err(|error| error.to_string());
    text.and_then(|text| Pressure::parse(&text))
        .map_err(|what| format!("{}: {what}", file.display()))
}

/// What to publish of the peers in place of what is `published`.
fn delays(settings: &Settings, published: &Delays, readings: &Readings) -> Delays {
    let next = threshold::next(&published.round_trip_us, readings, settings.threshold);
    let silent = readings
        .iter()
        .filter(|(_, reading)| **reading == Reading::Silent);
    let silent = silent.map(|(name, _)| name.clone());
    Delays {
        round_trip_us: next.unwrap_or_else(|| published.round_trip_us.clone()),
        only_some: settings.only_some,
        silent: silent.filter(|_| settings.only_some).collect(),
    }
}

/// What others are told of this node: one whose converter does not answer is like one without.
fn node(settings: &Settings, answers: bool) -> Node {
    Node {
        address: settings.address,
        converter: settings.converter.filter(|_| answers),
    }
}

async fn register(
    settings: &Settings,
    store: &Store,
    lease: &Lease,
    answers: bool,
) -> Result<(), Lost> {
    let value = values::encode(&node(settings, answers));
    if store
        .claim(&keys::key(NODES, &settings.name), value, lease)
        .await?
    {
        return Ok(());
    }
    Err(Lost::new(format!(
        "another agent is {}, or was until a moment ago",
        settings.name
    )))
}

/// What an earlier session with the same lease left.
async fn published(name: &Name, store: &Store) -> Result<(Delays, ServerDelays, Health), Lost> {
    let value = store.get(&keys::key(DELAYS, name)).await?;
    let delays = value.and_then(|value| values::decode_delays(name, &value).ok());
    let value = store.get(&keys::key(SERVERS, name)).await?;
    let servers = value.and_then(|value| values::decode_server_delays(&value).ok());
    let value = store.get(&keys::key(HEALTH, name)).await?;
    let health = value.and_then(|value| values::decode_health(&value).ok());
    Ok((
        delays.unwrap_or_default(),
        servers.unwrap_or_default(),
        health.unwrap_or_default(),
    ))
}

/// The servers that this node may be next to, by the egresses of all ingresses. Of values that are refused the controller
/// tells.
fn wanted(settings: &Settings, egresses: &[Entry], peers: &Peers) -> Wanted {
    let each = egresses
        .iter()
        .filter_map(|(_, value)| values::decode_egresses(value).ok());
    let each: Vec<_> = each.collect();
    Wanted::of(&settings.name, &each, peers, &settings.allow)
}

/// All other nodes. Values that are refused have none; the controller tells of them.
fn others(own: &Name, nodes: &[Entry]) -> Peers {
    let each = nodes.iter().filter_map(|(key, value)| {
        let name = keys::name(NODES, key).ok()?;
        Some((name, values::decode_node(value).ok()?))
    });
    each.filter(|(name, _)| name != own).collect()
}
