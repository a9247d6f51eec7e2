//! All pairs: in ascending order of limits of the longest hop, all-pairs shortest paths updated as links are added.
//!
//! A new link shortens the path from s to t only if it shortens those from s to its far end, and from its near end to t.
//! Few pairs must be checked, and none if the link is no better than the path before, which holds for most links if delays
//! are those of a network's shortest paths.

use crate::graph::{Graph, Link, Node};
use crate::staircase::{Cost, Stair, put};

/// The index of the staircase of two different nodes.
pub(crate) fn place(a: Node, b: Node) -> usize {
    index(usize::from(a.min(b)), usize::from(a.max(b)))
}

fn index(low: usize, high: usize) -> usize {
    high * (high - 1) / 2 + low
}

/// The staircases of all pairs, from the node with the smaller index to the other one, at their [`place`]s.
pub(crate) fn staircases(graph: &Graph, links: &[Link]) -> Vec<Vec<Stair>> {
    let mut sweep = Sweep::new(graph.len());
    for &link in links {
        sweep.take(link);
    }
    sweep.pairs
}

/// The state between two links. `costs` are those of all pairs over the links so far, row by row.
struct Sweep {
    count: usize,
    costs: Vec<Cost>,
    pairs: Vec<Vec<Stair>>,
    before: Vec<(usize, Cost)>,
    after: Vec<(usize, Cost)>,
}

impl Sweep {
    fn new(count: usize) -> Self {
        let mut costs = vec![Cost::INFINITE; count * count];
        for node in 0..count {
            costs[node * (count + 1)] = Cost::ZERO;
        }
        let pairs = vec![Vec::new(); count * count.saturating_sub(1) / 2];
        Self {
            count,
            costs,
            pairs,
            before: Vec::new(),
            after: Vec::new(),
        }
    }

    /// Adds the next longer link.
    fn take(&mut self, link: Link) {
        let (low, high, own) = (usize::from(link.low), usize::from(link.high), Cost::of_link(link.delay));
        if self.costs[low * self.count + high] <= own {
            return;
        }
        self.before.clear();
        self.after.clear();
        let to_low = &self.costs[low * self.count..][..self.count];
        let to_high = &self.costs[high * self.count..][..self.count];
        for (node, (&near, &far)) in to_low.iter().zip(to_high).enumerate() {
            if near + own < far {
                self.before.push((node, near + own));
            } else if far + own < near {
                self.after.push((node, far));
            }
        }
        for &(from, before) in &self.before {
            let row = &mut self.costs[from * self.count..][..self.count];
            for &(to, after) in &self.after {
                let cost = before + after;
                if cost < row[to] {
                    row[to] = cost;
                    let via = if from < to {
                        (link.low, link.high)
                    } else {
                        (link.high, link.low)
                    };
                    let longest = link.delay;
                    let stairs = &mut self.pairs[index(from.min(to), from.max(to))];
                    put(stairs, Stair { cost, longest, via });
                }
            }
        }
        for &(from, _) in &self.before {
            for &(to, _) in &self.after {
                self.costs[to * self.count + from] = self.costs[from * self.count + to];
            }
        }
    }
}
