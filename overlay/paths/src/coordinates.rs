//! Estimates unmeasured delays from measured ones by network coordinates.
//!
//! Vivaldi with heights (Dabek, Cox, Kaashoek, Morris: "Vivaldi: A Decentralized Network Coordinate System", SIGCOMM 2004,
//! section 5.4): a node has a place in a space of few dimensions and a height above it, the distance from the core of the
//! network. Here one machine knows all measurements, so that each is applied many times, in an order that is always the
//! same: the same measurements give the same coordinates.

use crate::graph::{Graph, Link, Node};

/// Below the heights. The paper finds no gain beyond three; Consul uses eight.
const DIMENSIONS: usize = 4;
/// How often each measurement is applied; after half of that the coordinates hardly move.
const TURNS: u32 = 120;
/// The largest part of its error by which a measurement moves a node (the paper's `c_c`); it decreases with the turns.
const STEP: f64 = 0.25;
/// A node with fewer measurements could be anywhere.
const ENOUGH: usize = 3;
/// The least distance in microseconds.
const LEAST: f64 = 1.0;

#[derive(Clone, Debug)]
pub struct Coordinates {
    places: Vec<Place>,
    /// The mean relative error of each node's measured links; None with too few of them.
    errors: Vec<Option<f64>>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    at: [f64; DIMENSIONS],
    height: f64,
}

impl Coordinates {
    /// The coordinates that agree best with the links of `graph`.
    pub fn of(graph: &Graph) -> Self {
        let mut links = graph.links();
        shuffle(&mut links);
        let mut places: Vec<Place> = graph.nodes().map(Place::beginning).collect();
        for turn in 0..TURNS {
            let step = STEP * (1.0 - f64::from(turn) / f64::from(TURNS));
            for &link in &links {
                pull(&mut places, link, step);
            }
        }
        let errors = errors(&places, &links);
        Self { places, errors }
    }

    /// The round-trip time between two different nodes in microseconds, and its likely error, from the mean errors of both
    /// nodes' measured links; None if too little is known of one of them.
    pub fn estimate(&self, a: Node, b: Node) -> Option<(u32, u32)> {
        let [a, b] = [a, b].map(usize::from);
        let error = f64::midpoint(self.errors[a]?, self.errors[b]?);
        let distance = self.places[a].distance(&self.places[b]);
        Some((whole(distance), whole(distance * error)))
    }
}

/// A round-trip time in whole microseconds.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to what a round-trip time may be"
)]
pub fn whole(microseconds: f64) -> u32 {
    microseconds.clamp(LEAST, 4e6).round() as u32
}

impl Place {
    /// Near the origin, no two at the same place.
    fn beginning(node: Node) -> Self {
        let mut random = Random(u64::from(node) + 1);
        Self {
            at: [(); DIMENSIONS].map(|()| random.share() - 0.5),
            height: 1.0,
        }
    }

    fn distance(&self, other: &Self) -> f64 {
        length(self.towards(other)) + self.height + other.height
    }

    fn towards(&self, other: &Self) -> [f64; DIMENSIONS] {
        std::array::from_fn(|axis| other.at[axis] - self.at[axis])
    }
}

fn length(way: [f64; DIMENSIONS]) -> f64 {
    way.iter().map(|part| part * part).sum::<f64>().sqrt()
}

/// Moves both ends of a link by `step` of the error of their distance, each along the line between them and in height.
fn pull(places: &mut [Place], link: Link, step: f64) {
    let [low, high] = [link.low, link.high].map(usize::from);
    let way = places[low].towards(&places[high]);
    let (flat, heights) = (length(way), places[low].height + places[high].height);
    let off = f64::from(link.delay) - flat - heights;
    let share = step * off / (flat + heights).max(LEAST);
    for (axis, part) in way.into_iter().enumerate() {
        places[low].at[axis] -= share * part;
        places[high].at[axis] += share * part;
    }
    for end in [low, high] {
        let height = places[end].height;
        places[end].height = (height + share * height.max(LEAST)).max(LEAST);
    }
}

