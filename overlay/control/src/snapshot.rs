//! What a controller goes by: the nodes that are alive, how they fare, and what they measured, as etcd holds it at one revision.

use std::collections::{BTreeMap, BTreeSet};

use overlay_paths::MOST_NODES;

use crate::egresses::Egresses;
use crate::health::Health;
use crate::keys;
use crate::name::Name;
use crate::values::{self, Delays, ServerDelays};

/// A key and its value.
pub type Entry = (Vec<u8>, Vec<u8>);

/// The entries of etcd's folders, all at one revision.
#[derive(Clone, Debug, Default)]
pub struct Listed {
    /// Of [`keys::NODES`], those made first in front.
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

/// Nodes, delays, health, and where servers are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Those whose lease stands.
    pub alive: BTreeSet<Name>,
    /// Those of them that have a converter.
    pub passable: BTreeSet<Name>,
    /// What they measured; those whose value is refused have measured nothing.
    pub delays: BTreeMap<Name, Delays>,
    /// What they measured to servers.
    pub servers: BTreeMap<Name, ServerDelays>,
    /// How they fare; those that are not among these, or whose value is refused, are well.
    pub health: BTreeMap<Name, Health>,
    /// What ingresses have of who is next to which servers.
    pub egresses: BTreeMap<Name, Egresses>,
    /// A line for each value that is refused.
    pub refused: Vec<String>,
}

impl Snapshot {
    /// What the entries say. Of more nodes than overlay-paths takes, those that came last are refused.
    pub fn read(listed: &Listed) -> Self {
        let mut refused = Vec::new();
        let (first, rest) = listed.nodes.split_at(listed.nodes.len().min(MOST_NODES));
        let nodes = read(keys::NODES, first, &mut refused, |_, value| {
            values::decode_node(value)
        });
        let no_more = format!("there are {MOST_NODES} nodes already: accepted: at most as many");
        refused.extend(rest.iter().map(|(key, _)| at(key, &no_more)));
        let passable = nodes.iter().filter(|(_, node)| node.converter.is_some());
        Self {
            passable: passable.map(|(name, _)| name.clone()).collect(),
            delays: read(
                keys::DELAYS,
                &listed.delays,
                &mut refused,
                values::decode_delays,
            ),
            servers: read(keys::SERVERS, &listed.servers, &mut refused, |_, value| {
                values::decode_server_delays(value)
            }),
            health: read(keys::HEALTH, &listed.health, &mut refused, |_, value| {
                values::decode_health(value)
            }),
            egresses: read(
                keys::EGRESSES,
                &listed.egresses,
                &mut refused,
                |_, value| values::decode_egresses(value),
            ),
            alive: nodes.into_keys().collect(),
            refused,
        }
    }
}

/// The values of a folder by their names; for those that nobody should have written a line each is `refused`.
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
        let numbers = (0..MOST_NODES + 2).rev();
        let taken = Snapshot::read(&Listed {
            nodes: numbers.map(|number| entry(&key(number), address)).collect(),
            ..Listed::default()
        });
        assert_eq!(taken.alive.len(), MOST_NODES);
        for number in [0, 1] {
            assert!(!taken.alive.contains(&number.to_string().parse().unwrap()));
            let line = &taken.refused[1 - number];
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
        let taken = Snapshot::read(&Listed {
            nodes,
            delays,
            servers,
            health,
            egresses,
        });
        let [a, b] = ["A", "B"].map(|text| text.parse::<Name>().unwrap());
        assert_eq!(taken.alive, BTreeSet::from([a.clone(), b.clone()]));
        assert_eq!(taken.passable, BTreeSet::from([b.clone()]));
        assert_eq!(taken.delays.keys().collect::<Vec<_>>(), [&a]);
        assert_eq!(taken.servers.keys().collect::<Vec<_>>(), [&a]);
        assert_eq!(taken.health.keys().collect::<Vec<_>>(), [&b]);
        assert_eq!(taken.egresses.keys().collect::<Vec<_>>(), [&a]);
        let starts = [
            "tributary/overlay/nodes/C: invalid socket address",
            "tributary/overlay/nodes/D/x: \"D/x\" is no name",
            "tributary/overlay/delays/B: -5 is no round-trip time",
            "tributary/overlay/servers/B: ",
            "tributary/overlay/health/A: 101 is no pressure",
            "tributary/overlay/egresses/B: invalid type: map",
        ];
        assert_eq!(taken.refused.len(), starts.len());
        for (line, start) in taken.refused.iter().zip(starts) {
            assert!(line.starts_with(start), "{line}");
        }
    }
}
