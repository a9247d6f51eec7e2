//! Which of several nodes that are next to the same servers connections are to leave the overlay by, as measured: the
//! decision of a controller, and what an ingress makes of it.

use overlay_paths::Rounds;

use crate::egresses::{Egress, Egresses};
use crate::mesh::{Best, Mesh};
use crate::name::Name;
use crate::threshold::Threshold;
use crate::values::{Delay, Exit, Exits, MOST_ROUNDS};

/// Another node is taken only if a transfer takes so much less time by it: who is as near as another stays.
const GAIN: Threshold = Threshold {
    percent: 10,
    least_us: 2000,
};

/// A way to the servers: by which node, and what transfers on it take.
struct Way<'a> {
    node: &'a Name,
    /// The chain to the node.
    best: Best,
    /// In microseconds, the way from the node to the servers included.
    time: f64,
}

/// The best ways of an ingress to the servers of its lines that name several nodes, in the order of the lines. Those that
/// no node has measured are left out.
///
/// `to_servers` says how far the servers of a line are from a node, `before` what was chosen the last time.
pub fn choose(
    ingress: &Name,
    egresses: &Egresses,
    mesh: &Mesh,
    to_servers: impl Fn(&Egress, &Name) -> Option<Delay>,
    before: &[Exits],
) -> Vec<Exits> {
    let several = egresses.iter().filter(|line| !line.others.is_empty());
    let found = several.filter_map(|line| {
        let key = (line.to, line.port);
        let before = before.iter().find(|each| (each.to, each.port) == key);
        let measured: Vec<(&Name, u32)> = line
            .candidates()
            .filter_map(|node| Some((node, to_servers(line, node)?.microseconds())))
            .collect();
        let best = best(
            ingress,
            &measured,
            mesh,
            before.map_or(&[], |each| &each.best),
        );
        (!best.is_empty()).then_some(Exits {
            to: line.to,
            port: line.port,
            best,
        })
    });
    found.collect()
}

fn best(ingress: &Name, measured: &[(&Name, u32)], mesh: &Mesh, before: &[Exit]) -> Vec<Exit> {
    let mut found: Vec<Exit> = Vec::new();
    for rounds in (1..=MOST_ROUNDS).filter_map(Rounds::new) {
        let ways = measured
            .iter()
            .filter_map(|&(node, last)| way(mesh, ingress, node, last, rounds));
        let ways: Vec<Way> = ways.collect();
        let Some(chosen) = chosen(&ways, at(before, rounds.count())) else {
            return Vec::new();
        };
        let exit = Exit {
            rounds: rounds.count(),
            node: chosen.node.clone(),
            through: mesh.through(ingress, chosen.node, &chosen.best),
        };
        let same = |last: &Exit| (&last.node, &last.through) == (&exit.node, &exit.through);
        if !found.last().is_some_and(same) {
            found.push(exit);
        }
    }
    found
}

/// The best way by `node`, if a chain leads there. The way on to the servers, `last` microseconds, is one hop more.
fn way<'a>(
    mesh: &Mesh,
    ingress: &Name,
    node: &'a Name,
    last: u32,
    rounds: Rounds,
) -> Option<Way<'a>> {
    let best = mesh.best_before(ingress, node, last, rounds)?;
    Some(Way {
        node,
        best,
        time: best.time(last, rounds),
    })
}

/// How long a transfer takes by `node`, from which the servers are `last` microseconds, in microseconds; None if no chain
/// leads there.
pub fn time(mesh: &Mesh, ingress: &Name, node: &Name, last: u32, rounds: Rounds) -> Option<f64> {
    way(mesh, ingress, node, last, rounds).map(|way| way.time)
}

/// The way that takes least time, of equal ones that of the node named first; but that of the node of before if it takes
/// hardly more.
fn chosen<'a, 'b>(ways: &'a [Way<'b>], before: Option<&Exit>) -> Option<&'a Way<'b>> {
    let best = ways.iter().min_by(|a, b| a.time.total_cmp(&b.time))?;
    let kept = ways
        .iter()
        .find(|way| before.is_some_and(|before| before.node == *way.node));
    let stays = |kept: &&Way| {
        let gain = kept.time - best.time;
        gain <= f64::from(GAIN.least_us) || gain * 100.0 <= kept.time * f64::from(GAIN.percent)
    };
    Some(kept.filter(stays).unwrap_or(best))
}

/// What is for so many rounds, if anything is known.
pub fn at(exits: &[Exit], rounds: u8) -> Option<&Exit> {
    exits.iter().rfind(|exit| exit.rounds <= rounds)
}

