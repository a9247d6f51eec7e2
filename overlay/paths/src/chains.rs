//! The best chain for each pair and number of rounds.

use crate::ends::join;
use crate::graph::{Graph, Node};
use crate::model::{Figures, Rounds};
use crate::staircase::{STAY, Stair, under};
use crate::sweep::{place, staircases};

/// A chain: its nodes from the ingress to the egress, both included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    pub nodes: Vec<Node>,
    pub figures: Figures,
}

/// The best chains of all pairs of a graph's nodes.
#[derive(Clone, Debug)]
pub struct Chains {
    graph: Graph,
    pairs: Vec<Vec<Stair>>,
}

impl Chains {
    pub fn of(graph: Graph) -> Self {
        let all = graph.len();
        Self::through(graph, all)
    }

    /// Chains pass only the first `passed` nodes. The others are only ends of chains, and no chain joins two of them.
    ///
    /// # Panics
    ///
    /// If there are fewer nodes.
    pub fn through(graph: Graph, passed: usize) -> Self {
        assert!(passed <= graph.len(), "{passed} of {} nodes", graph.len());
        let mut links = graph.links();
        links.retain(|link| usize::from(link.high) < passed);
        let mut pairs = staircases(&graph, &links);
        let ends = graph.nodes().skip(passed);
        if let Some(first) = ends.clone().next() {
            ends.for_each(|end| join(&graph, &mut pairs, first, end));
        }
        Self { graph, pairs }
    }

    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The chains between two nodes that are Pareto-optimal in length and longest hop, the shortest longest hop first.
    pub fn front(&self, from: Node, to: Node) -> Vec<Figures> {
        let mut front: Vec<Figures> = self.stairs(from, to).iter().map(figures).collect();
        front.dedup_by_key(|figures| figures.length);
        front
    }

    /// The chain with the shortest time for so many rounds, with the fewest converters among equals; None if no chain joins
    /// the two.
    pub fn best(&self, ingress: Node, egress: Node, rounds: Rounds) -> Option<Chain> {
        let figures = self.best_figures(ingress, egress, rounds)?;
        Some(Chain {
            nodes: self.chain(ingress, egress, figures.longest)?,
            figures,
        })
    }

    pub fn best_figures(&self, ingress: Node, egress: Node, rounds: Rounds) -> Option<Figures> {
        self.best_before(ingress, egress, 0, rounds)
    }

    /// The figures of the best chain to `egress` if a hop of `last` microseconds follows. The longer that is, the less
    /// short hops before it gain.
    pub fn best_before(&self, ingress: Node, egress: Node, last: u32, rounds: Rounds) -> Option<Figures> {
        let all = self.stairs(ingress, egress).iter().map(figures);
        all.min_by_key(|each| (each.then(last).doubled_time(rounds), each.hops))
    }

    /// The shortest chain none of whose hops exceeds `longest` microseconds, with the fewest converters among equals.
    pub fn chain(&self, from: Node, to: Node, longest: u32) -> Option<Vec<Node>> {
        let whole = under(self.stairs(from, to), longest)?;
        let mut nodes = Vec::with_capacity(usize::from(whole.cost.hops()) + 1);
        nodes.push(from);
        self.go_on(&mut nodes, to, longest);
        Some(nodes)
    }

    /// Appends to `nodes` the best chain from their last one to `to`.
    fn go_on(&self, nodes: &mut Vec<Node>, to: Node, longest: u32) {
        let from = *nodes.last().expect("a chain begins with its ingress");
        if from == to {
            return;
        }
        let stair = under(self.stairs(from, to), longest).expect("a part of a chain is a chain");
        let (near, far) = if from < to {
            stair.via
        } else {
            (stair.via.1, stair.via.0)
        };
        self.go_on(nodes, near, longest);
        nodes.push(far);
        self.go_on(nodes, to, longest);
    }

    fn stairs(&self, a: Node, b: Node) -> &[Stair] {
        if a == b { &STAY } else { &self.pairs[place(a, b)] }
    }
}

fn figures(stair: &Stair) -> Figures {
    Figures {
        length: stair.cost.length(),
        longest: stair.longest,
        hops: stair.cost.hops(),
    }
}
