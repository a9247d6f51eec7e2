//! Tables out of delays: the decisions of a controller, without etcd.

use std::collections::{BTreeMap, BTreeSet};

use overlay_paths::{Chains, Graph, MOST_NODES, Rounds};

use crate::health::{Health, Pressure};
use crate::name::Name;
use crate::values::{Chain, Delay, Delays, MOST_ROUNDS, Table};

/// Agents keep to themselves what changes by less than 2 ms: a detour that gains no more is noise. With delays in whole
/// steps of as much, nodes that are next to each other have no detours, and a little noise no say in the others'.
const STEP_US: u32 = 2000;

/// So much farther is a node from all others, in milliseconds, from this pressure on its processors on.
///
/// What waits for a processor waits for a few milliseconds: a busy node is worth a little detour, one that hardly gets on a
/// large one.
const FARTHER_MS: [(u8, u128); 4] = [(20, 2), (40, 6), (60, 20), (80, 60)];

/// For each ingress, by egress, the best chains.
pub type Chosen = BTreeMap<Name, BTreeMap<Name, Vec<Chain>>>;

/// The chains from the nodes that are alive to all others that are passable, by what they measured.
///
/// Chains pass and end at passable nodes alone. Pairs that no chain joins have none. Refused with more nodes than
/// overlay-paths takes.
pub fn choose(
    alive: &BTreeSet<Name>,
    passable: &BTreeSet<Name>,
    delays: &BTreeMap<Name, Delays>,
) -> Result<Chosen, String> {
    if alive.len() > MOST_NODES {
        return Err(format!(
            "{} nodes: accepted: at most {MOST_NODES}",
            alive.len()
        ));
    }
    let chains = Chains::of(graph(passable, delays));
    let mut chosen: Chosen = passable
        .iter()
        .map(|ingress| (ingress.clone(), table(&chains, passable, ingress)))
        .collect();
    for ingress in alive.difference(passable) {
        let mut joined = passable.clone();
        joined.insert(ingress.clone());
        let chains = Chains::of(graph(&joined, delays));
        chosen.insert(ingress.clone(), table(&chains, &joined, ingress));
    }
    Ok(chosen)
}

/// What nodes measured, and as much more on each link as the pressure on both of its ends adds.
pub fn farther(
    delays: &BTreeMap<Name, Delays>,
    health: &BTreeMap<Name, Health>,
) -> BTreeMap<Name, Delays> {
    let added = |node: &Name| {
        health
            .get(node)
            .map_or(0, |of| added_ms(of.pressure_percent))
    };
    let mut farther = delays.clone();
    for (owner, measured) in &mut farther {
        for (peer, delay) in &mut measured.round_trip_us {
            let more = (added(owner) + added(peer)) * 1000;
            *delay = Delay::of_microseconds(u128::from(delay.microseconds()) + more);
        }
    }
    farther
}

fn added_ms(pressure: Pressure) -> u128 {
    let reached = |step: &&(u8, u128)| step.0 <= pressure.percent();
    FARTHER_MS.iter().rfind(reached).map_or(0, |step| step.1)
}

/// The best chains from `ingress` to all others of `nodes`, which are those of `chains`.
fn table(chains: &Chains, nodes: &BTreeSet<Name>, ingress: &Name) -> BTreeMap<Name, Vec<Chain>> {
    let nodes: Vec<&Name> = nodes.iter().collect();
    let Some(from) = nodes.iter().position(|node| *node == ingress) else {
        return BTreeMap::new();
    };
    let others = (0..nodes.len()).filter(|&egress| egress != from);
    let found = others.map(|egress| (egress, best(chains, &nodes, from, egress)));
    found
        .filter(|(_, chains)| !chains.is_empty())
        .map(|(egress, chains)| (nodes[egress].clone(), chains))
        .collect()
}

/// The round-trip times between nodes that are alive. Where both ends measured, the longer one is taken: a link that
/// became slow is slow as soon as one of them says so.
pub(crate) fn graph(alive: &BTreeSet<Name>, delays: &BTreeMap<Name, Delays>) -> Graph {
    let mut graph = Graph::new(alive.iter().map(Name::to_string).collect());
    let places: BTreeMap<&Name, u16> = alive.iter().zip(0..).collect();
    for (owner, measured) in delays {
        let Some(&from) = places.get(owner) else {
            continue;
        };
        for (peer, delay) in &measured.round_trip_us {
            if let Some(&to) = places.get(peer).filter(|&&to| to != from) {
                let other = graph.delay(from, to).unwrap_or(0);
                graph.set(from, to, Some(other.max(stepped(*delay))));
            }
        }
    }
    graph
}

