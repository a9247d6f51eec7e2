//! The nodes that can take clients, from etcd: live nodes whose converter answers.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::time::Duration;

use overlay_control::codec;
use overlay_control::health::Health;
use overlay_control::keys::{self, HEALTH, NODES};
use overlay_control::members::Members;
use overlay_control::name::Name;
use overlay_control::session_error::SessionError;
use overlay_control::snapshot::Entry;
use overlay_control::store::{SETTLE, Store};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

/// A watch does not report an etcd that is gone: it is polled as well.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Follows the nodes until an error. Their last state then stays: without etcd it is the best answer.
pub async fn session(
    members: &Members,
    alive: &watch::Sender<Option<BTreeSet<Name>>>,
) -> Result<Infallible, SessionError> {
    let store = Store::connect(members).await?;
    let start = store.list_keys(NODES).await?.revision;
    let mut nodes = store.watch(NODES, start).await?;
    let mut health = store.watch(HEALTH, start).await?;
    loop {
        let listing = store.list_keys(NODES).await?;
        let revision = listing.revision;
        let fares = store.list(HEALTH, Some(revision)).await?;
        alive.send_replace(Some(answering(&listing.entries, &fares.entries)));
        let next = Instant::now() + POLL_INTERVAL;
        tokio::select! {
            news = nodes.after(revision) => news?,
            news = health.after(revision) => news?,
            () = sleep_until(next) => {}
        }
        sleep(SETTLE).await;
    }
}

/// The nodes in these entries of [`NODES`], without those whose converter is silent by these of [`HEALTH`]. A node without
/// health, or with a refused one, counts as healthy, as it does for the controller.
fn answering(nodes: &[Entry], health: &[Entry]) -> BTreeSet<Name> {
    let silent: BTreeSet<Name> = health
        .iter()
        .filter(|(_, value)| codec::decode(value).is_ok_and(|health: Health| health.converter_silent))
        .filter_map(|(key, _)| keys::name(HEALTH, key).ok())
        .collect();
    nodes
        .iter()
        .filter_map(|(key, _)| keys::name(NODES, key).ok())
        .filter(|name| !silent.contains(name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_whose_converter_is_silent_is_left_out_and_one_whose_health_is_refused_is_not() {
        let nodes = ["busy", "london", "milan", "oslo"].map(|name| (format!("{NODES}{name}").into_bytes(), Vec::new()));
        let health = [
            ("busy", r#"{"pressure_percent":90}"#),
            ("milan", r#"{"pressure_percent":0,"converter_silent":true}"#),
            ("oslo", r#"{"pressure_percent":101,"converter_silent":true}"#),
        ]
        .map(|(name, value)| {
            let value = format!(r#"{{"format":1,"value":{value}}}"#);
            (format!("{HEALTH}{name}").into_bytes(), value.into_bytes())
        });
        let left: BTreeSet<Name> = ["busy", "london", "oslo"].map(|name| name.parse().unwrap()).into();
        assert_eq!(answering(&nodes, &health), left);
    }
}
