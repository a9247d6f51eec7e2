//! Values that the tests of several modules are made of.

use std::collections::{BTreeMap, BTreeSet};

use crate::name::Name;
use crate::schema::{Chain, Delay, Delays};
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
