//! How far nodes are from each other and from servers: what they measured, and what the pressure on them adds.

use std::collections::BTreeMap;

use overlay_paths::Graph;

use crate::egresses::Egress;
use crate::health::{Health, Pressure};
use crate::name::Name;
use crate::snapshot::Snapshot;
use crate::values::{Delay, Delays};

/// Agents keep to themselves what changes by less than 2 ms: a detour that gains no more is noise. With delays in whole
/// steps of as much, nodes that are next to each other have no detours, and a little noise no say in the others'.
const STEP_US: u32 = 2000;

/// So much farther is a node from all others, in milliseconds, from this pressure on its processors on.
///
/// What waits for a processor waits for a few milliseconds: a busy node is worth a little detour, one that hardly gets on a
/// large one.
const FARTHER_MS: [(u8, u128); 4] = [(20, 2), (40, 6), (60, 20), (80, 60)];

/// How far the servers of a line are from a node: what it measured, as much more as the pressure on it adds, in whole steps.
pub(crate) fn to_servers(taken: &Snapshot, line: &Egress, node: &Name) -> Option<Delay> {
    let measured = *taken.servers.get(node)?.round_trip_us.get(&line.to)?;
    let pressure = taken.health.get(node).map(|health| health.pressure_percent);
    let more = pressure.map_or(0, added_ms) * 1000;
    let whole = Delay::of_microseconds(u128::from(measured.microseconds()) + more);
    Some(Delay::of_microseconds(stepped(whole).into()))
}

/// What nodes measured, and as much more on each link as the pressure on both of its ends adds.
pub fn farther(
    delays: &BTreeMap<Name, Delays>,
    health: &BTreeMap<Name, Health>,
) -> BTreeMap<Name, Delays> {
    let added = |node: &Name| {
        health
            .get(node)
            .map_or(0, |of| added_ms(of.pressure_percent))
    };
    let mut farther = delays.clone();
    for (owner, measured) in &mut farther {
        for (peer, delay) in &mut measured.round_trip_us {
            let more = (added(owner) + added(peer)) * 1000;
            *delay = Delay::of_microseconds(u128::from(delay.microseconds()) + more);
        }
    }
    farther
}

fn added_ms(pressure: Pressure) -> u128 {
    let reached = |step: &&(u8, u128)| step.0 <= pressure.percent();
    FARTHER_MS.iter().rfind(reached).map_or(0, |step| step.1)
}

/// The round-trip times between these nodes. Where both ends measured, the longer one is taken: a link that
/// became slow is slow as soon as one of them says so.
pub(crate) fn graph(nodes: &[Name], delays: &BTreeMap<Name, Delays>) -> Graph {
    let mut graph = Graph::new(nodes.iter().map(Name::to_string).collect());
    let places: BTreeMap<&Name, u16> = nodes.iter().zip(0..).collect();
    for (owner, measured) in delays {
        let Some(&from) = places.get(owner) else {
            continue;
        };
        for (peer, delay) in &measured.round_trip_us {
            if let Some(&to) = places.get(peer).filter(|&&to| to != from) {
                let other = graph.delay(from, to).unwrap_or(0);
                graph.set(from, to, Some(other.max(stepped(*delay))));
            }
        }
    }
    graph
}

fn stepped(delay: Delay) -> u32 {
    delay.microseconds().div_ceil(STEP_US) * STEP_US
}
