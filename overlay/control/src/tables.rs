//! Tables from delays: a controller's decisions, without etcd.

use std::collections::BTreeMap;

use crate::distances::to_servers;
use crate::egress_choice;
use crate::egresses::Egress;
use crate::estimates::Estimates;
use crate::mesh::{LinkDelays, Mesh};
use crate::name::Name;
use crate::schema::{Chain, EgressChoices, Table};
use crate::snapshot::Snapshot;

/// The contents of each ingress's table.
pub type TableSet = BTreeMap<Name, TableContents>;

/// A table without version and time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableContents {
    /// The best chains by egress.
    pub chains: BTreeMap<Name, Vec<Chain>>,
    /// The chosen egresses, where there are several candidates.
    pub choices: Vec<EgressChoices>,
}

/// Computes the tables of all live nodes. Chains pass and end only at passable nodes. Pairs that no chain joins are left
/// out. `before` are the previous choices of egresses.
///
/// # Panics
///
/// With more nodes than overlay-paths accepts.
pub fn choose(
    snapshot: &Snapshot,
    estimates: &Estimates,
    before: &BTreeMap<Name, Vec<EgressChoices>>,
) -> TableSet {
    let mesh = Mesh::of(
        &snapshot.passable,
        &snapshot.alive,
        &LinkDelays::of(snapshot, estimates),
    );
    let to_servers = |line: &Egress, node: &Name| to_servers(snapshot, line, node);
    let contents = |ingress: &Name| {
        let before = before.get(ingress).map_or(&[][..], Vec::as_slice);
        let egresses = snapshot.egresses.get(ingress);
        TableContents {
            chains: mesh.to_all(ingress),
            choices: egresses.map_or_else(Vec::new, |egresses| {
                egress_choice::choose(ingress, egresses, &mesh, to_servers, before)
            }),
        }
    };
    let all = snapshot.alive.iter();
    all.map(|ingress| (ingress.clone(), contents(ingress)))
        .collect()
}

