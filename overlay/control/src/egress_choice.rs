//! The choice of an egress among several candidates for the same servers, by measured delays: the controller's decision,
//! and how an ingress applies it.

use overlay_paths::{MAX_ROUNDS, Rounds};

use crate::egresses::{Egress, Egresses};
use crate::mesh::{Best, Mesh};
use crate::name::Name;
use crate::schema::{Delay, EgressChoice, EgressChoices};
use crate::threshold::Threshold;

/// A candidate egress, and the time of transfers through it.
struct Candidate<'a> {
    node: &'a Name,
    best: Best,
    /// Of a transfer, in microseconds, including the hop from the node to the servers.
    time: f64,
}

/// Chooses the egresses of an ingress for each of its lines that name several nodes, in the order of the lines. Lines that
/// no candidate has measured are left out.
///
/// `to_servers` returns the delay from a node to the servers of a line; `before` is the previous choice.
pub fn choose(
    ingress: &Name,
    egresses: &Egresses,
    mesh: &Mesh,
    to_servers: impl Fn(&Egress, &Name) -> Option<Delay>,
    before: &[EgressChoices],
) -> Vec<EgressChoices> {
    let several = egresses.iter().filter(|line| !line.others.is_empty());
    let found = several.filter_map(|line| {
        let key = (line.to, line.port);
        let before = before.iter().find(|each| (each.to, each.port) == key);
        let measured: Vec<(&Name, u32)> = line
            .candidates()
            .filter_map(|node| Some((node, to_servers(line, node)?.microseconds())))
            .collect();
        let best = best(ingress, &measured, mesh, before.map_or(&[], |each| &each.best));
        (!best.is_empty()).then_some(EgressChoices {
            to: line.to,
            port: line.port,
            best,
        })
    });
    found.collect()
}

fn best(ingress: &Name, measured: &[(&Name, u32)], mesh: &Mesh, before: &[EgressChoice]) -> Vec<EgressChoice> {
    let mut found: Vec<EgressChoice> = Vec::new();
    for rounds in (1..=MAX_ROUNDS).filter_map(Rounds::new) {
        let candidates = measured
            .iter()
            .filter_map(|&(node, last)| candidate(mesh, ingress, node, last, rounds));
        let candidates: Vec<Candidate> = candidates.collect();
        let Some(chosen) = chosen(&candidates, at(before, rounds.count())) else {
            return Vec::new();
        };
        let choice = EgressChoice {
            rounds: rounds.count(),
            node: chosen.node.clone(),
            through: mesh.through(ingress, chosen.node, &chosen.best),
        };
        let same = |last: &EgressChoice| (&last.node, &last.through) == (&choice.node, &choice.through);
        if !found.last().is_some_and(same) {
            found.push(choice);
        }
    }
    found
}

/// The best chain to `node`, if there is one. The servers are one hop of `last` microseconds further.
fn candidate<'a>(mesh: &Mesh, ingress: &Name, node: &'a Name, last: u32, rounds: Rounds) -> Option<Candidate<'a>> {
    let best = mesh.best_before(ingress, node, last, rounds)?;
    Some(Candidate {
        node,
        best,
        time: best.time(last, rounds),
    })
}

/// The time in microseconds of a transfer through `node`, which is `last` microseconds from the servers; None without a
/// chain to it.
pub fn time(mesh: &Mesh, ingress: &Name, node: &Name, last: u32, rounds: Rounds) -> Option<f64> {
    candidate(mesh, ingress, node, last, rounds).map(|candidate| candidate.time)
}

/// The candidate with the shortest time, of equal ones the first; but the previous one unless it is slower by
/// [`Threshold::DEFAULT`].
fn chosen<'a, 'b>(candidates: &'a [Candidate<'b>], before: Option<&EgressChoice>) -> Option<&'a Candidate<'b>> {
    let best = candidates.iter().min_by(|a, b| a.time.total_cmp(&b.time))?;
    let previous = candidates
        .iter()
        .find(|candidate| before.is_some_and(|before| before.node == *candidate.node));
    let stays = |previous: &&Candidate| {
        let Threshold { percent, least_us } = Threshold::DEFAULT;
        let gain = previous.time - best.time;
        gain <= f64::from(least_us) || gain * 100.0 <= previous.time * f64::from(percent)
    };
    Some(previous.filter(stays).unwrap_or(best))
}

/// The choice for so many rounds.
pub fn at(choices: &[EgressChoice], rounds: u8) -> Option<&EgressChoice> {
    choices.iter().rfind(|choice| choice.rounds <= rounds)
}

