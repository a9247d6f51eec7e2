//! Nodes at which chains only begin or end: no chain passes them, so they need no sweep of their own.

use crate::graph::{Graph, Node};
use crate::staircase::{Cost, STAY, Stair};
use crate::sweep::place;

/// Computes the staircases between `end` and the nodes before `passed`, from those between these.
pub(crate) fn join(graph: &Graph, pairs: &mut [Vec<Stair>], passed: Node, end: Node) {
    let links = (0..passed).filter_map(|near| Some((near, graph.delay(near, end)?)));
    let links: Vec<(Node, u32)> = links.collect();
    for from in 0..passed {
        let mut all = Vec::new();
        for &(near, delay) in &links {
            let before = if near == from {
                &STAY[..]
            } else {
                &pairs[place(from, near)]
            };
            all.extend(before.iter().map(|stair| Stair {
                cost: stair.cost + Cost::of_link(delay),
                longest: stair.longest.max(delay),
                via: (near, end),
            }));
        }
        pairs[place(from, end)] = descending(all);
    }
}

/// The least costs at each limit.
fn descending(mut all: Vec<Stair>) -> Vec<Stair> {
    all.sort_unstable_by_key(|stair| (stair.longest, stair.cost, stair.via));
    let mut found: Vec<Stair> = Vec::new();
    for stair in all {
        if found.last().is_none_or(|last| stair.cost < last.cost) {
            found.push(stair);
        }
    }
    found
}
