//! All pairs by one criterion, by Floyd and Warshall's algorithm (Floyd, "Algorithm 97", Communications of the ACM, 1962):
//! shortest paths, which complete a mesh, and minimax paths, with which chains are compared.

use crate::graph::{Graph, NONE};

/// The length in microseconds of the shortest path of every pair, row by row; `u32::MAX` where there is none.
pub fn shortest(graph: &Graph) -> Vec<u32> {
    closure(graph, u32::saturating_add)
}

/// The least possible longest hop in microseconds of every pair, row by row; `u32::MAX` where there is no path.
pub fn minimax(graph: &Graph) -> Vec<u32> {
    closure(graph, u32::max)
}

/// The full mesh: a pair without a link gets the length of its shortest path, which is how packets travel. A pair that no
/// path joins stays without.
#[must_use]
pub fn full_mesh(graph: &Graph) -> Graph {
    let lengths = shortest(graph);
    let mut mesh = graph.clone();
    for (low, high) in graph.pairs() {
        let length = lengths[usize::from(low) * graph.len() + usize::from(high)];
        if graph.delay(low, high).is_none() && length != NONE {
            mesh.set(low, high, Some(length));
        }
    }
    mesh
}

fn closure(graph: &Graph, join: impl Fn(u32, u32) -> u32) -> Vec<u32> {
    let count = graph.len();
    let mut best: Vec<u32> = graph
        .nodes()
        .flat_map(|a| {
            graph
                .nodes()
                .map(move |b| if a == b { 0 } else { graph.delay(a, b).unwrap_or(NONE) })
        })
        .collect();
    for middle in 0..count {
        let through = best[middle * count..(middle + 1) * count].to_vec();
        for row in best.chunks_exact_mut(count) {
            let first = row[middle];
            for (cell, &second) in row.iter_mut().zip(&through) {
                *cell = (*cell).min(join(first, second));
            }
        }
    }
    best
}
