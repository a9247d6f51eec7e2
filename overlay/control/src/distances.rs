//! The distances between nodes and to servers: measured delays, plus a penalty for loaded nodes.

use std::collections::BTreeMap;

use overlay_paths::Graph;

use crate::egresses::Egress;
use crate::health::{Health, Pressure};
use crate::name::Name;
use crate::schema::{Delay, Delays};
use crate::snapshot::Snapshot;

/// Agents do not publish changes below 2 ms: a detour that gains no more is noise. With delays in steps of the same size,
/// near nodes have no detours, and noise does not change the chains of others.
const STEP_US: u32 = 2000;

/// The penalty in milliseconds from each processor pressure (percent) on.
///
/// Tasks that wait for a processor wait for some milliseconds: a busy node is worth a small detour, an overloaded one a
/// large detour.
const PENALTY_MS: [(u8, u128); 4] = [(20, 2), (40, 6), (60, 20), (80, 60)];

/// The distance from a node to the servers of a line: the measured delay plus the node's penalty, in whole steps.
pub(crate) fn to_servers(snapshot: &Snapshot, line: &Egress, node: &Name) -> Option<Delay> {
    let measured = *snapshot.servers.get(node)?.round_trip_us.get(&line.to)?;
    let pressure = snapshot
        .health
        .get(node)
        .map(|health| health.pressure_percent);
    let more = pressure.map_or(0, added_ms) * 1000;
    let whole = Delay::of_microseconds(u128::from(measured.microseconds()) + more);
    Some(Delay::of_microseconds(stepped(whole).into()))
}

/// The measured delays plus the penalties of both ends of each link.
pub fn penalised(
    delays: &BTreeMap<Name, Delays>,
    health: &BTreeMap<Name, Health>,
) -> BTreeMap<Name, Delays> {
    let added = |node: &Name| {
        health
            .get(node)
            .map_or(0, |of| added_ms(of.pressure_percent))
    };
    let mut penalised = delays.clone();
    for (owner, measured) in &mut penalised {
        for (peer, delay) in &mut measured.round_trip_us {
            let more = (added(owner) + added(peer)) * 1000;
            *delay = Delay::of_microseconds(u128::from(delay.microseconds()) + more);
        }
    }
    penalised
}

fn added_ms(pressure: Pressure) -> u128 {
    let reached = |step: &&(u8, u128)| step.0 <= pressure.percent();
    PENALTY_MS.iter().rfind(reached).map_or(0, |step| step.1)
}

/// The graph of these nodes. Where both ends measured a link, the longer delay counts: it is slow as soon as one of them
/// says so.
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
