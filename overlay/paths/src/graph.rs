//! Round-trip times between nodes.

use crate::model::Figures;

/// A node, by its index in [`Graph::names`].
pub type Node = u16;

/// With so many nodes, lengths of chains (u32 microseconds) and counts of hops cannot overflow.
pub const MAX_NODES: usize = 1000;

/// An unknown round-trip time, or a pair without a link.
pub(crate) const NONE: u32 = u32::MAX;

/// A link: both directions have the same round-trip time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    pub delay: u32,
    /// The end with the smaller index.
    pub low: Node,
    pub high: Node,
}

/// Nodes and the round-trip times between them, symmetric, complete or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    names: Vec<String>,
    delays: Vec<u32>,
}

impl Graph {
    /// Nodes without links.
    ///
    /// # Panics
    ///
    /// With more than [`MAX_NODES`].
    pub fn new(names: Vec<String>) -> Self {
        assert!(names.len() <= MAX_NODES, "at most {MAX_NODES} nodes");
        let delays = vec![NONE; names.len() * names.len()];
        Self { names, delays }
    }

    /// So many nodes, named by their indices.
    pub fn numbered(count: usize) -> Self {
        Self::new((0..count).map(|number| number.to_string()).collect())
    }

    pub fn len(&self) -> usize {
        self.names.len()
    }

    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    pub fn nodes(&self) -> std::ops::Range<Node> {
        0..Node::try_from(self.len()).unwrap_or(Node::MAX)
    }

    /// All pairs of two nodes, the smaller index first.
    pub fn pairs(&self) -> impl Iterator<Item = (Node, Node)> + use<> {
        self.nodes().flat_map(|high| (0..high).map(move |low| (low, high)))
    }

    pub fn names(&self) -> &[String] {
        &self.names
    }

    pub fn node(&self, name: &str) -> Option<Node> {
        self.nodes().find(|&node| self.names[usize::from(node)] == name)
    }

    /// The round-trip time in microseconds of the link between two nodes, if there is one.
    pub fn delay(&self, a: Node, b: Node) -> Option<u32> {
        Some(self.delays[self.place(a, b)]).filter(|&delay| delay != NONE)
    }

    /// Sets the round-trip time in microseconds of the link between two different nodes; None removes it.
    ///
    /// # Panics
    ///
    /// For a link from a node to itself, and for a time of 0.
    pub fn set(&mut self, a: Node, b: Node, delay: Option<u32>) {
        assert!(a != b && delay != Some(0), "{a} to {b} in {delay:?}");
        let (there, back) = (self.place(a, b), self.place(b, a));
        self.delays[there] = delay.unwrap_or(NONE);
        self.delays[back] = self.delays[there];
    }

    /// All links, the shortest first.
    pub fn links(&self) -> Vec<Link> {
        let mut links: Vec<Link> = self
            .pairs()
            .filter_map(|(low, high)| self.delay(low, high).map(|delay| Link { delay, low, high }))
            .collect();
        links.sort_unstable();
        links
    }

    /// What the chain `nodes` amounts to; None if one of its links is not there.
    pub fn figures(&self, nodes: &[Node]) -> Option<Figures> {
        let hops = nodes.windows(2).map(|hop| self.delay(hop[0], hop[1]));
        let hops: Option<Vec<u32>> = hops.collect();
        Some(Figures::of(&hops?))
    }

    fn place(&self, a: Node, b: Node) -> usize {
        usize::from(a) * self.len() + usize::from(b)
    }
}
