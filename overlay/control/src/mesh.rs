//! The chains between nodes, by their distances.

use std::collections::{BTreeMap, BTreeSet};

use overlay_paths::{Chains, Figures, Graph, Node, Rounds, transfer_time};

use crate::distances::{farther, graph};
use crate::estimates::{self, Estimates};
use crate::name::Name;
use crate::snapshot::Snapshot;
use crate::values::{Chain, Delays, MOST_ROUNDS};

/// How far nodes are from each other, with what the pressure on them adds.
pub struct Known {
    /// What they measured.
    measured: BTreeMap<Name, Delays>,
    /// What is estimated of other pairs.
    estimated: BTreeMap<Name, Delays>,
}

impl Known {
    /// By what etcd holds, and what is estimated by that.
    pub fn of(taken: &Snapshot, estimates: &Estimates) -> Self {
        Self {
            measured: farther(&taken.delays, &taken.health),
            estimated: farther(&estimates::as_delays(estimates), &taken.health),
        }
    }

    /// The measured links of these nodes, and the estimated ones.
    pub fn graphs(&self, nodes: &[Name]) -> (Graph, Graph) {
        (graph(nodes, &self.measured), graph(nodes, &self.estimated))
    }
}

/// The best chain for a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Best {
    /// What its time follows from.
    pub figures: Figures,
    /// Whether it is the way without converters, which nobody measured.
    estimated: bool,
}

impl Best {
    /// What a transfer takes if a hop of `last` microseconds follows, in microseconds.
    pub fn time(&self, last: u32, rounds: Rounds) -> f64 {
        let Figures {
            length, longest, ..
        } = self.figures;
        transfer_time(length + last, longest.max(last), rounds)
    }
}

/// The chains of all pairs of some nodes.
///
/// They consist of measured links. An estimate is only ever compared with them, for the whole way without converters
/// between: among many chains with estimated hops the best one is likely to be one whose estimates are too low.
pub struct Mesh {
    chains: Chains,
    estimated: Graph,
    /// Those that chains pass, in order, and behind them in order those at which chains only begin.
    nodes: Vec<Name>,
    /// How many chains pass.
    passed: usize,
}

impl Mesh {
    /// Chains pass and end at the nodes that are `passable`, and begin at all.
    pub fn of(passable: &BTreeSet<Name>, all: &BTreeSet<Name>, known: &Known) -> Self {
        let nodes: Vec<Name> = passable
            .iter()
            .chain(all.difference(passable))
            .cloned()
            .collect();
        let (measured, estimated) = known.graphs(&nodes);
        let passed = passable.len();
        Self {
            chains: Chains::through(measured, passed),
            estimated,
            nodes,
            passed,
        }
    }

    /// The best chains from `ingress` to all others that are passable, by ascending rounds.
    pub fn to_all(&self, ingress: &Name) -> BTreeMap<Name, Vec<Chain>> {
        let others = self.nodes[..self.passed]
            .iter()
            .filter(|egress| *egress != ingress);
        let found = others.map(|egress| (egress.clone(), self.best(ingress, egress)));
        found.filter(|(_, chains)| !chains.is_empty()).collect()
    }

    /// What is best if a hop of `last` microseconds follows; None where no chain joins the two, or one of them is not among
    /// the nodes.
    pub fn best_before(
        &self,
        ingress: &Name,
        egress: &Name,
        last: u32,
        rounds: Rounds,
    ) -> Option<Best> {
        let (from, to) = self.place(ingress).zip(self.place(egress))?;
        let chain = self.chains.best_before(from, to, last, rounds);
        let chain = chain.map(|figures| Best {
            figures,
            estimated: false,
        });
        let direct = self.estimated.delay(from, to).map(|delay| Best {
            figures: Figures {
                length: delay,
                longest: delay,
                hops: 1,
            },
            estimated: true,
        });
        let both = chain.into_iter().chain(direct);
        both.min_by(|one, other| f64::total_cmp(&one.time(last, rounds), &other.time(last, rounds)))
    }

    /// The nodes between the ends of the best chain.
    ///
    /// # Panics
    /// If it is not a chain of these.
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
        Some(Node::try_from(place).expect("MOST_NODES fits"))
    }

    fn best(&self, ingress: &Name, egress: &Name) -> Vec<Chain> {
        let mut found = Vec::new();
        let mut before = None;
        for rounds in (1..=MOST_ROUNDS).filter_map(Rounds::new) {
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