/// The nodes of a line in the order in which to try them: the measured choice, then the others as the line names them.
pub fn in_order<'a>(line: &'a Egress, choice: Option<&EgressChoice>) -> Vec<&'a Name> {
    let is_first = |node: &&Name| choice.is_some_and(|choice| choice.node == **node);
    let (mut nodes, others): (Vec<_>, Vec<_>) = line.candidates().partition(is_first);
    nodes.extend(others);
    nodes
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::estimates::Estimates;
    use crate::samples::{measured, ms, name, names, snapshot};

    fn mesh() -> Mesh {
        let snapshot = snapshot(names("A B C D"), measured(MESH));
        Mesh::of(&snapshot, &Estimates::new())
    }

    const MESH: &str = "A B 20\nA C 30\nB C 12\nA D 10\nD B 10";

    /// The choices of A for 10.0.0.0/8, with candidates so many milliseconds from the servers.
    fn choices(line: &str, servers: &[(&str, u128)], before: &[EgressChoices]) -> Vec<EgressChoices> {
        let egresses = Egresses::parse(line).unwrap();
        let far = servers.iter().map(|&(node, far)| (name(node), ms(far)));
        let far: BTreeMap<Name, Delay> = far.collect();
        let to_servers = |_: &Egress, node: &Name| far.get(node).copied();
        choose(&name("A"), &egresses, &mesh(), to_servers, before)
    }

    fn text(choices: &[EgressChoices]) -> Vec<String> {
        let each = choices.iter().flat_map(|line| &line.best).map(|choice| {
            let through: Vec<&str> = choice.through.iter().map(Name::as_str).collect();
            format!("{} {} by {}", choice.rounds, choice.node, through.join(" "))
        });
        each.collect()
    }

    #[test]
    fn the_last_leg_is_one_more_hop_in_the_model() {
        let line = "10.0.0.0/8 B|C";
        // By B: 1/2 * (20 + 30) + (r - 1) * 30. Its last hop is the longest, so that no detour pays. By C: 1/2 * (30 + 2),
        // the longest hop 30; from two rounds on via B and D, the longest hop 12.
        let found = choices(line, &[("B", 30), ("C", 2)], &[]);
        assert_eq!(text(&found), ["1 C by ", "2 C by D B"]);
        // 1/2 * (20 + 4) + (r - 1) * 10 via D; the last hop of C is longer.
        let found = choices(line, &[("B", 4), ("C", 2)], &[]);
        assert_eq!(text(&found), ["1 B by ", "2 B by D"]);
        let found = choices(line, &[("B", 30), ("C", 40)], &[]);
        assert_eq!(text(&found), ["1 B by "]);
    }

    #[test]
    fn who_measured_is_compared_with_whom_and_nobody_else() {
        let line = "10.0.0.0/8 B|C";
        assert_eq!(text(&choices(line, &[("C", 100)], &[])), ["1 C by "]);
        assert_eq!(choices(line, &[], &[]), []);
        assert_eq!(choices(line, &[("D", 1)], &[]), []);
        assert_eq!(choices("10.0.0.0/8 B|E", &[("E", 1)], &[]), []);
        assert_eq!(choices("10.0.0.0/8 B", &[("B", 1)], &[]), []);
    }

    #[test]
    fn an_ingress_that_is_nearest_itself_is_its_own_egress() {
        let line = "10.0.0.0/8 port 22 B|A";
        let found = choices(line, &[("B", 2), ("A", 10)], &[]);
        assert_eq!(text(&found), ["1 A by "]);
        assert_eq!(found[0].port.map(u16::from), Some(22));
        // 1/2 * 30 + (r - 1) * 30 beside 1/2 * (20 + 2) + (r - 1) * 10.
        let found = choices(line, &[("B", 2), ("A", 30)], &[]);
        assert_eq!(text(&found), ["1 B by ", "2 B by D"]);
    }

    #[test]
    fn of_equal_ones_the_first_is_taken_and_another_one_when_it_gains_enough() {
        let line = "10.0.0.0/8 B|D";
        let node = |found: &[EgressChoices]| at(&found[0].best, 30).unwrap().node.to_string();
        // By B 1/2 * (20 + b) + 29 * b, by D 1/2 * (10 + d) + 29 * d.
        let mut before = choices(line, &[("B", 40), ("D", 50)], &[]);
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
            before = choices(line, &[("B", b), ("D", d)], &before);
            assert_eq!(node(&before), taken, "{b} {d}");
        }
        let gone = choices(line, &[("D", 40)], &before);
        assert_eq!(node(&gone), "D");
    }

    #[test]
    fn the_measured_node_is_tried_first_then_the_others_as_they_are_named() {
        let egresses = Egresses::parse("10.0.0.0/8 C|B|D").unwrap();
        let line = egresses.iter().next().unwrap();
        let order = |choice: Option<&EgressChoice>| -> String {
            let names: Vec<&str> = in_order(line, choice).into_iter().map(Name::as_str).collect();
            names.join(" ")
        };
        let choice = |node: &str| EgressChoice {
            rounds: 1,
            node: name(node),
            through: Vec::new(),
        };
        assert_eq!(order(None), "C B D");
        assert_eq!(order(Some(&choice("D"))), "D C B");
        assert_eq!(order(Some(&choice("gone"))), "C B D");
    }
}
