//! A link that goes away: the pairs that it was on a best chain of, and their staircases without it.

use crate::chains::Chains;
use crate::graph::{Link, Node};
use crate::staircase::{Cost, STAY, Stair, put, together, under};
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
/// It is the sweep again, for these pairs alone: what the others have at a limit is known.
pub(crate) fn replay(
    pairs: &mut [Vec<Stair>],
    count: usize,
    links: &[Link],
    least: u32,
    affected: Affected,
) {
    for (from, ends) in &affected.0 {
        for &to in ends {
            let stairs = &mut pairs[place(*from, to)];
            stairs.truncate(stairs.partition_point(|stair| stair.longest < least));
        }
    }
    let mut rows: Vec<Row> = affected
        .0
        .into_iter()
        .map(|(from, ends)| Row::new(from, ends, count))
        .collect();
    if rows.is_empty() {
        return;
    }
    // A link that is no best chain between its own ends is on none.
    let counts = |link: &Link| {
        under(&pairs[place(link.low, link.high)], link.delay)
            .is_none_or(|best| best.cost >= Cost::of_link(link.delay))
    };
    let later = &links[links.partition_point(|link| link.delay < least)..];
    let later: Vec<Link> = later.iter().copied().filter(counts).collect();
    for link in later {
        for row in &mut rows {
            row.take(pairs, link);
        }
    }
}

/// The pairs from one node on: `ends` are to be made anew, `places` say which stair of every pair the limit stands on.
struct Row {
    from: Node,
    ends: Vec<Node>,
    places: Vec<u32>,
}

impl Row {
    fn new(from: Node, ends: Vec<Node>, count: usize) -> Self {
        Self {
            from,
            ends,
            places: vec![0; count],
        }
    }

    /// Take the next longest link in. Staircases that are not affected have all links of its length in already, so
    /// what costs as much as they say is good enough.
    fn take(&mut self, pairs: &mut [Vec<Stair>], link: Link) {
        let own = Cost::of_link(link.delay);
        let low = self.cost(pairs, link.low, link.delay);
        let high = self.cost(pairs, link.high, link.delay);
        if low + own <= high {
            self.go_over(pairs, link, (link.low, link.high), low + own);
        } else if high + own <= low {
            self.go_over(pairs, link, (link.high, link.low), high + own);
        }
    }

    /// The cost to `to` under the limit, which never goes down.
    fn cost(&mut self, pairs: &[Vec<Stair>], to: Node, limit: u32) -> Cost {
        let stairs: &[Stair] = if self.from == to {
            &STAY
        } else {
            &pairs[place(self.from, to)]
        };
        let at = &mut self.places[usize::from(to)];
        while stairs
            .get(*at as usize)
            .is_some_and(|next| next.longest <= limit)
        {
            *at += 1;
        }
        match *at {
            0 => Cost::INFINITE,
            above => stairs[above as usize - 1].cost,
        }
    }

    fn go_over(
        &self,
        pairs: &mut [Vec<Stair>],
        link: Link,
        (near, far): (Node, Node),
        before: Cost,
    ) {
        for &to in &self.ends {
            let rest: &[Stair] = if far == to {
                &STAY
            } else {
                &pairs[place(far, to)]
            };
            let Some(rest) = under(rest, link.delay) else {
                continue;
            };
            let cost = before + rest.cost;
            let stairs = &mut pairs[place(self.from, to)];
            if stairs.last().is_none_or(|last| cost < last.cost) {
                let via = if self.from < to {
                    (near, far)
                } else {
                    (far, near)
                };
                put(
                    stairs,
                    Stair {
                        cost,
                        longest: link.delay,
                        via,
                    },
                );
            }
        }
    }
}
