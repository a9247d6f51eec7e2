//! Computes which chain of converters a transfer should take, from the round-trip times between them.
//!
//! A transfer of r rounds over p1..pk takes 1/2 * sum d(pi, pi+1) + (r - 1) * max d(pi, pi+1), d the round-trip time
//! (MOSTO: Siracusano et al., IEEE JSAC 2017, DOI 10.1109/JSAC.2017.2760185). So only the chains matter that are
//! Pareto-optimal in length and longest hop; of equal ones that with the fewest converters.
//!
//! No I/O and no clock: [`read`] parses a [`Graph`], [`Chains`] has the answers for all pairs.

mod chains;
pub mod compare;
mod coordinates;
mod ends;
pub mod floyd_warshall;
mod graph;
mod model;
pub mod peer_sample;
mod read;
mod staircase;
mod sweep;

pub use chains::{Chain, Chains};
pub use coordinates::{Coordinates, Random, whole};
pub use graph::{Graph, Link, MAX_NODES, Node};
pub use model::{Figures, MAX_ROUNDS, Rounds};
pub use read::read;
