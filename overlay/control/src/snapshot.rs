//! The input of a controller: live nodes, their health and their measurements, all from one revision of etcd.

use std::collections::{BTreeMap, BTreeSet};

use overlay_paths::MAX_NODES;

use crate::codec;
use crate::egresses::Egresses;
use crate::health::Health;
use crate::keys;
use crate::name::Name;
use crate::schema::{self, Delays, Node, ServerDelays};

/// A key and its value.
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

/// The decoded entries.
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
        let nodes: BTreeMap<Name, Node> = read(keys::NODES, first, &mut refused, |_, value| {
            codec::decode(value)
        });
        let no_more = format!("there are {MAX_NODES} nodes already: accepted: at most as many");
        refused.extend(rest.iter().map(|(key, _)| at(key, &no_more)));
        let passable = nodes.iter().filter(|(_, node)| node.converter.is_some());
        Self {
            passable: passable.map(|(name, _)| name.clone()).collect(),
            delays: read(
                keys::DELAYS,
                &listed.delays,
                &mut refused,
                schema::decode_delays,
            ),
            servers: read(keys::SERVERS, &listed.servers, &mut refused, |_, value| {
                codec::decode(value)
            }),
            health: read(keys::HEALTH, &listed.health, &mut refused, |_, value| {
                codec::decode(value)
            }),
            egresses: read(
                keys::EGRESSES,
                &listed.egresses,
                &mut refused,
                |_, value| codec::decode(value),
            ),
            alive: nodes.into_keys().collect(),
            refused,
        }
    }
}

/// The nodes in these entries, without refused values.
pub fn nodes(entries: &[Entry]) -> BTreeMap<Name, Node> {
    let each = entries.iter().filter_map(|(key, value)| {
        let name = keys::name(keys::NODES, key).ok()?;
        Some((name, codec::decode(value).ok()?))
    });
    each.collect()
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

fn at(key: &[u8], what: &str) -> String {
    format!("{}: {what}", String::from_utf8_lossy(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(key: &str, value: &str) -> Entry {
        (
            key.into(),
            format!(r#"{{"format":1,"value":{value}}}"#).into_bytes(),
        )
    }

    #[test]
    fn of_too_many_nodes_those_that_came_last_are_left_out() {
        let address = r#"{"address":"10.0.0.1:5460"}"#;
        let key = |number: usize| format!("tributary/overlay/nodes/{number}");
        let numbers = (0..MAX_NODES + 2).rev();
        let snapshot = Snapshot::read(&Entries {
            nodes: numbers.map(|number| entry(&key(number), address)).collect(),
            ..Entries::default()
        });
        assert_eq!(snapshot.alive.len(), MAX_NODES);
        for number in [0, 1] {
            assert!(
                !snapshot
                    .alive
                    .contains(&number.to_string().parse().unwrap())
            );
            let line = &snapshot.refused[1 - number];
            assert!(
                line.starts_with(&format!("{}: there are 1000 nodes", key(number))),
                "{line}"
            );
        }
    }

    #[test]
    fn one_bad_value_costs_no_other() {
        let address = r#"{"address":"10.0.0.1:5460"}"#;
        let nodes = vec![
            entry("tributary/overlay/nodes/A", address),
            entry(
                "tributary/overlay/nodes/B",
                r#"{"address":"10.0.0.2:5460","converter":"10.0.0.2:5124"}"#,
            ),
            entry("tributary/overlay/nodes/C", r#"{"address":"nowhere"}"#),
            entry("tributary/overlay/nodes/D/x", address),
        ];
        let delays = vec![
            entry("tributary/overlay/delays/A", r#"{"round_trip_us":{"B":5}}"#),
            entry(
                "tributary/overlay/delays/B",
                r#"{"round_trip_us":{"A":-5}}"#,
            ),
        ];
        let health = vec![
            entry("tributary/overlay/health/A", r#"{"pressure_percent":101}"#),
            entry("tributary/overlay/health/B", r#"{"pressure_percent":40}"#),
        ];
        let servers = vec![
            entry(
                "tributary/overlay/servers/A",
                r#"{"round_trip_us":{"10.0.0.0/8":5}}"#,
            ),
            entry(
                "tributary/overlay/servers/B",
                r#"{"round_trip_us":{"10.0.0.0/33":5}}"#,
            ),
        ];
        let egresses = vec![
            entry("tributary/overlay/egresses/A", "[]"),
            entry("tributary/overlay/egresses/B", "{}"),
        ];
        let snapshot = Snapshot::read(&Entries {
            nodes,
            delays,
            servers,
            health,
            egresses,
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