fn errors(places: &[Place], links: &[Link]) -> Vec<Option<f64>> {
    let mut sums = vec![(0.0, 0_usize); places.len()];
    for link in links {
        let [low, high] = [link.low, link.high].map(usize::from);
        let measured = f64::from(link.delay);
        let error = (places[low].distance(&places[high]) - measured).abs() / measured;
        for end in [low, high] {
            sums[end].0 += error;
            sums[end].1 += 1;
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "few links")]
    let mean = |(sum, count): (f64, usize)| (count >= ENOUGH).then(|| sum / count as f64);
    sums.into_iter().map(mean).collect()
}

/// In random order (Fisher and Yates): consecutive links of one node would drag it about.
fn shuffle(links: &mut [Link]) {
    let mut random = Random(1);
    for last in (1..links.len()).rev() {
        links.swap(last, random.below(last + 1));
    }
}

/// Pseudo-random numbers, always the same (Steele, Lea, Flood: `SplitMix`, OOPSLA 2014).
pub struct Random(pub u64);

impl Random {
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// In [0, 1].
    #[expect(clippy::cast_precision_loss, reason = "53 bits are kept")]
    pub fn share(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Less than `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.bits() % bound as u64).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nodes at random places in a square 100 ms wide, up to 10 ms from the core of the network.
    fn world(count: u16) -> Graph {
        let mut random = Random(7);
        let places: Vec<[f64; 3]> = (0..count)
            .map(|_| [1e5, 1e5, 1e4].map(|most| most * random.share()))
            .collect();
        let mut graph = Graph::numbered(count.into());
        for (low, high) in graph.pairs() {
            let [a, b] = [low, high].map(|node| places[usize::from(node)]);
            let flat = f64::hypot(a[0] - b[0], a[1] - b[1]);
            graph.set(low, high, Some(whole(flat + a[2] + b[2])));
        }
        graph
    }

    /// About one in `of` links.
    fn thinned(graph: &Graph, of: usize) -> Graph {
        let mut thinned = graph.clone();
        let mut random = Random(3);
        for link in graph.links() {
            if random.below(of) != 0 {
                thinned.set(link.low, link.high, None);
            }
        }
        thinned
    }

    #[test]
    fn what_nobody_measured_is_found_where_nodes_are_in_a_plane() {
        let world = world(60);
        let thinned = thinned(&world, 4);
        let coordinates = Coordinates::of(&thinned);
        let mut off: Vec<f64> = Vec::new();
        for link in world.links() {
            if thinned.delay(link.low, link.high).is_none() {
                let (estimate, _) = coordinates.estimate(link.low, link.high).unwrap();
                off.push(f64::from(estimate.abs_diff(link.delay)) / f64::from(link.delay));
            }
        }
        off.sort_unstable_by(f64::total_cmp);
        let median = off[off.len() / 2];
        assert!(median < 0.03, "{median}");
    }

    #[test]
    fn the_same_measurements_give_the_same_coordinates() {
        let thinned = thinned(&world(30), 3);
        let [one, other] = [(); 2].map(|()| Coordinates::of(&thinned));
        let all = |found: &Coordinates| -> Vec<_> { (1..30).map(|node| found.estimate(0, node)).collect() };
        assert_eq!(all(&one), all(&other));
    }

    #[test]
    fn a_node_that_hardly_anything_is_known_of_could_be_anywhere() {
        let mut graph = world(10);
        for other in 2..9 {
            graph.set(9, other, None);
        }
        let coordinates = Coordinates::of(&graph);
        assert_eq!(coordinates.estimate(9, 4), None);
        assert!(coordinates.estimate(3, 4).is_some());
        assert!(Coordinates::of(&Graph::numbered(2)).estimate(0, 1).is_none());
    }
}
