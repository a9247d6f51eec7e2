//! A sanity check: tables that would send nearly everything through one node are not published.
//!
//! Round-trip times mostly obey the triangle inequality, so that most pairs have a direct path, or several chains to choose
//! from. If nearly all of them must pass one node, either that node lies about its delays, or the others have become
//! silent. In both cases the previous tables are better.

use std::collections::{BTreeMap, BTreeSet};

use crate::name::Name;
use crate::tables::TableSet;

/// With fewer nodes, one node between all others is nothing unusual.
const MIN_NODES: usize = 4;

/// Refuses `chosen` if for a node more than `most` percent of the pairs between other nodes have no chain without it.
pub fn check(chosen: &TableSet, most: u32) -> Result<(), String> {
    if chosen.len() < MIN_NODES {
        return Ok(());
    }
    let mut pairs = 0;
    let mut ends: BTreeMap<&Name, usize> = BTreeMap::new();
    let mut inevitable: BTreeMap<&Name, usize> = BTreeMap::new();
    for (ingress, table) in chosen {
        for (egress, chains) in &table.chains {
            pairs += 1;
            for end in [ingress, egress] {
                *ends.entry(end).or_default() += 1;
            }
            for node in on_all(chains.iter().map(|chain| chain.through.as_slice())) {
                *inevitable.entry(node).or_default() += 1;
            }
        }
    }
    let worst = inevitable.into_iter().map(|(node, count)| {
        let others = pairs - ends.get(node).copied().unwrap_or(0);
        (count * 100 / others, node)
    });
    match worst.max() {
        Some((percent, node)) if percent > most as usize => Err(format!(
            "{percent} % of the other pairs would have no way but through {node}: accepted: {most} %"
        )),
        _ => Ok(()),
    }
}

fn on_all<'a>(mut chains: impl Iterator<Item = &'a [Name]>) -> BTreeSet<&'a Name> {
    let first = chains.next().unwrap_or_default().iter().collect();
    chains.fold(first, |common: BTreeSet<&Name>, chain| {
        common.into_iter().filter(|node| chain.contains(node)).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimates::Estimates;
    use crate::samples::{ms, name, snapshot};
    use crate::schema::Delays;
    use crate::tables::choose;

    const NAMES: [&str; 5] = ["A", "B", "C", "D", "E"];

    /// All pairs measure 20 ms unless `link` overrides it.
    fn chosen(count: usize, link: impl Fn(&str, &str) -> Option<u128>) -> TableSet {
        let names = &NAMES[..count];
        let of = |from: &&str| {
            let others = names.iter().filter(|to| *to != from);
            let each = others.filter_map(|to| Some((name(to), ms(link(from, to)?))));
            let delays = Delays {
                round_trip_us: each.collect(),
                ..Delays::default()
            };
            (name(from), delays)
        };
        let alive = names.iter().map(|each| name(each)).collect();
        let snapshot = snapshot(alive, names.iter().map(of).collect());
        choose(&snapshot, &Estimates::new(), &TableSet::new(), (1, 1))
    }

    #[test]
    fn a_mesh_is_accepted_and_so_is_one_with_a_detour_that_pays() {
        assert_eq!(check(&chosen(5, |_, _| Some(20)), 90), Ok(()));
        let hub = |from: &str, to: &str| Some(if from == "A" || to == "A" { 11 } else { 20 });
        assert_eq!(check(&chosen(5, hub), 90), Ok(()), "for short transfers all go direct");
    }

    #[test]
    fn a_node_that_claims_to_be_next_to_all_is_refused() {
        let liar = |from: &str, to: &str| Some(if from == "C" || to == "C" { 1 } else { 20 });
        assert_eq!(
            check(&chosen(5, liar), 90).unwrap_err(),
            "100 % of the other pairs would have no way but through C: accepted: 90 %"
        );
        assert_eq!(check(&chosen(5, liar), 100), Ok(()), "switched off");
        assert_eq!(check(&chosen(3, liar), 90), Ok(()), "of three nodes");
    }

    #[test]
    fn silence_of_all_but_one_is_refused() {
        let alone = |from: &str, _: &str| (from == "B").then_some(20);
        let refusal = check(&chosen(4, alone), 90).unwrap_err();
        assert!(refusal.contains("through B"), "{refusal}");
    }

    #[test]
    fn nothing_measured_is_nothing_to_refuse() {
        assert_eq!(check(&chosen(5, |_, _| None), 90), Ok(()));
    }
}
