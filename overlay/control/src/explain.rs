//! Which way an ingress's connections to a server go, and why, as JSON: what scripts/overlay explain calls.

use std::net::IpAddr;
use std::num::NonZero;

use overlay_paths::{Graph, Rounds, transfer_time};
use serde::Serialize;

use crate::egresses::{Egress, Egresses};
use crate::failure::{Exit, Failure};
use crate::keys::{self, DELAYS, EGRESSES, HEALTH, NODES, TABLES};
use crate::lost::Lost;
use crate::members::Members;
use crate::name::Name;
use crate::routes::by_preference;
use crate::snapshot::Snapshot;
use crate::store::Store;
use crate::tables;
use crate::values::{self, MOST_ROUNDS, Table};

/// What is asked for.
#[derive(Debug)]
pub struct Transfer {
    /// The server's address.
    pub server: IpAddr,
    /// The server's port; without one, what the ingress has for all ports.
    pub port: Option<NonZero<u16>>,
    /// How many bytes; without, of as many rounds as the ingress has the server's in.
    pub bytes: Option<u64>,
}

/// By what it is known how many rounds a transfer takes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
enum RoundsBy {
    /// The size that was asked for.
    Size,
    /// A line of the egresses for the server's port.
    Port,
    /// A line of the egresses for the server's network.
    Network,
}

/// The way of one ingress to one server.
#[derive(Debug, Serialize)]
pub struct Explanation {
    ingress: Name,
    server: IpAddr,
    /// The line of the ingress's egresses that covers the server.
    egress: Egress,
    /// What the chains are compared for.
    rounds: u8,
    rounds_by: RoundsBy,
    /// The table's; null without one.
    version: Option<i64>,
    /// In the order in which they are tried.
    chains: Vec<Way>,
    /// Without a converter between the ingress and the egress.
    direct: Way,
}

/// A chain, with its round-trip times in milliseconds as the controller takes them; null where a hop is not measured.
#[derive(Debug, PartialEq, Serialize)]
struct Way {
    nodes: Vec<Name>,
    hops_ms: Vec<Option<f64>>,
    time_ms: Option<f64>,
}

/// Ask etcd.
///
/// Exits with 64 if the ingress or the server is not among those that are known, with 69 without etcd.
pub async fn ask(
    members: &Members,
    ingress: &Name,
    asked: &Transfer,
) -> Result<Explanation, Failure> {
    let away = |lost: Lost| lost.failure(members);
    let store = Store::connect(members).await.map_err(away)?;
    let egresses = store.list(EGRESSES, None).await.map_err(away)?.entries;
    let own = keys::key(EGRESSES, ingress);
    let Some((_, value)) = egresses.iter().find(|(key, _)| key == own.as_bytes()) else {
        let known = egresses
            .iter()
            .map(|(key, _)| String::from_utf8_lossy(&key[EGRESSES.len()..]));
        let known = known.collect::<Vec<_>>().join(", ");
        return Err(Failure::new(
            Exit::Usage,
            format!("{ingress} is no ingress now: accepted: {known}"),
        ));
    };
    let egresses = refused_in(&own, values::decode_egresses(value))?;
    let key = keys::key(TABLES, ingress);
    let table = store.get(&key).await.map_err(away)?;
    let table = table.map(|value| refused_in(&key, values::decode_table(ingress, &value)));
    let nodes = store.list(NODES, None).await.map_err(away)?;
    let delays = store
        .list(DELAYS, Some(nodes.revision))
        .await
        .map_err(away)?;
    let health = store
        .list(HEALTH, Some(nodes.revision))
        .await
        .map_err(away)?;
    let taken = Snapshot::read(&nodes.entries, &delays.entries, &health.entries);
    explain(
        ingress,
        asked,
        &egresses,
        table.transpose()?.as_ref(),
        &taken,
    )
}

fn refused_in<T>(key: &str, read: Result<T, String>) -> Result<T, Failure> {
    read.map_err(|what| Failure::new(Exit::Unavailable, format!("{key}: {what}")))
}

fn explain(
    ingress: &Name,
    asked: &Transfer,
    egresses: &Egresses,
    table: Option<&Table>,
    taken: &Snapshot,
) -> Result<Explanation, Failure> {
    let server = asked.server;
    let Some(egress) = egresses.towards(server, asked.port) else {
        let line = format!(
            "{server}: no line of {ingress}'s egresses covers it: accepted: a server that one does"
        );
        return Err(Failure::new(Exit::Usage, line));
    };
    let (rounds, rounds_by) = match (asked.bytes, egress.port) {
        (Some(bytes), _) => (
            Rounds::of_size(bytes).count().min(MOST_ROUNDS),
            RoundsBy::Size,
        ),
        (None, Some(_)) => (egress.rounds, RoundsBy::Port),
        (None, None) => (egress.rounds, RoundsBy::Network),
    };
    let delays = tables::farther(&taken.delays, &taken.health);
    let graph = tables::graph(&taken.alive, &delays);
    let way = |through: &[Name]| Way::new(ingress, through, &egress.node, rounds, &graph);
    let chains = table.and_then(|table| table.chains.get(&egress.node));
    let chains = by_preference(chains.map_or(&[][..], Vec::as_slice), rounds);
    Ok(Explanation {
        ingress: ingress.clone(),
        server,
        egress: egress.clone(),
        rounds,
        rounds_by,
        version: table.map(|table| table.version),
        chains: chains.iter().map(|chain| way(&chain.through)).collect(),
        direct: way(&[]),
    })
}

