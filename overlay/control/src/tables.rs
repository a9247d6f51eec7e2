//! Tables from delays: a controller's decisions, without etcd.

use std::collections::BTreeMap;

use crate::distances::to_servers;
use crate::egress_choice;
use crate::egresses::Egress;
use crate::estimates::Estimates;
use crate::mesh::Mesh;
use crate::name::Name;
use crate::schema::Table;
use crate::snapshot::Snapshot;

pub type TableSet = BTreeMap<Name, Table>;

/// Computes the tables of all live nodes, with this version and time. Chains pass and end only at passable nodes. Pairs that no
/// chain joins are left out. `before` are the previous tables, for their choices of egresses.
///
/// # Panics
///
/// With more nodes than overlay-paths accepts.
pub fn choose(snapshot: &Snapshot, estimates: &Estimates, before: &TableSet, (version, made): (i64, u64)) -> TableSet {
    let mesh = Mesh::of(snapshot, estimates);
    let to_servers = |line: &Egress, node: &Name| to_servers(snapshot, line, node);
    let table = |ingress: &Name| {
        let before = before.get(ingress).map_or(&[][..], |table| &table.choices);
        let egresses = snapshot.egresses.get(ingress);
        Table {
            ingress: ingress.clone(),
            version,
            made,
            chains: mesh.to_all(ingress),
            choices: egresses.map_or_else(Vec::new, |egresses| {
                egress_choice::choose(ingress, egresses, &mesh, to_servers, before)
            }),
        }
    };
    let all = snapshot.alive.iter();
    all.map(|ingress| (ingress.clone(), table(ingress))).collect()
}

