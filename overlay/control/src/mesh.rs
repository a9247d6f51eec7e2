//! The chains between nodes, by their distances.

use std::collections::BTreeMap;

use overlay_paths::{Chains, Figures, Graph, MAX_ROUNDS, Node, Rounds};

use crate::distances::graphs;
use crate::estimates::Estimates;
use crate::name::Name;
use crate::schema::Chain;
use crate::snapshot::Snapshot;

/// The best chain for a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Best {
    /// Length and longest hop, which give the time.
    pub figures: Figures,
    /// Whether it is the direct path, by an estimate.
    estimated: bool,
}

impl Best {
    /// The time of a transfer with a further hop of `last` microseconds, in microseconds.
    pub fn time(&self, last: u32, rounds: Rounds) -> f64 {
        self.figures.then(last).time(rounds)
    }
}

/// The chains of all pairs of nodes.
///
/// They consist of measured links. An estimate is only compared with them as the direct path: among many chains with
/// estimated hops, the best one would probably be one whose estimates are too low.
pub struct Mesh {
    chains: Chains,
    estimated: Graph,
    /// First the nodes that chains may pass, in order, then those at which they only begin, in order.
    nodes: Vec<Name>,
    passed: usize,
}

impl Mesh {
    /// Chains pass and end at passable nodes, and begin at all that are alive.
    pub fn of(snapshot: &Snapshot, estimates: &Estimates) -> Self {
        let passable = &snapshot.passable;
        let others = snapshot.alive.difference(passable);
        let nodes: Vec<Name> = passable.iter().chain(others).cloned().collect();
        let (measured, guessed) = graphs(&nodes, snapshot, estimates);
        let passed = passable.len();
        Self {
            chains: Chains::through(measured, passed),
            estimated: guessed,
            nodes,
            passed,
        }
    }

    /// The best chains from `ingress` to all other passable nodes, by ascending rounds.
    pub fn to_all(&self, ingress: &Name) -> BTreeMap<Name, Vec<Chain>> {
        let others = self.nodes[..self.passed].iter().filter(|egress| *egress != ingress);
        let found = others.map(|egress| (egress.clone(), self.best(ingress, egress)));
        found.filter(|(_, chains)| !chains.is_empty()).collect()
    }

    /// The best chain if a hop of `last` microseconds follows; None if no chain joins the two, or one of them is not in the
    /// mesh.
    pub fn best_before(&self, ingress: &Name, egress: &Name, last: u32, rounds: Rounds) -> Option<Best> {
        let (from, to) = self.place(ingress).zip(self.place(egress))?;
        let chain = self.chains.best_before(from, to, last, rounds);
        let chain = chain.map(|figures| Best {
            figures,
            estimated: false,
        });
        let direct = self.estimated.delay(from, to).map(|delay| Best {
            figures: Figures::of(&[delay]),
            estimated: true,
        });
        let both = chain.into_iter().chain(direct);
        both.min_by(|one, other| f64::total_cmp(&one.time(last, rounds), &other.time(last, rounds)))
    }

    /// The nodes between the ends of the best chain.
    ///
    /// # Panics
    ///
    /// If it is not a chain of this mesh.
    pub fn through(&self, from: &Name, to: &Name, best: &Best) -> Vec<Name> {
        if best.estimated {
            return Vec::new();
        }
        let ends = self.place(from).zip(self.place(to));
        let longest = best.figures.longest;
        let whole = ends.and_then(|(from, to)| self.chains.chain(from, to, longest));
        let whole = whole.expect("a chain of these figures");
        let between = whole.get(1..whole.len() - 1).unwrap_or_default();
        let names = between.iter().map(|&node| &self.nodes[usize::from(node)]);
        names.cloned().collect()
    }

    fn place(&self, name: &Name) -> Option<Node> {
        let (passed, others) = self.nodes.split_at(self.passed);
        let place = match passed.binary_search(name) {
            Ok(place) => place,
            Err(_) => self.passed + others.binary_search(name).ok()?,
        };
        Some(Node::try_from(place).expect("MAX_NODES fits"))
    }

    fn best(&self, ingress: &Name, egress: &Name) -> Vec<Chain> {
        let mut found = Vec::new();
        let mut before = None;
        for rounds in (1..=MAX_ROUNDS).filter_map(Rounds::new) {
            let best = self.best_before(ingress, egress, 0, rounds);
            if let Some(best) = best.filter(|_| best != before) {
                found.push(Chain {
                    rounds: rounds.count(),
                    through: self.through(ingress, egress, &best),
                });
            }
            before = best;
        }
        found
    }
}
