//! Explains the path from an ingress to a server, as JSON for scripts/overlay explain.

use std::net::IpAddr;
use std::num::NonZero;

use overlay_paths::{Figures, Graph, MAX_ROUNDS, Rounds};
use serde::Serialize;

use crate::codec;
use crate::distances::{graphs, to_servers};
use crate::egress_choice::{self, in_order};
use crate::egresses::{Egress, Egresses};
use crate::estimates::{self, Estimates};
use crate::keys::{self, EGRESSES, TABLES};
use crate::members::Members;
use crate::mesh::Mesh;
use crate::name::Name;
use crate::published;
use crate::routes::by_preference;
use crate::schema::{self, Delay, Table};
use crate::session_error::SessionError;
use crate::snapshot::Snapshot;
use crate::store::Store;
use tributary_program::{Exit, Failure};

/// The transfer in question.
#[derive(Debug)]
pub struct Transfer {
    pub server: IpAddr,
    /// The server's port; without one, the ingress's line for all ports counts.
    pub port: Option<NonZero<u16>>,
    /// Its size in bytes; without one, the rounds of the ingress's line count.
    pub bytes: Option<u64>,
}

/// Where the number of rounds comes from.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
enum RoundsBy {
    /// The size in the question.
    Size,
    /// The line of egresses for the server's port.
    Port,
    /// The line of egresses for the server's network.
    Network,
}

/// Why this node is the egress.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
enum ChosenBy {
    /// The line names no other node.
    Name,
    /// Transfers through it take the least time, as measured; or hardly more, and it was the previous choice.
    Measurement,
    /// It is the first node of the line that a chain leads to: nothing is measured, or the nearest node is away.
    Order,
}

/// One of several nodes that a line names.
#[derive(Debug, PartialEq, Serialize)]
struct Candidate {
    node: Name,
    /// Whether it is alive and its converter answers.
    passable: bool,
    /// Its delay to the line's servers; null if not measured.
    to_servers_ms: Option<f64>,
    /// The time of a transfer through it; null if not all of the path is measured.
    time_ms: Option<f64>,
}

#[derive(Debug, Serialize)]
pub struct Explanation {
    ingress: Name,
    server: IpAddr,
    /// The line of the ingress's egresses that covers the server.
    egress: Egress,
    /// The current egress.
    node: Name,
    node_by: ChosenBy,
    /// All nodes of the line, if it names several.
    candidates: Vec<Candidate>,
    /// The rounds for which chains are compared.
    rounds: u8,
    rounds_by: RoundsBy,
    /// The version of the table; null without one.
    version: Option<i64>,
    /// The chains in the order in which they are tried.
    chains: Vec<Path>,
    /// From the ingress to the egress without a converter between them.
    direct: Path,
}

/// A chain with its round-trip times in milliseconds, null where a hop is not measured. The time includes the hop to the
/// servers if that is measured.
#[derive(Debug, PartialEq, Serialize)]
struct Path {
    nodes: Vec<Name>,
    hops_ms: Vec<Option<f64>>,
    /// Whether a hop is estimated, not measured.
    hops_estimated: Vec<bool>,
    time_ms: Option<f64>,
}

/// Exits with 64 for an unknown ingress or a server that no line covers, with 69 without etcd.
pub async fn ask(members: &Members, ingress: &Name, asked: &Transfer) -> Result<Explanation, Failure> {
    let away = |error: SessionError| error.failure(members);
    let store = Store::connect(members).await.map_err(away)?;
    let egresses = store.list(EGRESSES, None).await.map_err(away)?.entries;
    let own = keys::key(EGRESSES, ingress);
    let Some((_, value)) = egresses.iter().find(|(key, _)| key == own.as_bytes()) else {
        let ingresses = egresses
            .iter()
            .map(|(key, _)| String::from_utf8_lossy(&key[EGRESSES.len()..]));
        let ingresses = ingresses.collect::<Vec<_>>().join(", ");
        return Err(Failure::new(
            Exit::Usage,
            format!("{ingress} is no ingress now: accepted: {ingresses}"),
        ));
    };
    let egresses = refused_in(&own, codec::decode(value))?;
    let key = keys::key(TABLES, ingress);
    let table = store.get(&key).await.map_err(away)?;
    let table = table.map(|value| refused_in(&key, schema::decode_table(ingress, &value)));
    let (_, listed) = published::all(&store).await.map_err(away)?;
    let snapshot = Snapshot::read(&listed);
    explain(ingress, asked, &egresses, table.transpose()?.as_ref(), &snapshot)
}

fn refused_in<T>(key: &str, read: Result<T, String>) -> Result<T, Failure> {
    read.map_err(|what| Failure::new(Exit::Unavailable, format!("{key}: {what}")))
}

