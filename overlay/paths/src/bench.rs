//! Measures the computation of all pairs, and a lookup.

use std::hint::black_box;
use std::time::Instant;

use overlay_paths::{Chains, Graph, Node, Random, Rounds, floyd_warshall, whole};
use serde::Serialize;

/// Lookups per measurement, since one is too short for a clock.
const LOOKUPS: u32 = 100_000;

#[derive(Debug, Serialize)]
pub struct Measurements {
    pairs_115_ms: Vec<f64>,
    pairs_315_s: Vec<f64>,
    lookup_us: Vec<f64>,
    floyd_warshall_115_ms: Vec<f64>,
    floyd_warshall_315_s: Vec<f64>,
    /// Pareto-optimal chains per pair on average, with 115 nodes.
    chains_a_pair_115: f64,
}

pub fn measure(repeat: u32) -> Measurements {
    let (small, large) = (plane(115), plane(315));
    let chains = Chains::of(small.clone());
    let fronts = small.pairs().map(|(low, high)| chains.front(low, high).len());
    #[expect(clippy::cast_precision_loss, reason = "thousands")]
    let chains_a_pair_115 = fronts.sum::<usize>() as f64 / small.pairs().count() as f64;
    let lookup_us = repeated(repeat, || lookups(&chains)).map(|seconds| seconds / f64::from(LOOKUPS) * 1e6);
    Measurements {
        pairs_115_ms: repeated(repeat, || Chains::of(small.clone()))
            .map(|seconds| seconds * 1e3)
            .collect(),
        pairs_315_s: repeated(repeat.min(3), || Chains::of(large.clone())).collect(),
        lookup_us: lookup_us.collect(),
        floyd_warshall_115_ms: repeated(repeat, || floyd_warshall::shortest(&small))
            .map(|seconds| seconds * 1e3)
            .collect(),
        floyd_warshall_315_s: repeated(repeat, || floyd_warshall::shortest(&large)).collect(),
        chains_a_pair_115,
    }
}

/// A complete graph like measured ones: points in a square of 50 ms; each round trip is 1 to 1.6 times the straight line,
/// in microseconds. Nearly all links matter, which is the hard case.
fn plane(count: usize) -> Graph {
    let mut random = Random(42);
    let points: Vec<(f64, f64)> = (0..count).map(|_| (random.share(), random.share())).collect();
    let mut graph = Graph::numbered(count);
    for (low, high) in graph.pairs() {
        let (a, b) = (points[usize::from(low)], points[usize::from(high)]);
        let straight = 50_000.0 * (a.0 - b.0).hypot(a.1 - b.1);
        let delay = whole(straight * (1.0 + 0.6 * random.share()));
        graph.set(low, high, Some(delay));
    }
    graph
}

fn repeated<T>(count: u32, work: impl Fn() -> T) -> impl Iterator<Item = f64> {
    (0..count).map(move |_| {
        let begun = Instant::now();
        black_box(work());
        begun.elapsed().as_secs_f64()
    })
}

fn lookups(chains: &Chains) -> usize {
    let mut random = Random(3);
    let count = chains.graph().len();
    let pick = |random: &mut Random| Node::try_from(random.below(count)).expect("few");
    let mut found = 0;
    for _ in 0..LOOKUPS {
        let (from, to) = (pick(&mut random), pick(&mut random));
        let rounds = Rounds::of_size(random.bits() % 20_000_000);
        found += chains.best(from, to, rounds).map_or(0, |chain| chain.nodes.len());
    }
    found
}
