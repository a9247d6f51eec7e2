//! The distances between nodes and to servers: measured delays, plus a penalty for loaded nodes.

use std::collections::BTreeMap;

use overlay_paths::Graph;

use crate::egresses::Egress;
use crate::estimates::Estimates;
use crate::health::Health;
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
    let distance = distance(measured, penalty_ms(&snapshot.health, node));
    Some(Delay::of_microseconds(distance.into()))
}

/// The measured links of these nodes, and the estimated ones of pairs without a measurement.
pub(crate) fn graphs(nodes: &[Name], snapshot: &Snapshot, estimates: &Estimates) -> (Graph, Graph) {
    let guessed = estimates.iter().map(|((a, b), &delay)| (a, b, delay));
    (
        graph(nodes, measured(&snapshot.delays), &snapshot.health),
        graph(nodes, guessed, &snapshot.health),
    )
}

/// The node that measured, its peer, and the delay.
pub(crate) fn measured(delays: &BTreeMap<Name, Delays>) -> impl Iterator<Item = (&Name, &Name, Delay)> {
    delays.iter().flat_map(|(owner, own)| {
        let each = own.round_trip_us.iter();
        each.map(move |(peer, &delay)| (owner, peer, delay))
    })
}

/// The graph of these nodes by their delays, plus the penalties of both ends of each link. Where both ends measured a link,
/// the longer delay counts: it is slow as soon as one of them says so.
pub(crate) fn graph<'a>(
    nodes: &[Name],
    delays: impl Iterator<Item = (&'a Name, &'a Name, Delay)>,
    health: &BTreeMap<Name, Health>,
) -> Graph {
    let mut graph = Graph::new(nodes.iter().map(Name::to_string).collect());
    let places: BTreeMap<&Name, u16> = nodes.iter().zip(0..).collect();
    for (owner, peer, delay) in delays {
        let ends = places.get(owner).zip(places.get(peer));
        if let Some((&from, &to)) = ends.filter(|(from, to)| from != to) {
            let penalty_ms = penalty_ms(health, owner) + penalty_ms(health, peer);
            let other = graph.delay(from, to).unwrap_or(0);
            graph.set(from, to, Some(other.max(distance(delay, penalty_ms))));
        }
    }
    graph
}

fn penalty_ms(health: &BTreeMap<Name, Health>, node: &Name) -> u128 {
    let pressure = health.get(node).map_or(0, |health| health.pressure_percent.percent());
    let reached = |step: &&(u8, u128)| step.0 <= pressure;
    PENALTY_MS.iter().rfind(reached).map_or(0, |step| step.1)
}

/// In whole steps.
fn distance(delay: Delay, penalty_ms: u128) -> u32 {
    let whole = u128::from(delay.microseconds()) + penalty_ms * 1000;
    let whole = Delay::of_microseconds(whole).microseconds();
    whole.div_ceil(STEP_US) * STEP_US
}