fn explain(
    ingress: &Name,
    asked: &Transfer,
    egresses: &Egresses,
    table: Option<&Table>,
    snapshot: &Snapshot,
) -> Result<Explanation, Failure> {
    let server = asked.server;
    let Some(egress) = egresses.towards(server, asked.port) else {
        let line = format!("{server}: no line of {ingress}'s egresses covers it: accepted: a server that one does");
        return Err(Failure::new(Exit::Usage, line));
    };
    let (rounds, rounds_by) = match (asked.bytes, egress.port) {
        (Some(bytes), _) => (Rounds::of_size(bytes).count().min(MAX_ROUNDS), RoundsBy::Size),
        (None, Some(_)) => (egress.rounds, RoundsBy::Port),
        (None, None) => (egress.rounds, RoundsBy::Network),
    };
    let estimates = estimates::of(snapshot);
    let alive: Vec<Name> = snapshot.alive.iter().cloned().collect();
    let graphs = graphs(&alive, snapshot, &estimates);
    let choice = table.and_then(|table| egress_choice::at(table.choices_of(egress), rounds));
    let chains = |node: &Name| table.and_then(|table| table.chains.get(node));
    let reached = |node: &&Name| *node == ingress || snapshot.passable.contains(*node) && chains(node).is_some();
    let node = in_order(egress, choice).into_iter().find(reached);
    let node = node.unwrap_or(&egress.node);
    let measured = choice.filter(|choice| choice.node == *node);
    let last = to_servers(snapshot, egress, node).filter(|_| !egress.others.is_empty());
    let path = |through: &[Name]| Path::new(ingress, through, node, last, rounds, &graphs);
    let chains = by_preference(chains(node).map_or(&[][..], Vec::as_slice), rounds);
    let mut chains: Vec<&[Name]> = chains.iter().map(|chain| &*chain.through).collect();
    if let Some(choice) = measured.filter(|_| node != ingress) {
        chains.retain(|through| *through != choice.through);
        chains.insert(0, &choice.through);
    }
    Ok(Explanation {
        ingress: ingress.clone(),
        server,
        egress: egress.clone(),
        node: node.clone(),
        node_by: match measured {
            _ if egress.others.is_empty() => ChosenBy::Name,
            Some(_) => ChosenBy::Measurement,
            None => ChosenBy::Order,
        },
        candidates: candidates(ingress, egress, rounds, snapshot, &estimates),
        rounds,
        rounds_by,
        version: table.map(|table| table.version),
        chains: chains.into_iter().map(path).collect(),
        direct: path(&[]),
    })
}

/// The nodes of a line that names several, as the controller compares them.
fn candidates(
    ingress: &Name,
    egress: &Egress,
    rounds: u8,
    snapshot: &Snapshot,
    estimates: &Estimates,
) -> Vec<Candidate> {
    if egress.others.is_empty() {
        return Vec::new();
    }
    let mesh = Mesh::of(snapshot, estimates);
    let each = egress.candidates().map(|node| {
        let last = to_servers(snapshot, egress, node).map(Delay::microseconds);
        let time = last
            .zip(Rounds::new(rounds))
            .and_then(|(last, rounds)| egress_choice::time(&mesh, ingress, node, last, rounds));
        Candidate {
            node: node.clone(),
            passable: snapshot.passable.contains(node),
            to_servers_ms: last.map(|us| f64::from(us) / 1e3),
            time_ms: time.map(|us| us / 1e3),
        }
    });
    each.collect()
}

