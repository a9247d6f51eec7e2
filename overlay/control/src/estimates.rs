//! Estimated delays between nodes that measure only samples of their peers, and not each other: by network coordinates.

use std::collections::BTreeMap;

use overlay_paths::{Coordinates, Node};

use crate::distances::{graph, measured};
use crate::name::Name;
use crate::schema::{Delay, Delays};
use crate::snapshot::Snapshot;
use crate::threshold::Threshold;

/// The estimated round-trip times including their likely error, by pairs with the lesser name first.
pub type Estimates = BTreeMap<(Name, Name), Delay>;

/// Estimates the pairs that neither end measured, if both measure only samples and neither pinged the other in vain.
pub fn of(snapshot: &Snapshot) -> Estimates {
    let only_some = |node: &Name| snapshot.delays.get(node).is_some_and(|own| own.only_some);
    if !snapshot.alive.iter().any(only_some) {
        return Estimates::new();
    }
    let alive: Vec<Name> = snapshot.alive.iter().cloned().collect();
    let graph = graph(&alive, measured(&snapshot.delays), &BTreeMap::new());
    let coordinates = Coordinates::of(&graph);
    let nodes: Vec<(Node, &Name)> = (0..).zip(&snapshot.alive).filter(|(_, node)| only_some(node)).collect();
    let mut found = Estimates::new();
    for (place, &(a, first)) in nodes.iter().enumerate() {
        for &(b, second) in &nodes[place + 1..] {
            if graph.delay(a, b).is_some() || in_vain(snapshot, first, second) {
                continue;
            }
            if let Some((delay, error)) = coordinates.estimate(a, b) {
                let longer = Delay::of_microseconds(u128::from(delay) + u128::from(error));
                found.insert((first.clone(), second.clone()), longer);
            }
        }
    }
    found
}

fn in_vain(snapshot: &Snapshot, a: &Name, b: &Name) -> bool {
    let silent = |own, peer| {
        snapshot
            .delays
            .get(own)
            .is_some_and(|own: &Delays| own.silent.contains(peer))
    };
    silent(a, b) || silent(b, a)
}

/// Keeps the previous estimate of a pair unless the new one differs by more than [`Threshold::DEFAULT`]: each new measurement
/// moves all coordinates a little.
pub fn steady(before: &Estimates, mut now: Estimates) -> Estimates {
    for (pair, delay) in &mut now {
        match before.get(pair) {
            Some(&earlier) if !Threshold::DEFAULT.exceeded(earlier, *delay) => *delay = earlier,
            _ => {}
        }
    }
    now
}

/// How many peers of each node are estimated.
pub fn by_node(estimates: &Estimates) -> BTreeMap<&Name, usize> {
    let mut counts = BTreeMap::new();
    for node in estimates.keys().flat_map(|(first, second)| [first, second]) {
        *counts.entry(node).or_default() += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::name;

    /// n0 to n9 on a line, 10 ms apart; each measured the next two and the fifth; pairs in `silent` pinged each other in
    /// vain.
    fn snapshot(only_some: bool, silent: &[(usize, usize)]) -> Snapshot {
        let names: Vec<Name> = (0..10).map(|number| name(&format!("n{number}"))).collect();
        let delays = |own: usize| {
            let others = [own + 1, own + 2, own + 5].into_iter().filter(|peer| *peer < 10);
            let each = others.map(|peer| {
                let delay = Delay::of_microseconds(10_000 * (peer - own) as u128);
                (names[peer].clone(), delay)
            });
            let silent = silent.iter().filter(|(from, _)| *from == own);
            Delays {
                round_trip_us: each.collect(),
                only_some,
                silent: silent.map(|(_, to)| names[*to].clone()).collect(),
            }
        };
        Snapshot {
            alive: names.iter().cloned().collect(),
            delays: (0..10).map(|own| (names[own].clone(), delays(own))).collect(),
            ..Snapshot::default()
        }
    }

    fn pair(a: usize, b: usize) -> (Name, Name) {
        (name(&format!("n{a}")), name(&format!("n{b}")))
    }

    #[test]
    fn pairs_that_nobody_measured_are_estimated_and_no_others() {
        let found = of(&snapshot(true, &[]));
        assert_eq!(found.len(), 45 - 9 - 8 - 5);
        assert!(!found.contains_key(&pair(0, 5)));
        let far = found[&pair(0, 9)].microseconds();
        assert!((80_000..=110_000).contains(&far), "{far}");
        assert_eq!(of(&snapshot(false, &[])), Estimates::new());
    }

    #[test]
    fn who_was_asked_in_vain_is_not_estimated_from_either_side() {
        let found = of(&snapshot(true, &[(0, 9), (8, 1)]));
        assert_eq!(found.len(), 21);
        assert!(!found.contains_key(&pair(0, 9)) && !found.contains_key(&pair(1, 8)));
    }

    #[test]
    fn who_measures_all_and_left_one_out_could_not_reach_it() {
        let mut snapshot = snapshot(true, &[]);
        snapshot.delays.get_mut(&name("n0")).unwrap().only_some = false;
        let found = of(&snapshot);
        assert!(found.keys().all(|(first, _)| *first != name("n0")));
        assert_eq!(found.len(), 17);
    }

    #[test]
    fn estimates_stay_while_they_hardly_change() {
        let estimates = |us: &[u128]| -> Estimates {
            let each = us.iter().enumerate();
            each.map(|(b, &us)| (pair(0, b + 1), Delay::of_microseconds(us)))
                .collect()
        };
        let before = estimates(&[50_000, 50_000, 10_000]);
        let now = estimates(&[54_000, 56_000, 11_500, 7000]);
        let expected = estimates(&[50_000, 56_000, 10_000, 7000]);
        assert_eq!(steady(&before, now), expected);
    }

    #[test]
    fn estimates_are_counted_by_node() {
        let found = of(&snapshot(true, &[]));
        let counts = by_node(&found);
        assert_eq!((counts[&name("n0")], counts[&name("n5")]), (6, 4));
    }
}
