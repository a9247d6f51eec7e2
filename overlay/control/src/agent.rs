//! The agent of a node: says that it is alive, measures the round-trip times to its peers, publishes what changes.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;
use tracing::info;

use crate::keys::{self, DELAYS, NODES};
use crate::members::Members;
use crate::meter::{Peers, Readings};
use crate::name::Name;
use crate::snapshot::Entry;
use crate::store::{Lease, Lost, Store};
use crate::threshold::{self, Threshold};
use crate::values::{self, Delays, Node};

/// Many nodes come and go at the same time: after a change, wait for more.
const SETTLE: Duration = Duration::from_millis(50);

/// What an agent is told.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The node's name.
    pub name: Name,
    /// Where the agent answers pings.
    pub address: SocketAddr,
    /// Where the node's converter listens, if it has one.
    pub converter: Option<SocketAddr>,
    /// etcd's members.
    pub members: Members,
    /// Which changes are published.
    pub threshold: Threshold,
}

/// One session with etcd: until something goes wrong. `held` is the lease, for who ends it earlier.
///
/// What was measured outlives it: `peers` and `readings` are the meter's.
pub async fn session(
    settings: &Settings,
    held: &mut Option<Lease>,
    peers: &watch::Sender<Peers>,
    readings: &mut watch::Receiver<Readings>,
) -> Result<Infallible, Lost> {
    // What an earlier session left: its lease may stand.
    if let Some(lease) = held.take() {
        lease.give_back().await;
    }
    let store = Store::connect(&settings.members).await?;
    let lease = held.insert(store.lease().await?);
    register(settings, &store, lease).await?;
    info!("{} is known, at {}", settings.name, settings.address);
    let mut listing = store.list(NODES, None).await?;
    let mut changes = store.watch(NODES, listing.revision).await?;
    peers.send_replace(others(&settings.name, &listing.entries));
    let mut published = Delays::default();
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
                told.map_err(|_| Lost("nothing is measured any more".into()))?;
                let next = threshold::next(&published, &readings.borrow_and_update(), settings.threshold);
                if let Some(next) = next {
                    store.put(&keys::key(DELAYS, &settings.name), values::encode(&next), lease).await?;
                    published = next;
                }
            }
        }
    }
}

async fn register(settings: &Settings, store: &Store, lease: &Lease) -> Result<(), Lost> {
    let value = values::encode(&Node {
        address: settings.address,
        converter: settings.converter,
    });
    if store
        .put_new(&keys::key(NODES, &settings.name), value, lease)
        .await?
    {
        return Ok(());
    }
    Err(Lost(format!(
        "another agent is {}, or was until a moment ago",
        settings.name
    )))
}

/// The agents of all other nodes. Values that are refused have none; the controller tells of them.
fn others(own: &Name, nodes: &[Entry]) -> Peers {
    let each = nodes.iter().filter_map(|(key, value)| {
        let name = keys::name(NODES, key).ok()?;
        Some((name, values::decode_node(value).ok()?.address))
    });
    each.filter(|(name, _)| name != own).collect()
}