fn stepped(delay: Delay) -> u32 {
    delay.microseconds().div_ceil(STEP_US) * STEP_US
}

fn best(chains: &Chains, nodes: &[&Name], ingress: usize, egress: usize) -> Vec<Chain> {
    let [from, to] = [ingress, egress].map(|each| u16::try_from(each).expect("MOST_NODES fits"));
    let mut found = Vec::new();
    let mut before = None;
    for rounds in (1..=MOST_ROUNDS).filter_map(Rounds::new) {
        let figures = chains.best_figures(from, to, rounds);
        let Some(longest) = figures
            .filter(|_| figures != before)
            .map(|each| each.longest)
        else {
            continue;
        };
        before = figures;
        let whole = chains
            .chain(from, to, longest)
            .expect("a chain of these figures");
        let between = &whole[1..whole.len() - 1];
        let through = between
            .iter()
            .map(|&node| nodes[usize::from(node)].clone())
            .collect();
        found.push(Chain {
            rounds: rounds.count(),
            through,
        });
    }
    found
}

/// The tables that differ from what was published, or are new, with this version and time.
pub fn changed(
    chosen: &Chosen,
    published: &BTreeMap<Name, Table>,
    version: i64,
    made: u64,
) -> Vec<Table> {
    let differs = |ingress: &Name, chains: &BTreeMap<Name, Vec<Chain>>| {
        published
            .get(ingress)
            .is_none_or(|before| before.chains != *chains)
    };
    chosen
        .iter()
        .filter(|(ingress, chains)| differs(ingress, chains))
        .map(|(ingress, chains)| Table {
            ingress: ingress.clone(),
            version,
            made,
            chains: chains.clone(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::{decode_table, encode};
    use proptest::prelude::*;

    /// Where all nodes are passable.
    fn choose(alive: &BTreeSet<Name>, delays: &BTreeMap<Name, Delays>) -> Result<Chosen, String> {
        super::choose(alive, alive, delays)
    }

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    fn names(text: &str) -> BTreeSet<Name> {
        text.split_whitespace().map(name).collect()
    }

    /// `A B 10` a line: A measured 10 ms to B.
    fn measured(text: &str) -> BTreeMap<Name, Delays> {
        let mut all: BTreeMap<Name, Delays> = BTreeMap::new();
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let delay = Delay::of_microseconds(words[2].parse::<u128>().unwrap() * 1000);
            all.entry(name(words[0]))
                .or_default()
                .round_trip_us
                .insert(name(words[1]), delay);
        }
        all
    }

    fn through(chosen: &Chosen, ingress: &str, egress: &str) -> Vec<(u8, String)> {
        let chains = chosen[&name(ingress)]
            .get(&name(egress))
            .into_iter()
            .flatten();
        let text = |all: &[Name]| all.iter().map(Name::as_str).collect::<Vec<_>>().join(" ");
        chains
            .map(|each| (each.rounds, text(&each.through)))
            .collect()
    }

    #[test]
    fn a_detour_from_the_number_of_rounds_that_pays_for_it() {
        let delays = measured("A B 10\nB A 10\nA C 6\nC B 6");
        let chosen = choose(&names("A B C"), &delays).unwrap();
        assert_eq!(
            through(&chosen, "A", "B"),
            [(1, String::new()), (2, "C".into())]
        );
        assert_eq!(
            through(&chosen, "B", "A"),
            [(1, String::new()), (2, "C".into())]
        );
        assert_eq!(through(&chosen, "A", "C"), [(1, String::new())]);
    }

    #[test]
    fn a_loaded_node_is_farther_from_all_others() {
        let delays = measured("A B 10\nA C 6\nC B 6\nB C 6");
        let best = |percent: i64, loaded: &str| {
            let health = Health {
                pressure_percent: percent.try_into().unwrap(),
                ..Health::default()
            };
            let counted = farther(&delays, &BTreeMap::from([(name(loaded), health)]));
            let chosen = choose(&names("A B C"), &counted).unwrap();
            let ways = through(&chosen, "A", "B");
            let round_trip = counted[&name("A")].round_trip_us[&name("B")].microseconds();
            (ways, round_trip)
        };
        let [direct, from_2, from_3] = [1, 2, 3].map(|rounds| {
            let through = if rounds == 1 { "" } else { "C" };
            (rounds, String::from(through))
        });
        assert_eq!(
            best(19, "C"),
            (vec![direct.clone(), from_2.clone()], 10_000)
        );
        assert_eq!(best(20, "C"), (vec![direct.clone(), from_3], 10_000));
        assert_eq!(best(40, "C"), (vec![direct.clone()], 10_000));
        assert_eq!(best(59, "B"), (vec![direct.clone(), from_2], 16_000));
        assert_eq!(best(60, "B").1, 30_000);
        assert_eq!(best(100, "B").1, 70_000);
        let most = measured("A B 4000");
        assert_eq!(farther(&most, &BTreeMap::new()), most);
    }

    #[test]
    fn a_node_that_is_not_alive_is_in_no_chain() {
        let delays = measured("A B 10\nA C 6\nC B 6\nB C 6");
        let chosen = choose(&names("A B"), &delays).unwrap();
        assert_eq!(through(&chosen, "A", "B"), [(1, String::new())]);
        assert_eq!(
            chosen.keys().cloned().collect::<BTreeSet<_>>(),
            names("A B")
        );
    }

    #[test]
    fn a_node_without_a_converter_is_an_ingress_alone() {
        let delays = measured("A B 20\nA C 4\nC B 4\nA D 14\nD B 14\nC D 40");
        let chosen = super::choose(&names("A B C D"), &names("A B D"), &delays).unwrap();
        let [direct, detour] = [(1, String::new()), (2, "D".into())];
        assert_eq!(through(&chosen, "A", "B"), [direct.clone(), detour]);
        assert_eq!(through(&chosen, "A", "C"), []);
        assert_eq!(through(&chosen, "C", "A"), [direct]);
        let from_c = [(1, "A".into())];
        assert_eq!(through(&chosen, "C", "D"), from_c);
    }

    #[test]
    fn of_two_measurements_the_longer_one_counts() {
        let delays = measured("A B 10\nB A 30\nA C 6\nC B 6");
        let chosen = choose(&names("A B C"), &delays).unwrap();
        assert_eq!(through(&chosen, "A", "B"), [(1, "C".into())]);
    }

    #[test]
    fn noise_makes_no_detour() {
        let chosen = choose(&names("A B C"), &measured("A B 2\nA C 1\nC B 1")).unwrap();
        assert_eq!(through(&chosen, "A", "B"), [(1, String::new())]);
    }

    #[test]
    fn pairs_that_nothing_joins_have_no_chain() {
        let chosen = choose(&names("A B C D"), &measured("A B 10\nC D 5")).unwrap();
        assert_eq!(through(&chosen, "A", "C"), []);
        assert_eq!(through(&chosen, "D", "C"), [(1, String::new())]);
    }

    #[test]
    fn too_many_nodes_are_refused() {
        let alive = (0..=MOST_NODES)
            .map(|number| name(&number.to_string()))
            .collect();
        let refusal = choose(&alive, &BTreeMap::new()).unwrap_err();
        assert_eq!(refusal, "1001 nodes: accepted: at most 1000");
    }

    #[test]
    fn only_what_changed_is_published() {
        let alive = names("A B C");
        let before = choose(&alive, &measured("A B 10\nA C 6\nC B 6")).unwrap();
        let tables = changed(&before, &BTreeMap::new(), 3, 100);
        assert_eq!(tables.len(), 3);
        let published = tables
            .into_iter()
            .map(|table| (table.ingress.clone(), table))
            .collect();
        assert_eq!(changed(&before, &published, 4, 101), []);
        let after = choose(&alive, &measured("A B 10\nA C 9\nC B 9")).unwrap();
        let tables = changed(&after, &published, 5, 102);
        let which: Vec<(&str, i64)> = tables
            .iter()
            .map(|table| (table.ingress.as_str(), table.version))
            .collect();
        assert_eq!(which, [("A", 5), ("B", 5)]);
    }

    proptest! {
        #[test]
        fn every_table_is_one_that_is_accepted(
            links in proptest::collection::vec((0u8..7, 0u8..7, 1u32..4_000_000), 0..40)
        ) {
            let alive: BTreeSet<Name> = (0..7).map(|node| name(&format!("n{node}"))).collect();
            let mut delays: BTreeMap<Name, Delays> = BTreeMap::new();
            for (from, to, delay) in links {
                let measured = delays.entry(name(&format!("n{from}"))).or_default();
                let delay = Delay::of_microseconds(delay.into());
                measured.round_trip_us.insert(name(&format!("n{to}")), delay);
            }
            let chosen = choose(&alive, &delays).unwrap();
            for table in changed(&chosen, &BTreeMap::new(), 1, 1) {
                prop_assert_eq!(decode_table(&table.ingress.clone(), &encode(&table)), Ok(table));
            }
        }
    }
}