/// The new tables, and those that differ from the published ones, with this version and time.
pub fn changed(
    chosen: &TableSet,
    published: &BTreeMap<Name, Table>,
    version: i64,
    made: u64,
) -> Vec<Table> {
    let differs = |ingress: &Name, now: &TableContents| {
        published
            .get(ingress)
            .is_none_or(|before| before.chains != now.chains || before.choices != now.choices)
    };
    chosen
        .iter()
        .filter(|(ingress, contents)| differs(ingress, contents))
        .map(|(ingress, contents)| Table {
            ingress: ingress.clone(),
            version,
            made,
            chains: contents.chains.clone(),
            choices: contents.choices.clone(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::codec::encode;
    use crate::distances::penalised;
    use crate::egresses::Egresses;
    use crate::health::Health;
    use crate::samples::name;
    use crate::schema::{Delay, Delays, ServerDelays, decode_table};
    use proptest::prelude::*;

    /// All nodes are passable.
    fn choose(alive: &BTreeSet<Name>, delays: &BTreeMap<Name, Delays>) -> TableSet {
        super::choose(
            &snapshot(alive, alive, delays),
            &Estimates::new(),
            &BTreeMap::new(),
        )
    }

    fn snapshot(
        alive: &BTreeSet<Name>,
        passable: &BTreeSet<Name>,
        delays: &BTreeMap<Name, Delays>,
    ) -> Snapshot {
        Snapshot {
            alive: alive.clone(),
            passable: passable.clone(),
            delays: delays.clone(),
            ..Snapshot::default()
        }
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

    fn through(chosen: &TableSet, ingress: &str, egress: &str) -> Vec<(u8, String)> {
        let chains = chosen[&name(ingress)]
            .chains
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
        let chosen = choose(&names("A B C"), &delays);
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
            let counted = penalised(&delays, &BTreeMap::from([(name(loaded), health)]));
            let chosen = choose(&names("A B C"), &counted);
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
        assert_eq!(penalised(&most, &BTreeMap::new()), most);
    }

    #[test]
    fn a_node_that_is_not_alive_is_in_no_chain() {
        let delays = measured("A B 10\nA C 6\nC B 6\nB C 6");
        let chosen = choose(&names("A B"), &delays);
        assert_eq!(through(&chosen, "A", "B"), [(1, String::new())]);
        assert_eq!(
            chosen.keys().cloned().collect::<BTreeSet<_>>(),
            names("A B")
        );
    }

    #[test]
    fn a_node_without_a_converter_is_an_ingress_alone() {
        let delays = measured("A B 20\nA C 4\nC B 4\nA D 14\nD B 14\nC D 40");
        let snapshot = snapshot(&names("A B C D"), &names("A B D"), &delays);
        let chosen = super::choose(&snapshot, &Estimates::new(), &BTreeMap::new());
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
        let chosen = choose(&names("A B C"), &delays);
        assert_eq!(through(&chosen, "A", "B"), [(1, "C".into())]);
    }

    #[test]
    fn noise_makes_no_detour() {
        let chosen = choose(&names("A B C"), &measured("A B 2\nA C 1\nC B 1"));
        assert_eq!(through(&chosen, "A", "B"), [(1, String::new())]);
    }

    #[test]
    fn pairs_that_nothing_joins_have_no_chain() {
        let chosen = choose(&names("A B C D"), &measured("A B 10\nC D 5"));
        assert_eq!(through(&chosen, "A", "C"), []);
        assert_eq!(through(&chosen, "D", "C"), [(1, String::new())]);
    }

    #[test]
    fn exits_are_chosen_by_what_nodes_measured_and_by_the_pressure_on_them() {
        let delays = measured("A B 20\nA C 20\nB C 20\nD A 10");
        let servers = |ms: u128| ServerDelays {
            round_trip_us: BTreeMap::from([(
                "10.0.0.0/8".parse().unwrap(),
                Delay::of_microseconds(ms * 1000),
            )]),
        };
        let mut snapshot = snapshot(&names("A B C D"), &names("A B C"), &delays);
        snapshot.servers = BTreeMap::from([(name("B"), servers(9)), (name("C"), servers(16))]);
        let egresses = Egresses::parse("10.0.0.0/8 C|B\n10.1.0.0/16 C|B\n10.2.0.0/16 B").unwrap();
        snapshot.egresses = ["A", "B", "D"]
            .map(|each| (name(each), egresses.clone()))
            .into();
        let node = |chosen: &TableSet, ingress: &str| {
            let choices = &chosen[&name(ingress)].choices;
            let each = choices.iter().map(|line| line.best[0].node.to_string());
            each.collect::<Vec<_>>()
        };
        let chosen = super::choose(&snapshot, &Estimates::new(), &BTreeMap::new());
        for ingress in ["A", "B", "D"] {
            assert_eq!(node(&chosen, ingress), ["B"], "{ingress}");
        }
        assert_eq!(node(&chosen, "C"), [""; 0]);
        let tables = changed(&chosen, &BTreeMap::new(), 1, 1);
        for table in &tables {
            let ingress = &table.ingress;
            assert_eq!(decode_table(ingress, &encode(table)).as_ref(), Ok(table));
        }
        let before = tables.into_iter().map(|each| (each.ingress, each.choices));
        let loaded = Health {
            pressure_percent: 60.try_into().unwrap(),
            ..Health::default()
        };
        snapshot.health.insert(name("B"), loaded);
        let chosen = super::choose(&snapshot, &Estimates::new(), &before.collect());
        assert_eq!(node(&chosen, "A"), ["C"]);
        let line = egresses.iter().next().unwrap();
        // 9 ms in steps of 2, and 20 for the pressure.
        let far = to_servers(&snapshot, line, &name("B")).unwrap();
        assert_eq!(far.microseconds(), 30_000);
    }

    #[test]
    fn an_estimate_stands_for_the_whole_way_and_is_no_hop_of_another() {
        let delays = measured("A C 20\nC B 20\nB D 5");
        let all = names("A B C D");
        let estimates = |ms: u128| -> Estimates {
            let delay = Delay::of_microseconds(ms * 1000);
            [((name("A"), name("B")), delay)].into()
        };
        let ways = |ms| {
            let snapshot = snapshot(&all, &all, &delays);
            let chosen = super::choose(&snapshot, &estimates(ms), &BTreeMap::new());
            (through(&chosen, "A", "B"), through(&chosen, "A", "D"))
        };
        let by_c = (1, "C".into());
        let to_d = vec![(1, "C B".into())];
        // 1/2 * 30 + (r - 1) * 30 beside 1/2 * 40 + (r - 1) * 20.
        let direct_for_one = vec![(1, String::new()), (2, "C".into())];
        assert_eq!(ways(30), (direct_for_one, to_d.clone()));
        assert_eq!(ways(10), (vec![(1, String::new())], to_d.clone()));
        assert_eq!(ways(40), (vec![by_c], to_d));
    }

    #[test]
    fn only_what_changed_is_published() {
        let alive = names("A B C");
        let before = choose(&alive, &measured("A B 10\nA C 6\nC B 6"));
        let tables = changed(&before, &BTreeMap::new(), 3, 100);
        assert_eq!(tables.len(), 3);
        let published = tables
            .into_iter()
            .map(|table| (table.ingress.clone(), table))
            .collect();
        assert_eq!(changed(&before, &published, 4, 101), []);
        let after = choose(&alive, &measured("A B 10\nA C 9\nC B 9"));
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
            let chosen = choose(&alive, &delays);
            for table in changed(&chosen, &BTreeMap::new(), 1, 1) {
                prop_assert_eq!(decode_table(&table.ingress.clone(), &encode(&table)), Ok(table));
            }
        }
    }
}