/// The nodes of a line in the order in which they are to be tried: the measured one, then the others as they are named.
pub fn in_order<'a>(line: &'a Egress, exit: Option<&Exit>) -> Vec<&'a Name> {
    let is_first = |node: &&Name| exit.is_some_and(|exit| exit.node == **node);
    let (mut nodes, others): (Vec<_>, Vec<_>) = line.candidates().partition(is_first);
    nodes.extend(others);
    nodes
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::estimates::Estimates;
    use crate::mesh::Known;
    use crate::snapshot::Snapshot;
    use crate::values::Delays;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    fn delay(milliseconds: u128) -> Delay {
        Delay::of_microseconds(milliseconds * 1000)
    }

    /// `A B 10` a line: 10 ms between A and B.
    fn mesh(text: &str) -> Mesh {
        let mut all: BTreeMap<Name, Delays> = BTreeMap::new();
        let mut nodes = BTreeSet::new();
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [from, to] = [words[0], words[1]].map(name);
            let measured = &mut all.entry(from.clone()).or_default().round_trip_us;
            measured.insert(to.clone(), delay(words[2].parse().unwrap()));
            nodes.extend([from, to]);
        }
        let taken = Snapshot {
            delays: all,
            ..Snapshot::default()
        };
        Mesh::of(&nodes, &nodes, &Known::of(&taken, &Estimates::new()))
    }

    const MESH: &str = "A B 20\nA C 30\nB C 12\nA D 10\nD B 10";

    /// The ways of A to 10.0.0.0/8, `B` and so on, so many milliseconds from the servers.
    fn exits(line: &str, servers: &[(&str, u128)], before: &[Exits]) -> Vec<Exits> {
        let egresses = Egresses::parse(line).unwrap();
        let far: BTreeMap<Name, Delay> = servers
            .iter()
            .map(|(node, ms)| (name(node), delay(*ms)))
            .collect();
        let to_servers = |_: &Egress, node: &Name| far.get(node).copied();
        choose(&name("A"), &egresses, &mesh(MESH), to_servers, before)
    }

    fn text(exits: &[Exits]) -> Vec<String> {
        let each = exits.iter().flat_map(|line| &line.best).map(|exit| {
            let through: Vec<&str> = exit.through.iter().map(Name::as_str).collect();
            format!("{} {} by {}", exit.rounds, exit.node, through.join(" "))
        });
        each.collect()
    }

    #[test]
    fn the_last_leg_is_one_more_hop_in_the_model() {
        let line = "10.0.0.0/8 B|C";
        // By B: 1/2 * (20 + 30) + (r - 1) * 30, whose leg is the longest hop, so that no detour pays. By C: 1/2 * (30 + 2),
        // 30 the longest hop; from two rounds on by way of B and D, 12 the longest one.
        let found = exits(line, &[("B", 30), ("C", 2)], &[]);
        assert_eq!(text(&found), ["1 C by ", "2 C by D B"]);
        // 1/2 * (20 + 4) + (r - 1) * 10 by way of D; the leg of C is the longer one.
        let found = exits(line, &[("B", 4), ("C", 2)], &[]);
        assert_eq!(text(&found), ["1 B by ", "2 B by D"]);
        let found = exits(line, &[("B", 30), ("C", 40)], &[]);
        assert_eq!(text(&found), ["1 B by "]);
    }

    #[test]
    fn who_measured_is_compared_with_whom_and_nobody_else() {
        let line = "10.0.0.0/8 B|C";
        assert_eq!(text(&exits(line, &[("C", 100)], &[])), ["1 C by "]);
        assert_eq!(exits(line, &[], &[]), []);
        assert_eq!(exits(line, &[("D", 1)], &[]), []);
        assert_eq!(exits("10.0.0.0/8 B|E", &[("E", 1)], &[]), []);
        assert_eq!(exits("10.0.0.0/8 B", &[("B", 1)], &[]), []);
    }

    #[test]
    fn an_ingress_that_is_nearest_itself_is_its_own_egress() {
        let line = "10.0.0.0/8 port 22 B|A";
        let found = exits(line, &[("B", 2), ("A", 10)], &[]);
        assert_eq!(text(&found), ["1 A by "]);
        assert_eq!(found[0].port.map(u16::from), Some(22));
        // 1/2 * 30 + (r - 1) * 30 beside 1/2 * (20 + 2) + (r - 1) * 10.
        let found = exits(line, &[("B", 2), ("A", 30)], &[]);
        assert_eq!(text(&found), ["1 B by ", "2 B by D"]);
    }

    #[test]
    fn of_equal_ones_the_first_is_taken_and_another_one_when_it_gains_enough() {
        let line = "10.0.0.0/8 B|D";
        let node = |found: &[Exits]| at(&found[0].best, 30).unwrap().node.to_string();
        // By B 1/2 * (20 + b) + 29 * b, by D 1/2 * (10 + d) + 29 * d.
        let mut before = exits(line, &[("B", 40), ("D", 50)], &[]);
        assert_eq!(text(&before)[0], "1 B by ");
        for (b, d, taken) in [
            (40, 48, "B"),
            (44, 44, "B"),
            (44, 40, "B"),
            (46, 36, "D"),
            (40, 40, "D"),
            (36, 40, "D"),
            (30, 40, "B"),
        ] {
            before = exits(line, &[("B", b), ("D", d)], &before);
            assert_eq!(node(&before), taken, "{b} {d}");
        }
        let gone = exits(line, &[("D", 40)], &before);
        assert_eq!(node(&gone), "D");
    }

    #[test]
    fn the_measured_node_is_tried_first_then_the_others_as_they_are_named() {
        let egresses = Egresses::parse("10.0.0.0/8 C|B|D").unwrap();
        let line = egresses.iter().next().unwrap();
        let order = |exit: Option<&Exit>| -> String {
            let names: Vec<&str> = in_order(line, exit).into_iter().map(Name::as_str).collect();
            names.join(" ")
        };
        let exit = |node: &str| Exit {
            rounds: 1,
            node: name(node),
            through: Vec::new(),
        };
        assert_eq!(order(None), "C B D");
        assert_eq!(order(Some(&exit("D"))), "D C B");
        assert_eq!(order(Some(&exit("gone"))), "C B D");
    }
}
