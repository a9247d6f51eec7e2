//! One changed link: the pairs that it concerns are found by their staircases, and only these are made anew.

use crate::affected::{Affected, replay};
use crate::chains::Chains;
use crate::graph::{Link, Node};
use crate::staircase::{Cost, Stair, lower, together};
use crate::sweep::place;

/// Where a link concerns chains from more than this part of the nodes, all pairs anew take less time.
const MANY: usize = 8;

impl Chains {
    /// Give the link between two different nodes another round-trip time in microseconds; None takes it away.
    pub fn change(&mut self, a: Node, b: Node, delay: Option<u32>) {
        let link = |delay| Link {
            delay,
            low: a.min(b),
            high: a.max(b),
        };
        let before = self.graph.delay(a, b);
        if before == delay {
            return;
        }
        if let Some(before) = before.map(link) {
            let affected = Affected::by(self, before);
            if affected.rows() > self.graph.len() / MANY {
                self.graph.set(a, b, delay);
                *self = Self::of(self.graph.clone());
                return;
            }
            self.take_away(before, &affected);
        }
        if let Some(delay) = delay {
            self.add(link(delay));
        }
    }

    fn take_away(&mut self, link: Link, affected: &Affected) {
        self.graph.set(link.low, link.high, None);
        let at = self.links.binary_search(&link).expect("the graph's links");
        self.links.remove(at);
        replay(&mut self.pairs, &self.links, link.delay, affected);
    }

    /// The chains over a new link are the best ones to it and on from it.
    fn add(&mut self, link: Link) {
        let own = Cost::of_link(link.delay);
        let gains = |from: Node, near: Node, far: Node| {
            let mut both = together(self.stairs(from, near), self.stairs(from, far), link.delay);
            both.any(|(_, near, far)| near + own < far)
        };
        let before: Vec<Node> = self
            .graph
            .nodes()
            .filter(|&node| gains(node, link.low, link.high))
            .collect();
        let after: Vec<Node> = self
            .graph
            .nodes()
            .filter(|&node| gains(node, link.high, link.low))
            .collect();
        for &from in &before {
            for &to in after.iter().filter(|&&to| to != from) {
                self.add_between(from, to, link);
            }
        }
        self.graph.set(link.low, link.high, Some(link.delay));
        let at = self.links.binary_search(&link).expect_err("there was none");
        self.links.insert(at, link);
    }

    fn add_between(&mut self, from: Node, to: Node, link: Link) {
        let own = Cost::of_link(link.delay);
        let via = if from < to {
            (link.low, link.high)
        } else {
            (link.high, link.low)
        };
        let through: Vec<Stair> = together(
            self.stairs(from, link.low),
            self.stairs(link.high, to),
            link.delay,
        )
        .filter(|(_, near, far)| *near.max(far) < Cost::INFINITE)
        .map(|(longest, near, far)| Stair {
            cost: near + own + far,
            longest,
            via,
        })
        .collect();
        let stairs = &mut self.pairs[place(from, to)];
        *stairs = lower(stairs, &through);
    }
}