impl Path {
    fn new(
        ingress: &Name,
        through: &[Name],
        egress: &Name,
        last: Option<Delay>,
        rounds: u8,
        (measured, estimated): &(Graph, Graph),
    ) -> Self {
        let mut nodes = vec![ingress.clone()];
        nodes.extend_from_slice(through);
        if egress != ingress {
            nodes.push(egress.clone());
        }
        let place = |name: &Name| measured.node(name.as_str());
        let delay = |hop: &[Name], graph: &Graph| graph.delay(place(&hop[0])?, place(&hop[1])?);
        let hop = |hop: &[Name]| delay(hop, measured).or_else(|| delay(hop, estimated));
        let hops: Vec<Option<u32>> = nodes.windows(2).map(hop).collect();
        let guessed = |hop: &[Name]| delay(hop, measured).is_none() && delay(hop, estimated).is_some();
        let hops_estimated = nodes.windows(2).map(guessed).collect();
        let delays: Option<Vec<u32>> = hops.iter().copied().collect();
        let time = delays.zip(Rounds::new(rounds)).map(|(mut hops, rounds)| {
            hops.extend(last.map(Delay::microseconds));
            Figures::of(&hops).time(rounds) / 1e3
        });
        Self {
            nodes,
            hops_estimated,
            hops_ms: hops.into_iter().map(|hop| hop.map(|us| f64::from(us) / 1e3)).collect(),
            time_ms: time,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::samples::{self, chain, choices, measured, name, names};

    /// D is silent.
    fn snapshot() -> Snapshot {
        samples::snapshot(names("A B C D"), measured("A B 20\nA C 12\nB C 8"))
    }

    fn table() -> Table {
        let mut table = samples::table("B", vec![chain(1, &[]), chain(2, &["C"])]);
        table.chains.insert(name("C"), vec![chain(1, &[])]);
        table
    }

    fn asked(server: &str) -> Transfer {
        Transfer {
            server: server.parse().unwrap(),
            port: None,
            bytes: None,
        }
    }

    fn explained(server: &str, bytes: Option<u64>, table: Option<&Table>) -> Result<Explanation, Failure> {
        explained_at(server, None, bytes, table)
    }

    fn explained_at(
        server: &str,
        port: Option<u16>,
        bytes: Option<u64>,
        table: Option<&Table>,
    ) -> Result<Explanation, Failure> {
        let egresses = "192.0.2.0/24 B\n198.51.100.0/24 A\n203.0.113.0/24 D\n192.0.2.0/24 port 22 B 1";
        let asked = Transfer {
            port: port.and_then(NonZero::new),
            bytes,
            ..asked(server)
        };
        let egresses = Egresses::parse(egresses).unwrap();
        explain(&name("A"), &asked, &egresses, table, &snapshot())
    }

    fn times(found: &Explanation) -> Vec<(String, Option<f64>)> {
        let each = found.chains.iter().map(|path| {
            let nodes: Vec<&str> = path.nodes.iter().map(Name::as_str).collect();
            (nodes.join(" "), path.time_ms)
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
        assert_eq!(found.chains[0].hops_estimated, [false, false]);
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
        assert_eq!((silent.direct.hops_ms, silent.direct.time_ms), (vec![None], None));
    }

    #[test]
    fn of_several_nodes_the_one_is_named_and_why() {
        let line = "192.0.2.0/24 B|C|A|D";
        let egresses = Egresses::parse(line).unwrap();
        let mut snapshot = snapshot();
        let far = |far| samples::to_servers("192.0.2.0/24", far);
        snapshot.servers = BTreeMap::from([(name("B"), far(4)), (name("C"), far(40))]);
        let asked = asked("192.0.2.1");
        let explained =
            |table: &Table, snapshot: &Snapshot| explain(&name("A"), &asked, &egresses, Some(table), snapshot).unwrap();
        let first = explained(&table(), &snapshot);
        assert_eq!((first.node, first.node_by), (name("B"), ChosenBy::Order));
        let mut measured = table();
        measured.choices = vec![choices("192.0.2.0/24", &[(1, "B", &["C"])])];
        let found = explained(&measured, &snapshot);
        assert_eq!(found.node_by, ChosenBy::Measurement);
        // 1/2 * (20 + 4) + 4 * 12, and 1/2 * (20 + 4) + 4 * 20; by C 1/2 * (12 + 40) + 4 * 40.
        assert_eq!(
            times(&found),
            [("A C B".into(), Some(60.0)), ("A B".into(), Some(92.0))]
        );
        let candidate = |node, to_servers_ms, time_ms| Candidate {
            node: name(node),
            passable: true,
            to_servers_ms,
            time_ms,
        };
        let expected = [
            candidate("B", Some(4.0), Some(60.0)),
            candidate("C", Some(40.0), Some(186.0)),
            candidate("A", None, None),
            candidate("D", None, None),
        ];
        assert_eq!(found.candidates, expected);
        snapshot.passable.remove(&name("B"));
        let dead = explained(&measured, &snapshot);
        assert_eq!((dead.node, dead.node_by), (name("C"), ChosenBy::Order));
        let named = explained_at("192.0.2.1", None, None, Some(&table())).unwrap();
        assert_eq!((named.node_by, named.candidates), (ChosenBy::Name, vec![]));
    }

    #[test]
    fn hops_that_nobody_measured_are_marked() {
        let mut some = snapshot();
        for node in ["A", "B", "C", "D"] {
            some.delays.entry(name(node)).or_default().only_some = true;
        }
        let more = measured("D A 20\nD B 20\nD C 14\nE A 9\nE B 9\nE C 9\nE D 9");
        for (node, delays) in more {
            let own = some.delays.entry(node).or_default();
            own.round_trip_us = delays.round_trip_us;
        }
        let a = some.delays.get_mut(&name("A")).unwrap();
        a.round_trip_us.remove(&name("B"));
        some.alive.insert(name("E"));
        let egresses = Egresses::parse("192.0.2.0/24 B").unwrap();
        let asked = asked("192.0.2.1");
        let found = explain(&name("A"), &asked, &egresses, Some(&table()), &some).unwrap();
        assert_eq!(found.direct.hops_estimated, [true]);
        assert!(found.direct.hops_ms[0].is_some());
        assert_eq!(found.chains[0].hops_estimated, [false, false]);
    }

    #[test]
    fn a_server_of_no_egress_is_refused() {
        let refusal = explained("10.0.0.1", None, Some(&table())).unwrap_err();
        assert_eq!(refusal.exit, Exit::Usage);
        let start = "10.0.0.1: no line of A's egresses";
        assert!(refusal.message.starts_with(start), "{refusal}");
    }
}
