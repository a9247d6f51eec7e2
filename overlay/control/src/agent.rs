//! The agent of a node: says that it is alive and how it fares, measures the round-trip times to its peers, publishes what
//! changes.

use std::convert::Infallible;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, sleep};
use tracing::info;

use crate::health::{Health, Pressure};
use crate::keys::{self, DELAYS, HEALTH, NODES};
use crate::lost::Lost;
use crate::members::Members;
use crate::meter::{Peers, Readings};
use crate::name::Name;
use crate::snapshot::Entry;
use crate::store::{Lease, Store};
use crate::threshold::{self, Threshold};
use crate::values::{self, Delays, Node};

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
    /// etcd's members.
    pub members: Members,
    /// Which changes are published.
    pub threshold: Threshold,
}

/// One session with etcd: until something goes wrong. `held` is the lease, for who ends it earlier.
///
/// What was measured outlives it: `peers` and `readings` are the meter's, `answers` says whether the converter answers.
pub async fn session(
    settings: &Settings,
    held: &mut Option<Lease>,
    peers: &watch::Sender<Peers>,
    readings: &mut watch::Receiver<Readings>,
    answers: &mut watch::Receiver<bool>,
) -> Result<Infallible, Lost> {
    let store = Store::connect(&settings.members).await?;
    let lease = store.lease(held).await?;
    // Not in the call: who tells would wait for its end, on the same thread.
    let answered = *answers.borrow_and_update();
    register(settings, &store, lease, answered).await?;
    info!("{} is known, at {}", settings.name, settings.address);
    let mut listing = store.list(NODES, None).await?;
    let mut changes = store.watch(NODES, listing.revision).await?;
    peers.send_replace(others(&settings.name, &listing.entries));
    let (mut published, mut health) = published(&settings.name, &store).await?;
    let mut looks = interval(PRESSURE_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // What is known already is new to etcd.
    readings.mark_changed();
    loop {
        tokio::select! {
            lost = lease.lost() => return Err(lost),
            news = changes.after(listing.revision) => {
                news?;
                sleep(SETTLE).await;
                listing = store.list(NODES, None).await?;
                peers.send_replace(others(&settings.name, &listing.entries));
            }
            told = readings.changed() => {
                told.map_err(|_| Lost::new("nothing is measured any more"))?;
                let next = threshold::next(&published, &readings.borrow_and_update(), settings.threshold);
                if let Some(next) = next {
                    store.put(&keys::key(DELAYS, &settings.name), values::encode(&next), lease).await?;
                    published = next;
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
async fn published(name: &Name, store: &Store) -> Result<(Delays, Health), Lost> {
    let value = store.get(&keys::key(DELAYS, name)).await?;
    let delays = value.and_then(|value| values::decode_delays(name, &value).ok());
    let value = store.get(&keys::key(HEALTH, name)).await?;
    let health = value.and_then(|value| values::decode_health(&value).ok());
    Ok((delays.unwrap_or_default(), health.unwrap_or_default()))
}

/// All other nodes. Values that are refused have none; the controller tells of them.
fn others(own: &Name, nodes: &[Entry]) -> Peers {
    let each = nodes.iter().filter_map(|(key, value)| {
        let name = keys::name(NODES, key).ok()?;
        Some((name, values::decode_node(value).ok()?))
    });
    each.filter(|(name, _)| name != own).collect()
}
