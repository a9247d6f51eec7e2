//! The best chains of one pair for each limit of the longest hop: a staircase that descends as the limit rises.

use std::ops::Add;

use crate::graph::Node;

/// The order of chains under one limit of the longest hop: length first, then hops. Both add up along a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cost(u64);

const HOPS: u32 = 16;

impl Cost {
    /// Of a chain of one node.
    pub(crate) const ZERO: Self = Self(0);
    /// More than any chain, also when added to itself.
    pub(crate) const INFINITE: Self = Self(u64::MAX / 4);

    /// Of a link with this round-trip time in microseconds.
    pub(crate) fn of_link(delay: u32) -> Self {
        Self(u64::from(delay) << HOPS | 1)
    }

    /// In microseconds.
    pub(crate) fn length(self) -> u32 {
        u32::try_from(self.0 >> HOPS).expect("bounded by the sizes of graphs and of delays")
    }

    /// The number of links.
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

/// A stair: from the limit `longest` (microseconds) up to the next stair's, no chain costs less than `cost`.
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

/// The stair for the limit `longest`, if a chain respects it.
pub(crate) fn under(stairs: &[Stair], longest: u32) -> Option<&Stair> {
    stairs[..stairs.partition_point(|stair| stair.longest <= longest)].last()
}

/// Puts `stair` above those with smaller limits, in place of one with the same limit.
pub(crate) fn put(stairs: &mut Vec<Stair>, stair: Stair) {
    match stairs.last_mut() {
        Some(last) if last.longest == stair.longest => *last = stair,
        _ => stairs.push(stair),
    }
}
