//! Which nodes are alive, by etcd.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::time::Duration;

use overlay_control::keys::{self, NODES};
use overlay_control::lost::Lost;
use overlay_control::members::Members;
use overlay_control::name::Name;
use overlay_control::store::Store;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// A watch tells nothing of an etcd that is gone: it is asked at least so often.
const ASKED_EVERY: Duration = Duration::from_secs(5);

/// Follow the nodes until something goes wrong. What is known then stays: without etcd the last answer is the best one.
pub async fn session(
    members: &Members,
    alive: &watch::Sender<Option<BTreeSet<Name>>>,
) -> Result<Infallible, Lost> {
    let store = Store::connect(members).await?;
    let mut listing = store.list_keys(NODES).await?;
    let mut changes = store.watch(NODES, listing.revision).await?;
    loop {
        let names = listing
            .entries
            .iter()
            .filter_map(|(key, _)| keys::name(NODES, key).ok());
        alive.send_replace(Some(names.collect()));
        let next = Instant::now() + ASKED_EVERY;
        tokio::select! {
            news = changes.after(listing.revision) => news?,
            () = sleep_until(next) => {}
        }
        listing = store.list_keys(NODES).await?;
    }
}
