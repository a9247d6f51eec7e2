//! Nodes that measure only a sample of their peers, and the effect on chains.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::chains::Chains;
use crate::compare::{Other, of_all_pairs, other, percentiles};
use crate::coordinates::{Coordinates, Random};
use crate::graph::{Graph, Node};
use crate::model::{Figures, Rounds};

/// A candidate for the sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer<Id> {
    pub id: Id,
    /// A random number that is always the same for these two.
    pub lot: u64,
    /// The lower, the sooner it is chosen: its delay.
    pub rank: u64,
}

/// Chooses at most `count` of these peers, half of them at random, the others by rank: near ones make good hops, and
/// distant ones show where in the world the node is (Vivaldi, section 5.2).
pub fn choose_sample<Id: Copy + Ord>(mut peers: Vec<Peer<Id>>, count: usize) -> BTreeSet<Id> {
    let by_lot = count.div_ceil(2).min(peers.len());
    peers.sort_unstable_by_key(|peer| (peer.lot, peer.id));
    let mut others = peers.split_off(by_lot);
    others.sort_unstable_by_key(|peer| (peer.rank, peer.id));
    let all = peers.iter().chain(others.iter().take(count - by_lot));
    all.map(|peer| peer.id).collect()
}

/// The results for a graph in which each node measures only a sample.
#[derive(Clone, Debug, Serialize)]
pub struct SampledComparison {
    pub peers: usize,
    /// The percentage of pairs that one of the two measures.
    pub pairs_measured_percent: f64,
    /// By how many percent the estimates of the other pairs are off: the 0th to the 100th percentile.
    pub error_percent: Vec<f64>,
    /// The chains chosen so, compared with those from all round-trip times.
    pub comparisons: Vec<Comparison>,
}

/// The comparison for one number of rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    pub rounds: u8,
    /// Over measured pairs, and the estimated direct path where the two ends are not measured.
    pub estimated: Other,
    /// Over measured pairs alone.
    pub measured: Other,
}

/// Compares over all pairs of a full mesh of at least two nodes, each of which measures `count` others, for each of
/// `rounds`.
pub fn sample(mesh: &Graph, count: usize, rounds: &[Rounds]) -> SampledComparison {
    let measured = measured(mesh, count);
    let coordinates = Coordinates::of(&measured);
    let [best, known] = [mesh, &measured].map(|graph| Chains::of(graph.clone()));
    let comparison = |&rounds: &Rounds| {
        let best_chains = of_all_pairs(mesh, |low, high| best.best_figures(low, high, rounds));
        let nodes = |low, high| known.best(low, high, rounds).map(|chain| chain.nodes);
        let alone = of_all_pairs(mesh, |low, high| in_truth(mesh, low, high, nodes(low, high)));
        let estimated = of_all_pairs(mesh, |low, high| {
            let direct = direct(&coordinates, &measured, low, high);
            let chain = known.best_figures(low, high, rounds);
            let time = |figures: Figures| figures.doubled_time(rounds);
            let gains = direct.is_some_and(|direct| chain.is_none_or(|chain| time(direct) < time(chain)));
            in_truth(mesh, low, high, nodes(low, high).filter(|_| !gains))
        });
        Comparison {
            rounds: rounds.count(),
            estimated: other(&estimated, &best_chains, rounds),
            measured: other(&alone, &best_chains, rounds),
        }
    };
    SampledComparison {
        peers: count,
        pairs_measured_percent: share(&measured),
        error_percent: percentiles(errors(mesh, &measured, &coordinates)),
        comparisons: rounds.iter().map(comparison).collect(),
    }
}

/// The links of a mesh that one of their ends measures.
fn measured(mesh: &Graph, count: usize) -> Graph {
    let mut found = Graph::new(mesh.names().to_vec());
    for node in mesh.nodes() {
        let mut lots = Random(u64::from(node) + 1);
        let others = mesh.nodes().filter(|&other| other != node);
        let peers = others.filter_map(|id| {
            let rank = u64::from(mesh.delay(node, id)?);
            let lot = lots.bits();
            Some(Peer { id, lot, rank })
        });
        for peer in choose_sample(peers.collect(), count) {
            found.set(node, peer, mesh.delay(node, peer));
        }
    }
    found
}

/// The estimated hop between two nodes without a measurement, plus its error.
fn direct(coordinates: &Coordinates, measured: &Graph, low: Node, high: Node) -> Option<Figures> {
    if measured.delay(low, high).is_some() {
        return None;
    }
    let (delay, error) = coordinates.estimate(low, high)?;
    Some(Figures::of(&[delay + error]))
}

/// The true figures of a chain of these nodes; without one of the direct path.
fn in_truth(mesh: &Graph, low: Node, high: Node, nodes: Option<Vec<Node>>) -> Option<Figures> {
    mesh.figures(&nodes.unwrap_or_else(|| vec![low, high]))
}

#[expect(clippy::cast_precision_loss, reason = "few pairs")]
fn share(graph: &Graph) -> f64 {
    let pairs = graph.len() * (graph.len() - 1) / 2;
    100.0 * graph.links().len() as f64 / pairs as f64
}

/// By how many percent of the truth each estimate is off.
fn errors(mesh: &Graph, measured: &Graph, coordinates: &Coordinates) -> Vec<f64> {
    let off = |(low, high)| {
        let (estimate, _) = coordinates.estimate(low, high)?;
        let truth = f64::from(mesh.delay(low, high)?);
        Some(100.0 * (f64::from(estimate) - truth).abs() / truth)
    };
    let missing = |&(low, high): &(Node, Node)| measured.delay(low, high).is_none();
    mesh.pairs().filter(missing).filter_map(off).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_by_lot_and_half_of_the_nearest() {
        let peers = || -> Vec<Peer<u8>> {
            let each = (0..10_u8).map(|id| Peer {
                id,
                lot: u64::from(9 - id),
                rank: u64::from(id),
            });
            each.collect()
        };
        let chosen = |count| choose_sample(peers(), count).into_iter().collect::<Vec<_>>();
        assert_eq!(chosen(4), [0, 1, 8, 9]);
        assert_eq!(chosen(5), [0, 1, 7, 8, 9]);
        assert_eq!(chosen(1), [9]);
        assert_eq!(chosen(10).len(), 10);
        assert_eq!(chosen(99).len(), 10);
        assert_eq!(choose_sample(Vec::<Peer<u8>>::new(), 4), BTreeSet::new());
    }

    #[test]
    fn who_measures_all_chooses_as_well_as_can_be() {
        let mesh = crate::read("A B 10\nA C 6\nC B 6\nA D 3\n").unwrap();
        let mesh = crate::floyd_warshall::full_mesh(&mesh);
        let found = sample(&mesh, 3, &[Rounds::new(5).unwrap()]);
        assert_eq!(found.pairs_measured_percent.to_bits(), 100_f64.to_bits());
        assert_eq!(found.error_percent, [0.0; 0]);
        let both = [&found.comparisons[0].estimated, &found.comparisons[0].measured];
        assert!(both.iter().all(|other| other.worse_percent[100] == 0.0));
    }
}
