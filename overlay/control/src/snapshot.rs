//! The input of a controller: live nodes, their health and their measurements, all from one revision of etcd.

use std::collections::{BTreeMap, BTreeSet};

use overlay_paths::MAX_NODES;
use serde::de::DeserializeOwned;

use crate::codec;
use crate::egresses::Egresses;
use crate::health::Health;
use crate::keys::{self, DELAYS, EGRESSES, HEALTH, NODES, SERVERS};
use crate::name::Name;
use crate::schema::{self, Delays, Node, ServerDelays};

pub type Entry = (Vec<u8>, Vec<u8>);

/// The entries of etcd's prefixes, all at one revision.
#[derive(Clone, Debug, Default)]
pub struct Entries {
    /// Of [`keys::NODES`], the oldest first.
    pub nodes: Vec<Entry>,
    /// Of [`keys::DELAYS`].
    pub delays: Vec<Entry>,
    /// Of [`keys::SERVERS`].
    pub servers: Vec<Entry>,
    /// Of [`keys::HEALTH`].
    pub health: Vec<Entry>,
    /// Of [`keys::EGRESSES`].
    pub egresses: Vec<Entry>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    pub alive: BTreeSet<Name>,
    /// Live nodes with a converter that answers.
    pub passable: BTreeSet<Name>,
    /// Without refused values.
    pub delays: BTreeMap<Name, Delays>,
    pub servers: BTreeMap<Name, ServerDelays>,
    /// Nodes that are missing here are healthy.
    pub health: BTreeMap<Name, Health>,
    pub egresses: BTreeMap<Name, Egresses>,
    /// A line for each refused value.
    pub refused: Vec<String>,
}

impl Snapshot {
    /// Decodes the entries. Of more nodes than overlay-paths accepts the newest are refused.
    pub fn read(listed: &Entries) -> Self {
        let mut refused = Vec::new();
        let (first, rest) = listed.nodes.split_at(listed.nodes.len().min(MAX_NODES));
        let nodes: BTreeMap<Name, Node> = read(NODES, first, &mut refused, any);
        let no_more = format!("there are {MAX_NODES} nodes already: accepted: at most as many");
        refused.extend(rest.iter().map(|(key, _)| at(key, &no_more)));
        let passable = nodes.iter().filter(|(_, node)| node.converter.is_some());
        Self {
            passable: passable.map(|(name, _)| name.clone()).collect(),
            delays: read(DELAYS, &listed.delays, &mut refused, schema::decode_delays),
            servers: read(SERVERS, &listed.servers, &mut refused, any),
            health: read(HEALTH, &listed.health, &mut refused, any),
            egresses: read(EGRESSES, &listed.egresses, &mut refused, any),
            alive: nodes.into_keys().collect(),
            refused,
        }
    }
}

/// The nodes in these entries, without refused values.
pub fn nodes(entries: &[Entry]) -> BTreeMap<Name, Node> {
    read(NODES, entries, &mut Vec::new(), any)
}

/// Decodes the values of a prefix by their names; adds a line to `refused` for each that cannot be decoded.
fn read<T>(
    folder: &str,
    entries: &[Entry],
    refused: &mut Vec<String>,
    decode: impl Fn(&Name, &[u8]) -> Result<T, String>,
) -> BTreeMap<Name, T> {
    let mut all = BTreeMap::new();
    for (key, value) in entries {
        let found = keys::name(folder, key).and_then(|name| {
            let value = decode(&name, value).map_err(|what| at(key, &what))?;
            Ok((name, value))
        });
        match found {
            Ok((name, value)) => drop(all.insert(name, value)),
            Err(refusal) => refused.push(refusal),
        }
    }
    all
}

/// Decodes a value that may be anybody's.
fn any<T: DeserializeOwned>(_: &Name, value: &[u8]) -> Result<T, String> {
    codec::decode(value)
}

fn at(key: &[u8], what: &str) -> String {
    format!("{}: {what}", String::from_utf8_lossy(key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::ALL;

    const ADDRESS: &str = r#"{"address":"10.0.0.1:5460"}"#;

    /// An entry below the overlay's prefix.
    fn entry(key: &str, value: &str) -> Entry {
        let value = format!(r#"{{"format":1,"value":{value}}}"#);
        (format!("{ALL}{key}").into(), value.into())
    }

    #[test]
    fn of_too_many_nodes_those_that_came_last_are_left_out() {
        let numbers = (0..MAX_NODES + 2).rev();
        let node = |number| entry(&format!("nodes/{number}"), ADDRESS);
        let snapshot = Snapshot::read(&Entries {
            nodes: numbers.map(node).collect(),
            ..Entries::default()
        });
        assert_eq!(snapshot.alive.len(), MAX_NODES);
        for (number, line) in [1, 0].iter().zip(&snapshot.refused) {
            assert!(!snapshot.alive.contains(&number.to_string().parse().unwrap()));
            let start = format!("{NODES}{number}: there are 1000 nodes");
            assert!(line.starts_with(&start), "{line}");
        }
    }

    #[test]
    fn one_bad_value_costs_no_other() {
        let converter = r#"{"address":"10.0.0.2:5460","converter":"10.0.0.2:5124"}"#;
        let snapshot = Snapshot::read(&Entries {
            nodes: vec![
                entry("nodes/A", ADDRESS),
                entry("nodes/B", converter),
                entry("nodes/C", r#"{"address":"nowhere"}"#),
                entry("nodes/D/x", ADDRESS),
            ],
            delays: vec![
                entry("delays/A", r#"{"round_trip_us":{"B":5}}"#),
                entry("delays/B", r#"{"round_trip_us":{"A":-5}}"#),
            ],
            health: vec![
                entry("health/A", r#"{"pressure_percent":101}"#),
                entry("health/B", r#"{"pressure_percent":40}"#),
            ],
            servers: vec![
                entry("servers/A", r#"{"round_trip_us":{"10.0.0.0/8":5}}"#),
                entry("servers/B", r#"{"round_trip_us":{"10.0.0.0/33":5}}"#),
            ],
            egresses: vec![entry("egresses/A", "[]"), entry("egresses/B", "{}")],
        });
        let [a, b] = ["A", "B"].map(|text| text.parse::<Name>().unwrap());
        assert_eq!(snapshot.alive, BTreeSet::from([a.clone(), b.clone()]));
        assert_eq!(snapshot.passable, BTreeSet::from([b.clone()]));
        assert_eq!(snapshot.delays.keys().collect::<Vec<_>>(), [&a]);
        assert_eq!(snapshot.servers.keys().collect::<Vec<_>>(), [&a]);
        assert_eq!(snapshot.health.keys().collect::<Vec<_>>(), [&b]);
        assert_eq!(snapshot.egresses.keys().collect::<Vec<_>>(), [&a]);
        let starts = [
            "tributary/overlay/nodes/C: invalid socket address",
            "tributary/overlay/nodes/D/x: \"D/x\" is no name",
            "tributary/overlay/delays/B: -5 is no round-trip time",
            "tributary/overlay/servers/B: ",
            "tributary/overlay/health/A: 101 is no pressure",
            "tributary/overlay/egresses/B: invalid type: map",
        ];
        assert_eq!(snapshot.refused.len(), starts.len());
        for (line, start) in snapshot.refused.iter().zip(starts) {
            assert!(line.starts_with(start), "{line}");
        }
    }
}
