//! The best chains of one pair, for every limit of the longest hop: a staircase that goes down as the limit goes up.

use std::ops::Add;

use crate::graph::Node;

/// What chains are compared by under one limit of the longest hop: length first, then hops. Both add up along a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cost(u64);

const HOPS: u32 = 16;

impl Cost {
    /// Of a chain of one node.
    pub(crate) const ZERO: Self = Self(0);
    /// More than any chain; twice that is more yet.
    pub(crate) const INFINITE: Self = Self(u64::MAX / 4);

    /// Of a single link with this round-trip time in microseconds.
    pub(crate) fn of_link(delay: u32) -> Self {
        Self(u64::from(delay) << HOPS | 1)
    }

    /// The sum of the round-trip times in microseconds.
    pub(crate) fn length(self) -> u32 {
        u32::try_from(self.0 >> HOPS).expect("bounded by the sizes of graphs and of delays")
    }

    /// How many links the chain has.
    pub(crate) fn hops(self) -> u16 {
        (self.0 & 0xffff) as u16
    }
}

impl Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

/// One stair: from the limit `longest` on (microseconds) up to the next stair's, no chain costs less than `cost`.
///
/// The chain is the best one under `longest` to `via`'s first node, that link, and the best one on from its second node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stair {
    pub(crate) cost: Cost,
    pub(crate) longest: u32,
    pub(crate) via: (Node, Node),
}

/// From a node to itself.
pub(crate) const STAY: [Stair; 1] = [Stair {
    cost: Cost::ZERO,
    longest: 0,
    via: (0, 0),
}];

/// The stair on which the limit `longest` stands, if any chain keeps to it.
pub(crate) fn under(stairs: &[Stair], longest: u32) -> Option<&Stair> {
    stairs[..stairs.partition_point(|stair| stair.longest <= longest)].last()
}

/// Put `stair` on top of those with smaller limits, in place of one with the same limit.
pub(crate) fn put(stairs: &mut Vec<Stair>, stair: Stair) {
    match stairs.last_mut() {
        Some(last) if last.longest == stair.longest => *last = stair,
        _ => stairs.push(stair),
    }
}
