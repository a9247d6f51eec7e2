//! The commands' answers as JSON: times in milliseconds, nodes by their names.

use std::collections::BTreeMap;

use overlay_paths::compare::{Comparison, compare};
use overlay_paths::peer_sample::{SampledComparison, sample};
use overlay_paths::{Chains, Figures, Graph, Node, Rounds};
use serde::Serialize;

#[derive(Debug, Serialize)]
struct Chain {
    nodes: Vec<String>,
    hops_ms: Vec<f64>,
    length_ms: f64,
    longest_ms: f64,
    time_ms: f64,
}

/// The best chain for so many rounds, and the alternatives.
#[derive(Debug, Serialize)]
pub struct Paths {
    rounds: u8,
    best: Chain,
    /// Without a converter between the ends.
    direct: Chain,
    /// All chains that are Pareto-optimal in length and longest hop, the shortest longest hop first.
    front: Vec<Chain>,
}

/// The chains from `ingress` to `egress` over a full mesh.
pub fn paths(mesh: Graph, ingress: Node, egress: Node, rounds: Rounds) -> Paths {
    let chains = Chains::of(mesh);
    let describe = |nodes: &[Node]| describe(chains.graph(), nodes, rounds);
    let best = chains.best(ingress, egress, rounds).expect("a full mesh");
    let mut direct = vec![ingress, egress];
    direct.dedup();
    let front = chains.front(ingress, egress).into_iter().map(|figures| {
        let nodes = chains
            .chain(ingress, egress, figures.longest)
            .expect("a chain of the front");
        describe(&nodes)
    });
    Paths {
        rounds: rounds.count(),
        best: describe(&best.nodes),
        direct: describe(&direct),
        front: front.collect(),
    }
}

fn describe(graph: &Graph, nodes: &[Node], rounds: Rounds) -> Chain {
    let hops = nodes
        .windows(2)
        .map(|hop| graph.delay(hop[0], hop[1]).expect("a link of the chain"));
    let hops: Vec<u32> = hops.collect();
    let figures = Figures::of(&hops);
    Chain {
        nodes: nodes
            .iter()
            .map(|&node| graph.names()[usize::from(node)].clone())
            .collect(),
        hops_ms: hops.into_iter().map(milliseconds).collect(),
        length_ms: milliseconds(figures.length),
        longest_ms: milliseconds(figures.longest),
        time_ms: figures.time(rounds) / 1e3,
    }
}

fn milliseconds(microseconds: u32) -> f64 {
    f64::from(microseconds) / 1e3
}

/// The comparison over all pairs of a graph.
#[derive(Debug, Serialize)]
pub struct Simulation {
    nodes: usize,
    pairs: usize,
    comparisons: Vec<Comparison>,
    /// The same if each node measures only some others.
    sampled: Option<SampledComparison>,
}

/// The comparison over a full mesh for each of `rounds`; with `peers`, also if each node measures only so many others.
pub fn simulate(mesh: Graph, rounds: &[Rounds], peers: Option<usize>) -> Simulation {
    let nodes = mesh.len();
    Simulation {
        nodes,
        sampled: peers.map(|count| sample(&mesh, count, rounds)),
        pairs: nodes * (nodes - 1) / 2,
        comparisons: compare(&Chains::of(mesh), rounds),
    }
}

/// The data of a picture.
#[derive(Debug, Serialize)]
pub struct Map {
    rounds: u8,
    nodes: Vec<String>,
    /// The round-trip times of all pairs, in the order of the nodes.
    delays_ms: Vec<Vec<f64>>,
    links: Vec<Used>,
}

#[derive(Debug, Serialize)]
struct Used {
    a: String,
    b: String,
    /// The number of pairs whose best chain uses it.
    pairs: usize,
}

/// The nodes of a full mesh, their delays, and the links that transfers of so many rounds use.
pub fn map(mesh: Graph, rounds: Rounds) -> Map {
    let chains = Chains::of(mesh);
    let graph = chains.graph();
    let mut pairs = BTreeMap::<(Node, Node), usize>::new();
    for (low, high) in graph.pairs() {
        let best = chains.best(low, high, rounds).expect("a full mesh");
        for hop in best.nodes.windows(2) {
            *pairs.entry((hop[0].min(hop[1]), hop[0].max(hop[1]))).or_default() += 1;
        }
    }
    let name = |node: Node| graph.names()[usize::from(node)].clone();
    let delay = |a, b| milliseconds(graph.delay(a, b).unwrap_or(0));
    let used = pairs.into_iter().map(|((a, b), pairs)| Used {
        a: name(a),
        b: name(b),
        pairs,
    });
    Map {
        rounds: rounds.count(),
        nodes: graph.names().to_vec(),
        delays_ms: graph
            .nodes()
            .map(|a| graph.nodes().map(|b| delay(a, b)).collect())
            .collect(),
        links: used.collect(),
    }
}
