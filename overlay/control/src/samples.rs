//! Values that the tests of several modules are made of.

use std::collections::{BTreeMap, BTreeSet};

use crate::health::Health;
use crate::name::Name;
use crate::schema::{Chain, Delay, Delays, EgressChoice, EgressChoices, ServerDelays, Table};
use crate::snapshot::Snapshot;

/// The name `text`; panics unless it is one.
pub fn name(text: &str) -> Name {
    text.parse().unwrap()
}

/// Names with blanks between them.
pub fn names(text: &str) -> BTreeSet<Name> {
    text.split_whitespace().map(name).collect()
}

/// So many milliseconds.
pub fn ms(count: u128) -> Delay {
    Delay::of_microseconds(count * 1000)
}

/// A chain for so many rounds through these nodes.
pub fn chain(rounds: u8, through: &[&str]) -> Chain {
    Chain {
        rounds,
        through: through.iter().map(|each| name(each)).collect(),
    }
}

/// Of A, with these chains to one egress.
pub fn table(egress: &str, chains: Vec<Chain>) -> Table {
    Table {
        ingress: name("A"),
        version: 7,
        made: 1_800_000_000,
        chains: BTreeMap::from([(name(egress), chains)]),
        choices: Vec::new(),
    }
}

/// To the servers of a network: from so many rounds on by this node, through those.
pub fn choices(network: &str, best: &[(u8, &str, &[&str])]) -> EgressChoices {
    let best = best.iter().map(|&(rounds, node, through)| EgressChoice {
        rounds,
        node: name(node),
        through: chain(rounds, through).through,
    });
    EgressChoices {
        to: network.parse().unwrap(),
        port: None,
        best: best.collect(),
    }
}

/// So many milliseconds to the servers of a network.
pub fn to_servers(network: &str, count: u128) -> ServerDelays {
    ServerDelays {
        round_trip_us: BTreeMap::from([(network.parse().unwrap(), ms(count))]),
    }
}

/// Of a node with this pressure on its processors.
pub fn pressed(percent: i64) -> Health {
    Health {
        pressure_percent: percent.try_into().unwrap(),
        ..Health::default()
    }
}

/// A table of cases: what is given, `=>`, and what is expected.
pub fn cases(table: &str) -> impl Iterator<Item = (&str, &str)> {
    let lines = table.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(|line| line.split_once(" => ").expect("GIVEN => EXPECTED"))
}

/// `A B 10` a line: A measured 10 ms to B.
pub fn measured(text: &str) -> BTreeMap<Name, Delays> {
    let mut all: BTreeMap<Name, Delays> = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let own = all.entry(name(words[0])).or_default();
        let delay = ms(words[2].parse().unwrap());
        own.round_trip_us.insert(name(words[1]), delay);
    }
    all
}

/// These nodes are alive, and all of them can be passed.
pub fn snapshot(alive: BTreeSet<Name>, delays: BTreeMap<Name, Delays>) -> Snapshot {
    Snapshot {
        passable: alive.clone(),
        alive,
        delays,
        ..Snapshot::default()
    }
}
