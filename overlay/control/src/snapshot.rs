//! What a controller goes by: the nodes that are alive, how they fare, and what they measured, as etcd holds it at one revision.

use std::collections::{BTreeMap, BTreeSet};

use crate::health::Health;
use crate::keys;
use crate::name::Name;
use crate::values::{self, Delays};

/// A key and its value.
pub type Entry = (Vec<u8>, Vec<u8>);

/// Nodes, delays, and health.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Those whose lease stands.
    pub alive: BTreeSet<Name>,
    /// Those of them that have a converter.
    pub passable: BTreeSet<Name>,
    /// What they measured; those whose value is refused have measured nothing.
    pub delays: BTreeMap<Name, Delays>,
    /// How they fare; those that are not among these, or whose value is refused, are well.
    pub health: BTreeMap<Name, Health>,
    /// A line for each value that is refused.
    pub refused: Vec<String>,
}

impl Snapshot {
    /// What the entries of [`keys::NODES`], of [`keys::DELAYS`] and of [`keys::HEALTH`] say.
    pub fn read(nodes: &[Entry], delays: &[Entry], health: &[Entry]) -> Self {
        let mut taken = Self::default();
        for (key, value) in nodes {
            let found = keys::name(keys::NODES, key).and_then(|name| {
                let node = values::decode_node(value).map_err(|what| at(key, &what))?;
                Ok((name, node))
            });
            taken.keep(found, |taken, (name, node)| {
                if node.converter.is_some() {
                    taken.passable.insert(name.clone());
                }
                taken.alive.insert(name);
            });
        }
        for (key, value) in delays {
            let found = keys::name(keys::DELAYS, key).and_then(|name| {
                let measured =
                    values::decode_delays(&name, value).map_err(|what| at(key, &what))?;
                Ok((name, measured))
            });
            taken.keep(found, |taken, (name, measured)| {
                taken.delays.insert(name, measured);
            });
        }
        for (key, value) in health {
            let found = keys::name(keys::HEALTH, key).and_then(|name| {
                let health = values::decode_health(value).map_err(|what| at(key, &what))?;
                Ok((name, health))
            });
            taken.keep(found, |taken, (name, health)| {
                taken.health.insert(name, health);
            });
        }
        taken
    }

    fn keep<T>(&mut self, found: Result<T, String>, keep: impl FnOnce(&mut Self, T)) {
        match found {
            Ok(it) => keep(self, it),
            Err(refusal) => self.refused.push(refusal),
        }
    }
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
    fn one_bad_value_costs_no_other() {
        let address = r#"{"address":"10.0.0.1:5460"}"#;
        let nodes = [
            entry("tributary/overlay/nodes/A", address),
            entry(
                "tributary/overlay/nodes/B",
                r#"{"address":"10.0.0.2:5460","converter":"10.0.0.2:5124"}"#,
            ),
            entry("tributary/overlay/nodes/C", r#"{"address":"nowhere"}"#),
            entry("tributary/overlay/nodes/D/x", address),
        ];
        let delays = [
            entry("tributary/overlay/delays/A", r#"{"round_trip_us":{"B":5}}"#),
            entry(
                "tributary/overlay/delays/B",
                r#"{"round_trip_us":{"A":-5}}"#,
            ),
        ];
        let health = [
            entry("tributary/overlay/health/A", r#"{"pressure_percent":101}"#),
            entry("tributary/overlay/health/B", r#"{"pressure_percent":40}"#),
        ];
        let taken = Snapshot::read(&nodes, &delays, &health);
        let [a, b] = ["A", "B"].map(|text| text.parse::<Name>().unwrap());
        assert_eq!(taken.alive, BTreeSet::from([a.clone(), b.clone()]));
        assert_eq!(taken.passable, BTreeSet::from([b.clone()]));
        assert_eq!(taken.delays.keys().collect::<Vec<_>>(), [&a]);
        assert_eq!(taken.health.keys().collect::<Vec<_>>(), [&b]);
        let starts = [
            "tributary/overlay/nodes/C: invalid socket address",
            "tributary/overlay/nodes/D/x: \"D/x\" is no name",
            "tributary/overlay/delays/B: -5 is no round-trip time",
            "tributary/overlay/health/A: 101 is no pressure",
        ];
        assert_eq!(taken.refused.len(), starts.len());
        for (line, start) in taken.refused.iter().zip(starts) {
            assert!(line.starts_with(start), "{line}");
        }
    }
}
