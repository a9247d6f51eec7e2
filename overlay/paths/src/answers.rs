//! What the commands say, as JSON: times in milliseconds, nodes by their names.

use std::collections::BTreeMap;

use overlay_paths::compare::{Comparison, compare};
use overlay_paths::peer_sample::{Sampled, sample};
use overlay_paths::{Chains, Figures, Graph, Node, Rounds, transfer_time};
use serde::Serialize;

/// One chain.
#[derive(Debug, Serialize)]
struct Chain {
    nodes: Vec<String>,
    hops_ms: Vec<f64>,
    length_ms: f64,
    longest_ms: f64,
    time_ms: f64,
}

/// The best chain for so many rounds, and what it is chosen from.
#[derive(Debug, Serialize)]
pub struct Paths {
    rounds: u8,
    best: Chain,
    /// Without a converter between the two ends.
    direct: Chain,
    /// All that are Pareto-optimal in length and longest hop, the shortest hops first.
    front: Vec<Chain>,
}

/// The answer for the way from `ingress` to `egress` over a full mesh.
pub fn paths(mesh: Graph, ingress: Node, egress: Node, rounds: Rounds) -> Paths {
    let chains = Chains::of(mesh);
    let describe = |nodes: &[Node], figures| describe(chains.graph(), nodes, figures, rounds);
    let best = chains.best(ingress, egress, rounds).expect("a full mesh");
    let delay = chains.graph().delay(ingress, egress).unwrap_or(0);
    let direct = if ingress == egress {
        vec![ingress]
    } else {
        vec![ingress, egress]
    };
    let front = chains.front(ingress, egress).into_iter().map(|figures| {
        let nodes = chains
            .chain(ingress, egress, figures.longest)
            .expect("a chain of the front");
        describe(&nodes, figures)
    });
    Paths {
        rounds: rounds.count(),
        best: describe(&best.nodes, best.figures),
        direct: describe(
            &direct,
            Figures {
                length: delay,
                longest: delay,
                hops: 1,
            },
        ),
        front: front.collect(),
    }
}

fn describe(graph: &Graph, nodes: &[Node], figures: Figures, rounds: Rounds) -> Chain {
    let hops = nodes
        .windows(2)
        .map(|hop| graph.delay(hop[0], hop[1]).expect("a link of the chain"));
    Chain {
        nodes: nodes
            .iter()
            .map(|&node| graph.names()[usize::from(node)].clone())
            .collect(),
        hops_ms: hops.map(milliseconds).collect(),
        length_ms: milliseconds(figures.length),
        longest_ms: milliseconds(figures.longest),
        time_ms: transfer_time(figures.length, figures.longest, rounds) / 1e3,
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
    /// What becomes of it if each node measures only a few others.
    sampled: Option<Sampled>,
}

/// The comparison over a full mesh, once for each of `rounds`; `peers` are how many others a node measures, if not all.
pub fn simulate(mesh: Graph, rounds: &[Rounds], peers: Option<usize>) -> Simulation {
    let nodes = mesh.len();
    Simulation {
        nodes,
        sampled: peers.map(|count| sample(&mesh, count, rounds)),
        pairs: nodes * (nodes - 1) / 2,
        comparisons: compare(&Chains::of(mesh), rounds),
    }
}

/// What a picture of an overlay shows.
#[derive(Debug, Serialize)]
pub struct Map {
    rounds: u8,
    nodes: Vec<String>,
    /// Round-trip times of all pairs, in the order of the nodes.
    delays_ms: Vec<Vec<f64>>,
    /// Those that a best chain passes; the others no transfer of so many rounds needs.
    links: Vec<Used>,
}

/// A link in use.
#[derive(Debug, Serialize)]
struct Used {
    a: String,
    b: String,
    /// How many pairs of nodes have it in their best chain.
    pairs: usize,
}

/// The nodes of a full mesh, how far they are from each other, and which links transfers of so many rounds take.
pub fn map(mesh: Graph, rounds: Rounds) -> Map {
    let chains = Chains::of(mesh);
    let graph = chains.graph();
    let mut pairs = BTreeMap::<(Node, Node), usize>::new();
    for (high, low) in graph
        .nodes()
        .flat_map(|high| (0..high).map(move |low| (high, low)))
    {
        let best = chains.best(low, high, rounds).expect("a full mesh");
        for hop in best.nodes.windows(2) {
            *pairs
                .entry((hop[0].min(hop[1]), hop[0].max(hop[1])))
                .or_default() += 1;
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
