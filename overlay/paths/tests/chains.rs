//! The chains of all pairs against slower ways to the same.

use std::collections::BTreeMap;

use overlay_paths::{Chains, Figures, Graph, Node, Rounds, floyd_warshall};
use proptest::prelude::*;
use proptest::sample::Index;

/// Graphs of so many nodes with few different round-trip times, so that there are many equals; not always connected.
fn graphs(nodes: std::ops::Range<usize>, most: u32) -> impl Strategy<Value = Graph> {
    nodes
        .prop_flat_map(move |count| (Just(count), prop::collection::vec(0..=most, count * (count - 1) / 2)))
        .prop_map(|(count, delays)| {
            let mut graph = Graph::numbered(count);
            let mut delays = delays.into_iter();
            for (low, high) in graph.pairs() {
                graph.set(low, high, delays.next().filter(|&delay| delay > 0));
            }
            graph
        })
}

/// All simple chains from the last of `nodes` to `to`.
fn every_chain(graph: &Graph, nodes: &mut Vec<Node>, to: Node, found: &mut Vec<Figures>) {
    let last = *nodes.last().unwrap();
    if last == to {
        found.push(graph.figures(nodes).unwrap());
        return;
    }
    for next in graph.nodes() {
        if !nodes.contains(&next) && graph.delay(last, next).is_some() {
            nodes.push(next);
            every_chain(graph, nodes, to, found);
            nodes.pop();
        }
    }
}

/// Those that no other one beats in length or longest hop, the shortest hops first, each with the fewest hops.
fn pareto(all: &[Figures]) -> Vec<Figures> {
    let mut fewest: BTreeMap<(u32, u32), u16> = BTreeMap::new();
    for each in all {
        let hops = fewest.entry((each.longest, each.length)).or_insert(each.hops);
        *hops = each.hops.min(*hops);
    }
    let mut front: Vec<Figures> = Vec::new();
    for ((longest, length), hops) in fewest {
        if front.last().is_none_or(|last| length < last.length) {
            front.push(Figures { length, longest, hops });
        }
    }
    front
}

fn time(figures: Figures, rounds: Rounds) -> u64 {
    u64::from(figures.length) + 2 * u64::from(rounds.count() - 1) * u64::from(figures.longest)
}

/// Every chain that `chains` returns exists, joins its ends, and has its figures.
fn all_chains_are_as_said(chains: &Chains) {
    let graph = chains.graph();
    for from in graph.nodes() {
        for to in graph.nodes() {
            for known in chains.front(from, to) {
                let nodes = chains.chain(from, to, known.longest).unwrap();
                assert_eq!((nodes[0], *nodes.last().unwrap()), (from, to));
                let found = graph.figures(&nodes);
                assert_eq!(found, Some(known), "{from} to {to}: {nodes:?}");
            }
            for rounds in [1, 5, 10].map(|count| Rounds::new(count).unwrap()) {
                if let Some(best) = chains.best(from, to, rounds) {
                    let found = graph.figures(&best.nodes);
                    assert_eq!(found, Some(best.figures), "{from} to {to}: {best:?}");
                }
            }
        }
    }
}

/// Of four nodes with these links.
fn chains_of(links: &[(Node, Node, u32)]) -> Chains {
    let mut graph = Graph::numbered(4);
    for &(a, b, delay) in links {
        graph.set(a, b, Some(delay));
    }
    Chains::of(graph)
}

#[test]
fn a_detour_is_taken_when_rounds_pay_for_it() {
    // A -10- B, or A -6- C -6- B: longer by 2, and 4 less in each further round.
    let chains = chains_of(&[(0, 1, 10), (0, 2, 6), (2, 1, 6)]);
    assert_eq!(chains.front(1, 0), [Figures::of(&[6, 6]), Figures::of(&[10])]);
    for (rounds, nodes) in [(1, vec![1, 0]), (2, vec![1, 2, 0]), (20, vec![1, 2, 0])] {
        let best = chains.best(1, 0, Rounds::new(rounds).unwrap()).unwrap();
        assert_eq!(best.nodes, nodes, "{rounds} rounds");
    }
    let one = Rounds::of_size(1);
    assert_eq!(chains.best(0, 3, one), None, "a node without links");
    assert_eq!(chains.best(2, 2, one).unwrap().nodes, [2]);
}

#[test]
fn among_equals_the_fewest_converters() {
    // 0 -2- 1 -2- 2 -4- 3: the link 0 -4- 2 is as long as the two, and no longer than the longest hop.
    let chains = chains_of(&[(0, 1, 2), (1, 2, 2), (2, 3, 4), (0, 2, 4)]);
    assert_eq!(chains.chain(0, 3, 4), Some(vec![0, 2, 3]));
    assert_eq!(chains.front(0, 2), [Figures::of(&[2, 2])]);
    let best = chains.best(0, 2, Rounds::of_size(1)).unwrap();
    assert_eq!(best.nodes, [0, 2], "one round: no hop counts but the sum");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn small_graphs_agree_with_brute_force(graph in graphs(2..7, 6)) {
        let chains = Chains::of(graph.clone());
        for from in graph.nodes() {
            for to in graph.nodes().filter(|&to| to != from) {
                let mut all = Vec::new();
                every_chain(&graph, &mut vec![from], to, &mut all);
                prop_assert_eq!(chains.front(from, to), pareto(&all));
                for rounds in (1..=8).map(|count| Rounds::new(count).unwrap()) {
                    let least = all.iter().map(|&each| (time(each, rounds), each.hops)).min();
                    let best = chains.best_figures(from, to, rounds);
                    prop_assert_eq!(best.map(|best| (time(best, rounds), best.hops)), least);
                }
            }
        }
        all_chains_are_as_said(&chains);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn large_graphs_agree_with_plain_algorithms_at_both_ends(graph in graphs(60..130, 2000)) {
        let chains = Chains::of(graph.clone());
        let (shortest, minimax) = (floyd_warshall::shortest(&graph), floyd_warshall::minimax(&graph));
        for from in graph.nodes() {
            for to in graph.nodes().filter(|&to| to != from) {
                let front = chains.front(from, to);
                let cell = usize::from(from) * graph.len() + usize::from(to);
                prop_assert_eq!(front.last().map_or(u32::MAX, |last| last.length), shortest[cell]);
                prop_assert_eq!(front.first().map_or(u32::MAX, |first| first.longest), minimax[cell]);
            }
        }
    }

    #[test]
    fn nodes_that_no_chain_passes_have_the_chains_that_each_has_alone(graph in graphs(2..9, 6), cut in any::<Index>()) {
        let passed = cut.index(graph.len());
        let chains = Chains::through(graph.clone(), passed);
        let passed = Node::try_from(passed).unwrap();
        for end in passed..Node::try_from(graph.len()).unwrap() {
            // The first ones and this one.
            let mut alone = Graph::numbered(usize::from(passed) + 1);
            for high in 0..=passed {
                for low in 0..high {
                    let other = if high == passed { end } else { high };
                    alone.set(low, high, graph.delay(low, other));
                }
            }
            let expected = Chains::of(alone);
            for to in 0..passed {
                for count in 1..=30 {
                    let rounds = Rounds::new(count).unwrap();
                    let found = chains.best(end, to, rounds);
                    let best = found.as_ref().map(|chain| chain.figures);
                    prop_assert_eq!(best, expected.best_figures(passed, to, rounds));
                    if let Some(chain) = found {
                        prop_assert_eq!(graph.figures(&chain.nodes), Some(chain.figures));
                        prop_assert!(chain.nodes[1..].iter().all(|&node| node < passed));
                    }
                }
            }
        }
    }
}
