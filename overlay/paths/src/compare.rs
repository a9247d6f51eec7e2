//! Compares the best chains with chains chosen by one criterion, over all pairs of a graph.

use serde::Serialize;

use crate::chains::Chains;
use crate::graph::{Graph, Link, Node};
use crate::model::{Figures, Rounds};

/// The comparison for one number of rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    pub rounds: u8,
    /// Converters of a best chain on average, including ingress and egress.
    pub converters: f64,
    /// The shortest chain, with the fewest converters: on a full mesh the path of packets.
    pub shortest: Other,
    /// The chain with the least longest hop, the shortest of these.
    pub minimax: Other,
    /// A chain with the least longest hop: along the shortest spanning tree.
    pub tree: Other,
}

/// How chains chosen in another way compare with the best ones.
#[derive(Clone, Debug, Serialize)]
pub struct Other {
    /// Converters on average, including ingress and egress.
    pub converters: f64,
    /// By how many percent their time exceeds the best: the 0th to the 100th percentile of all pairs.
    pub worse_percent: Vec<f64>,
    /// The mean of that.
    pub mean_worse_percent: f64,
    /// The percentage of pairs for which it does so at all.
    pub pairs_worse_percent: f64,
    /// The percentage of pairs for which it does so by more than 40 %.
    pub pairs_40_worse_percent: f64,
}

/// Compares over all pairs of nodes of a connected graph of at least two nodes, for each of `rounds`.
pub fn compare(chains: &Chains, rounds: &[Rounds]) -> Vec<Comparison> {
    let graph = chains.graph();
    let best = |rounds| of_all_pairs(graph, |low, high| chains.best_figures(low, high, rounds));
    let shortest = best(Rounds::of_size(1));
    let minimax = of_all_pairs(graph, |low, high| chains.front(low, high).first().copied());
    let tree = along_the_tree(graph);
    let comparison = |&rounds: &Rounds| {
        let best = best(rounds);
        Comparison {
            rounds: rounds.count(),
            converters: converters(&best),
            shortest: other(&shortest, &best, rounds),
            minimax: other(&minimax, &best, rounds),
            tree: other(&tree, &best, rounds),
        }
    };
    rounds.iter().map(comparison).collect()
}

pub(crate) fn of_all_pairs(graph: &Graph, figures: impl Fn(Node, Node) -> Option<Figures>) -> Vec<Figures> {
    graph
        .pairs()
        .map(|(low, high)| figures(low, high).expect("a connected graph"))
        .collect()
}

#[expect(clippy::cast_precision_loss, reason = "few pairs")]
pub(crate) fn other(chains: &[Figures], best: &[Figures], rounds: Rounds) -> Other {
    let time = |figures: &Figures| figures.doubled_time(rounds) as f64;
    let worse: Vec<f64> = chains
        .iter()
        .zip(best)
        .map(|(theirs, best)| 100.0 * (time(theirs) / time(best) - 1.0))
        .collect();
    let beyond = |bound: f64| worse.iter().filter(|&&each| each > bound).count() as f64;
    let pairs_beyond = |bound: f64| 100.0 * beyond(bound) / worse.len() as f64;
    Other {
        converters: converters(chains),
        mean_worse_percent: worse.iter().sum::<f64>() / worse.len() as f64,
        pairs_worse_percent: pairs_beyond(0.0),
        pairs_40_worse_percent: pairs_beyond(40.0),
        worse_percent: percentiles(worse),
    }
}

/// The 0th to the 100th; empty for no values.
pub(crate) fn percentiles(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let Some(last) = values.len().checked_sub(1) else {
        return Vec::new();
    };
    (0..=100).map(|at| values[last * at / 100]).collect()
}

#[expect(clippy::cast_precision_loss, reason = "few pairs")]
fn converters(chains: &[Figures]) -> f64 {
    chains.iter().map(|each| f64::from(each.hops) + 1.0).sum::<f64>() / chains.len() as f64
}

/// The chains along the shortest spanning tree, in the order of the pairs. They have the least longest hop of all chains
/// between two nodes (Hu, Operations Research 1961). The tree is Kruskal's, with equal links in the nodes' order.
fn along_the_tree(graph: &Graph) -> Vec<Figures> {
    let count = graph.len();
    let mut figures: Vec<Option<Figures>> = vec![None; count * count];
    for node in 0..count {
        figures[node * (count + 1)] = Some(Figures::default());
    }
    for Link { delay, low, high } in graph.links() {
        let (low, high) = (usize::from(low), usize::from(high));
        if figures[low * count + high].is_some() {
            continue;
        }
        let joined = |end: usize| -> Vec<(usize, Figures)> {
            let row = figures[end * count..][..count].iter().enumerate();
            row.filter_map(|(other, figures)| figures.map(|figures| (other, figures)))
                .collect()
        };
        let (before, after) = (joined(low), joined(high));
        for &(from, near) in &before {
            for &(to, far) in &after {
                let whole = Figures {
                    length: near.length + delay + far.length,
                    longest: near.longest.max(far.longest).max(delay),
                    hops: near.hops + 1 + far.hops,
                };
                figures[from * count + to] = Some(whole);
                figures[to * count + from] = Some(whole);
            }
        }
    }
    of_all_pairs(graph, |low, high| figures[usize::from(high) * count + usize::from(low)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::read;

    #[test]
    fn a_detour_costs_one_round_and_pays_for_ten() {
        // A -10- B, or A -6- C -6- B.
        let chains = Chains::of(read("A B 10\nA C 6\nC B 6\n").unwrap());
        let [one, ten] = [1, 10].map(|rounds| compare(&chains, &[Rounds::new(rounds).unwrap()]).remove(0));
        let worst = |other: &Other| other.worse_percent[100];
        assert_eq!(one.converters.to_bits(), 2_f64.to_bits());
        assert!(
            (worst(&one.minimax) - 20.0).abs() < 1e-9,
            "6 ms beside 5: {:?}",
            one.minimax
        );
        assert!((one.tree.pairs_worse_percent - 100.0 / 3.0).abs() < 1e-9 && one.tree.pairs_40_worse_percent == 0.0);
        assert!(worst(&one.shortest) == 0.0 && worst(&ten.minimax) == 0.0 && worst(&ten.tree) == 0.0);
        assert!(
            (worst(&ten.shortest) - 100.0 * (95.0 / 60.0 - 1.0)).abs() < 1e-9,
            "{:?}",
            ten.shortest
        );
        assert!((ten.converters - 7.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn the_tree_has_the_least_longest_hops() {
        let graph = read("A B 3\nB C 3\nC D 3\nA C 3\nB D 9\n").unwrap();
        let least = crate::floyd_warshall::minimax(&graph);
        let longest: Vec<u32> = along_the_tree(&graph).iter().map(|figures| figures.longest).collect();
        let pairs = [(0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3)];
        assert_eq!(longest, pairs.map(|(low, high): (usize, usize)| least[high * 4 + low]));
    }
}
