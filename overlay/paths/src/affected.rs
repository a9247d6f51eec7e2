//! A link that goes away: the pairs that it was on a best chain of, and their staircases without it.

use crate::chains::Chains;
use crate::graph::{Link, Node};
use crate::staircase::{Cost, Stair, put, together, under};
use crate::sweep::place;

/// The pairs whose best chain, under some limit of the longest hop, may take a link; by their first node.
pub(crate) struct Affected(Vec<(Node, Vec<Node>)>);

impl Affected {
    /// Those of `link`. It is on a best chain from s to t only if it is on one from s to its far end, and on one from
    /// its near end to t.
    pub(crate) fn by(chains: &Chains, link: Link) -> Self {
        let own = Cost::of_link(link.delay);
        let takes = |from: Node, near: Node, far: Node| {
            let mut both = together(
                chains.stairs(from, near),
                chains.stairs(from, far),
                link.delay,
            );
            both.any(|(_, near, far)| near < Cost::INFINITE && near + own == far)
        };
        let before: Vec<Node> = chains
            .graph
            .nodes()
            .filter(|&node| takes(node, link.low, link.high))
            .collect();
        let after: Vec<Node> = chains
            .graph
            .nodes()
            .filter(|&node| takes(node, link.high, link.low))
            .collect();
        let mut seen = vec![false; chains.pairs.len()];
        let mut concerned = |from: Node, near: Node, far: Node, to: Node| {
            if from == to || seen[place(from, to)] {
                return false;
            }
            let found = takes_between(chains, [from, near, far, to], own, link.delay);
            seen[place(from, to)] |= found;
            found
        };
        // One row of state for each first node: the fewer of both sides.
        let (near, far) = if before.len() <= after.len() {
            (link.low, link.high)
        } else {
            (link.high, link.low)
        };
        let (rows, columns) = if near == link.low {
            (before, after)
        } else {
            (after, before)
        };
        let rows = rows.into_iter().map(|from| {
            let to = columns
                .iter()
                .copied()
                .filter(|&to| concerned(from, near, far, to))
                .collect();
            (from, to)
        });
        Self(
            rows.filter(|(_, to): &(Node, Vec<Node>)| !to.is_empty())
                .collect(),
        )
    }

    /// From how many nodes they are, counted on the side of the link where these are fewer.
    pub(crate) fn rows(&self) -> usize {
        self.0.len()
    }
}

/// Whether under some limit the way over the link costs what the best chain costs.
fn takes_between(chains: &Chains, [from, near, far, to]: [Node; 4], own: Cost, delay: u32) -> bool {
    let whole = chains.stairs(from, to);
    together(chains.stairs(from, near), chains.stairs(far, to), delay).any(
        |(longest, before, after)| {
            before.max(after) < Cost::INFINITE
                && under(whole, longest).is_some_and(|stair| stair.cost == before + own + after)
        },
    )
}

/// Make the staircases of the pairs that are `affected` anew, from the limit `least` on, by `links`.
///
/// It is the sweep again, for these pairs alone: what the others have at a limit is known. They have all links of the
/// limit's length in already, so what costs as much as they say is good enough.
pub(crate) fn replay(pairs: &mut [Vec<Stair>], links: &[Link], least: u32, affected: &Affected) {
    if affected.0.is_empty() {
        return;
    }
    for (from, ends) in &affected.0 {
        for &to in ends {
            let stairs = &mut pairs[place(*from, to)];
            stairs.truncate(stairs.partition_point(|stair| stair.longest < least));
        }
    }
    let mut climb = Climb {
        standing: vec![Standing::default(); pairs.len()],
        pairs,
    };
    for &link in &links[links.partition_point(|link| link.delay < least)..] {
        let own = Cost::of_link(link.delay);
        if climb.cost(link.low, link.high, link.delay) < own {
            continue; // no best chain between its own ends, so on no other one
        }
        for (from, ends) in &affected.0 {
            let low = climb.cost(*from, link.low, link.delay);
            let high = climb.cost(*from, link.high, link.delay);
            if low + own <= high {
                climb.go_over(*from, ends, (link.low, link.high), low + own, link.delay);
            } else if high + own <= low {
                climb.go_over(*from, ends, (link.high, link.low), high + own, link.delay);
            }
        }
    }
}

/// All staircases while the limit goes up: where each stands is kept apart, since few change at a limit.
struct Climb<'a> {
    pairs: &'a mut [Vec<Stair>],
    standing: Vec<Standing>,
}

/// A staircase at a limit: the cost there, the limit from which on it is less, and which stair has that.
#[derive(Clone)]
struct Standing {
    cost: Cost,
    until: u32,
    next: u32,
}

impl Default for Standing {
    fn default() -> Self {
        Self {
            cost: Cost::INFINITE,
            until: 0,
            next: 0,
        }
    }
}

impl Climb<'_> {
    /// The cost between two nodes under `limit`, which is never less than in the call before.
    fn cost(&mut self, from: Node, to: Node, limit: u32) -> Cost {
        if from == to {
            return Cost::ZERO;
        }
        let place = place(from, to);
        let standing = &mut self.standing[place];
        if standing.until <= limit {
            let mut later = self.pairs[place][standing.next as usize..].iter();
            standing.until = u32::MAX;
            for stair in later.by_ref() {
                if stair.longest > limit {
                    standing.until = stair.longest;
                    break;
                }
                standing.cost = stair.cost;
                standing.next += 1;
            }
        }
        standing.cost
    }

    /// Put what the way over a link gives, `before` up to its far end, where it is better than what was there.
    fn go_over(&mut self, from: Node, ends: &[Node], via: (Node, Node), before: Cost, limit: u32) {
        for &to in ends {
            let cost = before + self.cost(via.1, to, limit);
            if cost < self.cost(from, to, limit) {
                let place = place(from, to);
                let via = if from < to { via } else { (via.1, via.0) };
                put(
                    &mut self.pairs[place],
                    Stair {
                        cost,
                        longest: limit,
                        via,
                    },
                );
                self.standing[place].cost = cost;
            }
        }
    }
}
