//! Parses graphs: one link per line, `NODE NODE MILLISECONDS`, once or in both directions; `#` begins a comment.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use crate::graph::{Graph, MAX_NODES, Node};

/// Round-trip times in milliseconds: sums over the largest number of nodes cannot overflow.
const ACCEPTED: RangeInclusive<f64> = 0.001..=4000.0;
const LINE: &str = "accepted: NODE NODE MILLISECONDS";

/// The graph that `text` describes, with its nodes in the order in which they appear. The error begins with the line.
pub fn read(text: &str) -> Result<Graph, String> {
    let mut reader = Reader::default();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default();
        if !line.trim().is_empty() {
            let taken = reader.take(number, line);
            taken.map_err(|what| format!("line {number}: {what}"))?;
        }
    }
    if reader.names.is_empty() {
        return Err(format!("line 1: there is no link at all: {LINE}, a link a line"));
    }
    reader.graph()
}

#[derive(Default)]
struct Reader<'a> {
    names: Vec<&'a str>,
    nodes: HashMap<&'a str, Node>,
    /// The line of each node's first mention.
    first: Vec<usize>,
    /// Round-trip times in microseconds with their lines, by the nodes, the smaller index first.
    links: HashMap<(Node, Node), (u32, usize)>,
}

impl<'a> Reader<'a> {
    fn take(&mut self, number: usize, line: &'a str) -> Result<(), String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [one, other, delay] = words[..] else {
            return Err(format!("{} words: {LINE}", words.len()));
        };
        let delay = microseconds(delay)?;
        if one == other {
            return Err(format!("{one} to itself: accepted: a link between two nodes"));
        }
        let (a, b) = (self.node(one, number)?, self.node(other, number)?);
        let (before, line) = *self.links.entry((a.min(b), a.max(b))).or_insert((delay, number));
        if before == delay {
            return Ok(());
        }
        let (now, before) = (f64::from(delay) / 1e3, f64::from(before) / 1e3);
        Err(format!(
            "{one} {other} is {now} ms here and {before} ms in line {line}: accepted: the same both ways"
        ))
    }

    fn node(&mut self, name: &'a str, number: usize) -> Result<Node, String> {
        if let Some(&node) = self.nodes.get(name) {
            return Ok(node);
        }
        if self.names.len() == MAX_NODES {
            return Err(format!("{name} is one more: accepted: at most {MAX_NODES} nodes"));
        }
        let node = Node::try_from(self.names.len()).expect("MAX_NODES fits");
        self.names.push(name);
        self.first.push(number);
        self.nodes.insert(name, node);
        Ok(node)
    }

    fn graph(self) -> Result<Graph, String> {
        let mut graph = Graph::new(self.names.iter().map(ToString::to_string).collect());
        for (&(a, b), &(delay, _)) in &self.links {
            graph.set(a, b, Some(delay));
        }
        let reached = reached(&graph);
        let Some(lost) = reached.iter().position(|&is| !is) else {
            return Ok(graph);
        };
        let (line, node, start) = (self.first[lost], self.names[lost], self.names[0]);
        Err(format!(
            "line {line}: no chain of links joins {node} to {start}: accepted: a graph in one piece"
        ))
    }
}

fn microseconds(text: &str) -> Result<u32, String> {
    let delay = text.parse().ok().filter(|delay| ACCEPTED.contains(delay));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "ACCEPTED fits")]
    delay.map(|delay: f64| (delay * 1e3).round() as u32).ok_or_else(|| {
        let (least, most) = (ACCEPTED.start(), ACCEPTED.end());
        format!("{text} is no round-trip time: accepted: milliseconds from {least} to {most}")
    })
}

/// Which nodes are connected to the first one.
fn reached(graph: &Graph) -> Vec<bool> {
    let mut reached = vec![false; graph.len()];
    let mut open = vec![0];
    reached[0] = true;
    while let Some(node) = open.pop() {
        for other in graph
            .nodes()
            .filter(|&other| other != node && graph.delay(node, other).is_some())
        {
            if !std::mem::replace(&mut reached[usize::from(other)], true) {
                open.push(other);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_a_line_once_or_both_ways() {
        let graph = read("# three\nA B 1.5\n\nB A 1.5 # the same\nB C 0.001\n").unwrap();
        assert_eq!(graph.names(), ["A", "B", "C"]);
        assert_eq!(
            [graph.delay(0, 1), graph.delay(2, 1), graph.delay(0, 2)],
            [Some(1500), Some(1), None]
        );
    }

    #[test]
    fn what_is_no_graph_is_refused_with_its_line() {
        let nothing = read("").unwrap_err();
        assert!(nothing.starts_with("line 1: there is no link at all"));
        let cases = r"
            # nothing => line 1: there is no link at all
            A B 1\nB C => line 2: 2 words: accepted: NODE NODE MILLISECONDS
            A B 1 2 => line 1: 4 words
            A B 1\nB C -2 => line 2: -2 is no round-trip time: accepted: milliseconds from 0.001 to 4000
            A B NaN => line 1: NaN is no round-trip time
            A B inf => line 1: inf is no round-trip time
            A B 0 => line 1: 0 is no round-trip time
            A B 4000.1 => line 1: 4000.1 is no round-trip time
            A B soon => line 1: soon is no round-trip time
            A A 1 => line 1: A to itself: accepted: a link between two nodes
            A B 1\nB C 3\nB A 2 => line 3: B A is 2 ms here and 1 ms in line 1: accepted: the same both ways
            A B 1\nC D 3\nA D 2\nE F 1 => line 4: no chain of links joins E to A: accepted: a graph in one piece
        ";
        for case in cases.trim().lines() {
            let (text, what) = case.trim().split_once(" => ").unwrap();
            let refusal = read(&text.replace(r"\n", "\n")).unwrap_err();
            assert!(refusal.starts_with(what), "{text}: {refusal}");
        }
    }

    #[test]
    fn a_node_too_many_is_refused() {
        let line = |number: usize| format!("0 {number} 1\n");
        let text: String = (1..=MAX_NODES).map(line).collect();
        let refusal = "line 1000: 1000 is one more: accepted: at most 1000 nodes";
        assert_eq!(read(&text), Err(refusal.into()));
    }
}