impl Way {
    fn new(ingress: &Name, through: &[Name], egress: &Name, rounds: u8, graph: &Graph) -> Self {
        let mut nodes = vec![ingress.clone()];
        nodes.extend_from_slice(through);
        if egress != ingress {
            nodes.push(egress.clone());
        }
        let place = |name: &Name| {
            graph
                .nodes()
                .find(|&node| graph.names()[usize::from(node)] == name.as_str())
        };
        let delay = |hop: &[Name]| graph.delay(place(&hop[0])?, place(&hop[1])?);
        let hops: Vec<Option<u32>> = nodes.windows(2).map(delay).collect();
        let known: Option<Vec<u32>> = hops.iter().copied().collect();
        let time = known.zip(Rounds::new(rounds)).map(|(hops, rounds)| {
            let longest = hops.iter().copied().max().unwrap_or(0);
            transfer_time(hops.iter().sum(), longest, rounds) / 1e3
        });
        Self {
            nodes,
            hops_ms: hops
                .into_iter()
                .map(|hop| hop.map(|us| f64::from(us) / 1e3))
                .collect(),
            time_ms: time,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::values::{Chain, Delay, Delays};

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    /// A B 20 ms, A C 12 ms, B C 8 ms; D is silent.
    fn taken() -> Snapshot {
        let delays = [("A", "B", 20), ("A", "C", 12), ("B", "C", 8)].map(|(from, to, ms)| {
            let delay = Delay::of_microseconds(ms * 1000);
            (from, (name(to), delay))
        });
        let mut measured: BTreeMap<Name, Delays> = BTreeMap::new();
        for (from, (to, delay)) in delays {
            measured
                .entry(name(from))
                .or_default()
                .round_trip_us
                .insert(to, delay);
        }
        let alive: BTreeSet<Name> = ["A", "B", "C", "D"].map(name).into();
        Snapshot {
            passable: alive.clone(),
            alive,
            delays: measured,
            ..Snapshot::default()
        }
    }

    fn table() -> Table {
        let chain = |rounds, through: &[&str]| Chain {
            rounds,
            through: through.iter().map(|each| name(each)).collect(),
        };
        Table {
            ingress: name("A"),
            version: 7,
            made: 1,
            chains: BTreeMap::from([(name("B"), vec![chain(1, &[]), chain(2, &["C"])])]),
        }
    }

    fn explained(
        server: &str,
        bytes: Option<u64>,
        table: Option<&Table>,
    ) -> Result<Explanation, Failure> {
        explained_at(server, None, bytes, table)
    }

    fn explained_at(
        server: &str,
        port: Option<u16>,
        bytes: Option<u64>,
        table: Option<&Table>,
    ) -> Result<Explanation, Failure> {
        let egresses =
            "192.0.2.0/24 B\n198.51.100.0/24 A\n203.0.113.0/24 D\n192.0.2.0/24 port 22 B 1";
        let asked = Transfer {
            server: server.parse().unwrap(),
            port: port.and_then(NonZero::new),
            bytes,
        };
        let egresses = Egresses::parse(egresses).unwrap();
        explain(&name("A"), &asked, &egresses, table, &taken())
    }

    fn times(found: &Explanation) -> Vec<(String, Option<f64>)> {
        let each = found.chains.iter().map(|way| {
            let nodes: Vec<&str> = way.nodes.iter().map(Name::as_str).collect();
            (nodes.join(" "), way.time_ms)
        });
        each.collect()
    }

    #[test]
    fn chains_with_their_times_the_best_first() {
        let found = explained("192.0.2.1", None, Some(&table())).unwrap();
        assert_eq!((found.rounds, found.version), (5, Some(7)));
        // 1/2 * 20 + 4 * 12, and 1/2 * 20 + 4 * 20.
        assert_eq!(
            times(&found),
            [("A C B".into(), Some(58.0)), ("A B".into(), Some(90.0))]
        );
        assert_eq!(found.chains[0].hops_ms, [Some(12.0), Some(8.0)]);
        assert_eq!(found.direct, found.chains[1]);
        let small = explained("192.0.2.1", Some(15_000), Some(&table())).unwrap();
        assert_eq!(
            times(&small),
            [("A B".into(), Some(10.0)), ("A C B".into(), Some(10.0))]
        );
    }

    #[test]
    fn the_size_is_known_by_what_was_asked_then_the_port_then_the_network() {
        for (port, bytes, rounds, by) in [
            (None, None, 5, RoundsBy::Network),
            (Some(443), None, 5, RoundsBy::Network),
            (Some(22), None, 1, RoundsBy::Port),
            (Some(22), Some(45_001), 3, RoundsBy::Size),
        ] {
            let found = explained_at("192.0.2.1", port, bytes, Some(&table())).unwrap();
            assert_eq!((found.rounds, found.rounds_by), (rounds, by));
        }
    }

    #[test]
    fn without_a_table_or_a_chain_there_is_the_direct_way() {
        let found = explained("192.0.2.1", None, None).unwrap();
        assert_eq!((found.version, found.chains.len()), (None, 0));
        assert_eq!(found.direct.time_ms, Some(90.0));
        let own = explained("198.51.100.1", None, Some(&table())).unwrap();
        assert_eq!((own.chains.len(), own.direct.nodes), (0, vec![name("A")]));
        let silent = explained("203.0.113.1", None, Some(&table())).unwrap();
        assert_eq!(
            (silent.direct.hops_ms, silent.direct.time_ms),
            (vec![None], None)
        );
    }

    #[test]
    fn a_server_of_no_egress_is_refused() {
        let refusal = explained("10.0.0.1", None, Some(&table())).unwrap_err();
        assert_eq!(refusal.exit, Exit::Usage);
        assert!(
            refusal
                .line
                .starts_with("10.0.0.1: no line of A's egresses"),
            "{}",
            refusal.line
        );
    }
}