/// The tables that differ from the published ones by more than version and time.
pub fn changed(chosen: TableSet, published: &TableSet) -> Vec<Table> {
    let differs = |now: &Table| {
        let before = published.get(&now.ingress);
        before.is_none_or(|before| (&before.chains, &before.choices) != (&now.chains, &now.choices))
    };
    chosen.into_values().filter(differs).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::codec::encode;
    use crate::distances::graphs;
    use crate::egresses::Egresses;
    use crate::samples::{self, measured, ms, name, names, pressed, snapshot};
    use crate::schema::{Delay, Delays, decode_table};
    use proptest::prelude::*;

    const MADE: (i64, u64) = (1, 1);

    fn choose(alive: &BTreeSet<Name>, delays: &BTreeMap<Name, Delays>) -> TableSet {
        let snapshot = snapshot(alive.clone(), delays.clone());
        super::choose(&snapshot, &Estimates::new(), &TableSet::new(), MADE)
    }

    fn through(chosen: &TableSet, ingress: &str, egress: &str) -> Vec<(u8, String)> {
        let chains = chosen[&name(ingress)].chains.get(&name(egress));
        let text = |all: &[Name]| all.iter().map(Name::as_str).collect::<Vec<_>>().join(" ");
        let each = chains.into_iter().flatten();
        each.map(|each| (each.rounds, text(&each.through))).collect()
    }

    #[test]
    fn a_detour_from_the_number_of_rounds_that_pays_for_it() {
        let delays = measured("A B 10\nB A 10\nA C 6\nC B 6");
        let chosen = choose(&names("A B C"), &delays);
        let detour = [(1, String::new()), (2, "C".into())];
        assert_eq!(through(&chosen, "A", "B"), detour);
        assert_eq!(through(&chosen, "B", "A"), detour);
        assert_eq!(through(&chosen, "A", "C"), [(1, String::new())]);
    }

    #[test]
    fn a_loaded_node_is_farther_from_all_others() {
        let delays = measured("A B 10\nA C 6\nC B 6\nB C 6");
        let distance = |snapshot: &Snapshot| {
            let (measured, _) = graphs(&["A", "B"].map(name), snapshot, &Estimates::new());
            measured.delay(0, 1).unwrap()
        };
        let best = |percent: i64, loaded: &str| {
            let mut snapshot = snapshot(names("A B C"), delays.clone());
            snapshot.health.insert(name(loaded), pressed(percent));
            let chosen = super::choose(&snapshot, &Estimates::new(), &TableSet::new(), MADE);
            (through(&chosen, "A", "B"), distance(&snapshot))
        };
        let [direct, from_2, from_3] = [1, 2, 3].map(|rounds| {
            let through = if rounds == 1 { "" } else { "C" };
            (rounds, String::from(through))
        });
        assert_eq!(best(19, "C"), (vec![direct.clone(), from_2.clone()], 10_000));
        assert_eq!(best(20, "C"), (vec![direct.clone(), from_3], 10_000));
        assert_eq!(best(40, "C"), (vec![direct.clone()], 10_000));
        assert_eq!(best(59, "B"), (vec![direct.clone(), from_2], 16_000));
        assert_eq!(best(60, "B").1, 30_000);
        assert_eq!(best(100, "B").1, 70_000);
        let mut most = snapshot(names("A B"), measured("A B 4000"));
        assert_eq!(distance(&most), 4_000_000);
        most.health.insert(name("B"), pressed(100));
        assert_eq!(distance(&most), 4_000_000);
    }

    #[test]
    fn a_node_that_is_not_alive_is_in_no_chain() {
        let delays = measured("A B 10\nA C 6\nC B 6\nB C 6");
        let chosen = choose(&names("A B"), &delays);
        assert_eq!(through(&chosen, "A", "B"), [(1, String::new())]);
        assert_eq!(chosen.into_keys().collect::<BTreeSet<_>>(), names("A B"));
    }

    #[test]
    fn a_node_without_a_converter_is_an_ingress_alone() {
        let delays = measured("A B 20\nA C 4\nC B 4\nA D 14\nD B 14\nC D 40");
        let mut snapshot = snapshot(names("A B C D"), delays);
        snapshot.passable = names("A B D");
        let chosen = super::choose(&snapshot, &Estimates::new(), &TableSet::new(), MADE);
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
        let servers = |far| samples::to_servers("10.0.0.0/8", far);
        let mut snapshot = snapshot(names("A B C D"), delays);
        snapshot.passable = names("A B C");
        snapshot.servers = BTreeMap::from([(name("B"), servers(9)), (name("C"), servers(16))]);
        let egresses = Egresses::parse("10.0.0.0/8 C|B\n10.1.0.0/16 C|B\n10.2.0.0/16 B").unwrap();
        snapshot.egresses = ["A", "B", "D"].map(|each| (name(each), egresses.clone())).into();
        let node = |chosen: &TableSet, ingress: &str| {
            let choices = &chosen[&name(ingress)].choices;
            let each = choices.iter().map(|line| line.best[0].node.to_string());
            each.collect::<Vec<_>>()
        };
        let before = super::choose(&snapshot, &Estimates::new(), &TableSet::new(), MADE);
        for ingress in ["A", "B", "D"] {
            assert_eq!(node(&before, ingress), ["B"], "{ingress}");
        }
        assert_eq!(node(&before, "C"), [""; 0]);
        for (ingress, table) in &before {
            assert_eq!(decode_table(ingress, &encode(table)).as_ref(), Ok(table));
        }
        snapshot.health.insert(name("B"), pressed(60));
        let chosen = super::choose(&snapshot, &Estimates::new(), &before, MADE);
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
        let ways = |far| {
            let snapshot = snapshot(all.clone(), delays.clone());
            let estimates = Estimates::from([((name("A"), name("B")), ms(far))]);
            let chosen = super::choose(&snapshot, &estimates, &TableSet::new(), MADE);
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
        let before = "A B 10\nA C 6\nC B 6";
        let published = choose(&alive, &measured(before));
        assert_eq!(changed(published.clone(), &TableSet::new()).len(), 3);
        let changes = |delays, made| {
            let snapshot = snapshot(alive.clone(), measured(delays));
            let chosen = super::choose(&snapshot, &Estimates::new(), &published, made);
            changed(chosen, &published)
        };
        assert_eq!(changes(before, (4, 101)), []);
        let after = changes("A B 10\nA C 9\nC B 9", (5, 102));
        let each = after.iter().map(|table| (table.ingress.as_str(), table.version));
        assert_eq!(each.collect::<Vec<_>>(), [("A", 5), ("B", 5)]);
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
            for (ingress, table) in chosen {
                prop_assert_eq!(decode_table(&ingress, &encode(&table)), Ok(table));
            }
        }
    }
}
