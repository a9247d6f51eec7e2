//! Counters for Prometheus. Every label has a bounded set of values: listeners, paths and outcomes.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry, Unit};

use super::PathLine;
use crate::kernel::netstat::MptcpCounters;
use tributary_sys::Multipath;

/// The outcome of a request or connection that both sides ended in an orderly way.
pub const OK: &str = "ok";

/// Counters by one label, or by two.
type By<V, const N: usize = 1> = Family<[(&'static str, V); N], Counter>;

#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    accepted: By<String>,
    outcomes: By<String, 2>,
    bytes: By<String, 2>,
    sessions: Counter,
    /// Client connections without MPTCP that ended.
    pub plain_tcp: Counter,
    subflows: By<String>,
    joins: Counter,
    fallbacks: Counter,
    bytes_retransmitted: Counter,
    path_bytes: By<String, 2>,
    path_retransmissions: By<String>,
    /// What those of paths come to for each label, found once.
    paths: Mutex<HashMap<String, PathMetrics>>,
    offloaded: Counter,
    not_offloaded: By<&'static str>,
    /// Field lines that were left out of responses.
    pub malformed_fields: Counter,
    pub accept_pauses: Counter,
    early_syns: EarlySyns,
    early_waiting: Gauge,
    /// Requests that went to a connection which had served one before.
    pub reused_upstreams: Counter,
    /// Seconds from the client's request to the connection to its server.
    pub dial_seconds: Histogram,
    open: Gauge,
    buffered: Gauge,
    log_lines_dropped: Gauge<u64, AtomicU64>,
    handoff_requests: By<&'static str>,
    handoff_failures: By<&'static str>,
    handoff: FrontGauges,
    kernel: KernelCounters,
}

fn add<M: Metric + Clone + Default>(r: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    r.register(name, help, metric.clone());
    metric
}

/// The same of something that is measured in this unit.
fn measured<M: Metric + Clone>(r: &mut Registry, name: &str, unit: Unit, help: &str, of: M) -> M {
    r.register_with_unit(name, help, unit, of.clone());
    of
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("tributary_converter");
        let r = &mut registry;
        let seconds = Histogram::new([0.0001, 0.001, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0]);
        Self {
            accepted: add(r, "connections", "Client connections accepted"),
            outcomes: add(r, "outcomes", "How requests and connections ended"),
            bytes: measured(r, "relayed", Unit::Bytes, "Bytes relayed", By::default()),
            sessions: add(r, "mptcp_sessions", "Client connections with MPTCP that ended"),
            plain_tcp: add(r, "plain_tcp_sessions", "Client connections without MPTCP that ended"),
            subflows: add(r, "mptcp_subflows", "Subflows of ended sessions"),
            joins: add(r, "mptcp_joins", "Subflows of ended sessions beyond the first"),
            fallbacks: add(r, "mptcp_fallbacks", "Sessions that fell back to TCP"),
            bytes_retransmitted: measured(
                r,
                "mptcp_retransmitted",
                Unit::Bytes,
                "Bytes sent again on another subflow",
                Counter::default(),
            ),
            path_bytes: measured(
                r,
                "path",
                Unit::Bytes,
                "Bytes of ended sessions, by path",
                By::default(),
            ),
            path_retransmissions: add(r, "path_retransmissions", "Segments sent again, by path"),
            paths: Mutex::default(),
            offloaded: add(r, "offloaded", "Client connections that were offloaded to the kernel"),
            not_offloaded: add(
                r,
                "not_offloaded",
                "Client connections that were not offloaded to the kernel, by reason",
            ),
            malformed_fields: add(
                r,
                "malformed_fields",
                "Malformed field lines that were left out of servers' responses",
            ),
            accept_pauses: add(
                r,
                "accept_pauses",
                "Times that accepting paused, out of descriptors or memory",
            ),
            early_syns: EarlySyns::add(r),
            early_waiting: add(r, "early_waiting", "Early connections that wait for their client"),
            reused_upstreams: add(r, "reused_upstreams", "Requests on used connections"),
            dial_seconds: measured(
                r,
                "dial",
                Unit::Seconds,
                "From a request to the connection to its server",
                seconds,
            ),
            open: add(r, "open_connections", "Client connections that are open"),
            buffered: measured(r, "buffered", Unit::Bytes, "Held for slow readers", Gauge::default()),
            log_lines_dropped: add(r, "log_lines_dropped", "Lines of the access log that were lost"),
            handoff_requests: add(
                r,
                "handoff_requests",
                "Requests at listeners of kind handoff, by how they were answered",
            ),
            handoff_failures: add(
                r,
                "handoff_failures",
                "Requests that were to be handed over and were relayed, by reason",
            ),
            handoff: FrontGauges::add(r),
            kernel: KernelCounters::add(r),
            registry,
        }
    }
}

/// Counts SYNs at listeners with `early_syn`, and what became of what was begun for them.
#[derive(Clone, Debug, Default)]
pub struct EarlySyns {
    by_outcome: By<&'static str>,
    abandoned: Counter,
}

impl EarlySyns {
    fn add(r: &mut Registry) -> Self {
        Self {
            by_outcome: add(r, "early_syns", "SYNs at listeners with early_syn, by outcome"),
            abandoned: add(r, "early_abandoned", "Early connections whose client did not come"),
        }
    }

    /// Counts SYNs: `started`, or why no connection was started.
    pub fn count(&self, outcome: &'static str, count: usize) {
        self.by_outcome
            .get_or_create(&[("outcome", outcome)])
            .inc_by(count as u64);
    }

    /// Counts connections that were abandoned because their client did not come.
    pub fn abandoned(&self, count: usize) {
        self.abandoned.inc_by(count as u64);
    }
}

/// What the kernel counts in this network namespace, as it was at the last scrape.
#[derive(Debug)]
struct KernelCounters {
    dss_not_matching: Counter,
    data_checksum_errors: Counter,
    retransmissions: Counter,
}

impl KernelCounters {
    fn add(r: &mut Registry) -> Self {
        Self {
            dss_not_matching: add(
                r,
                "kernel_mptcp_dss_not_matching",
                "Mappings that did not fit, by the kernel's count for the network namespace (DSSNotMatching)",
            ),
            data_checksum_errors: add(
                r,
                "kernel_mptcp_data_checksum_errors",
                "Data with a wrong checksum of MPTCP, by the kernel's count for the network namespace (DataCsumErr)",
            ),
            retransmissions: add(
                r,
                "kernel_mptcp_retransmissions",
                "Times that MPTCP sent data again, by the kernel's count for the network namespace (MPTCPRetrans)",
            ),
        }
    }

    /// The kernel has counted before the process began, so that its numbers are taken as they are.
    fn set(&self, now: &MptcpCounters) {
        for (counter, number) in [
            (&self.dss_not_matching, now.dss_not_matching),
            (&self.data_checksum_errors, now.data_checksum_errors),
            (&self.retransmissions, now.retransmissions),
        ] {
            counter.inner().store(number, Ordering::Relaxed);
        }
    }
}

/// How a request at a listener of kind `handoff` was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandoffDecision {
    /// By a back end that had the client's connection.
    HandedOver,
    /// By this converter, since it was expected to be small.
    Small,
    /// By this converter, for any other reason.
    Relayed,
}

impl HandoffDecision {
    fn name(self) -> &'static str {
        match self {
            Self::HandedOver => "handed-over",
            Self::Small => "small",
            Self::Relayed => "relayed",
        }
    }
}

/// What is measured at the moment of a scrape.
#[derive(Clone, Default)]
pub struct Gauges {
    pub open: usize,
    pub buffered: usize,
    pub log_lines_dropped: u64,
    /// Early connections that wait for their client.
    pub early_waiting: usize,
    /// The settings of the front, which count its sessions.
    pub handoff: Option<Arc<handoff_front::Settings>>,
    pub kernel: MptcpCounters,
}

/// A value for each back end.
type ByBackEnd = Family<[(&'static str, String); 1], Gauge>;

/// What a front knows of its switch and back ends; empty without one.
#[derive(Debug)]
struct FrontGauges {
    switch_up: Family<[(&'static str, &'static str); 0], Gauge>,
    up: ByBackEnd,
    connections: ByBackEnd,
}

impl FrontGauges {
    fn add(r: &mut Registry) -> Self {
        Self {
            switch_up: add(
                r,
                "handoff_switch_up",
                "Whether the front has a session with the switch",
            ),
            up: add(
                r,
                "handoff_back_end_up",
                "Whether a back end takes connections of the front",
            ),
            connections: add(
                r,
                "handoff_back_end_connections",
                "Connections of the front at a back end",
            ),
        }
    }

    /// A back end that is not in the settings any more is gone.
    fn set(&self, front: Option<&handoff_front::Settings>) {
        self.switch_up.clear();
        self.up.clear();
        self.connections.clear();
        let Some(front) = front else { return };
        let switch_up = front.switch_sessions.any();
        self.switch_up.get_or_create(&[]).set(switch_up.into());
        for each in &front.back_ends {
            let name = [("name", each.name.clone())];
            self.up.get_or_create(&name).set(each.sessions.any().into());
            let connections = each.connections.load(Ordering::Relaxed);
            let connections = i64::try_from(connections).unwrap_or(i64::MAX);
            self.connections.get_or_create(&name).set(connections);
        }
    }
}

/// The counters of one listener, found once and then used without a look-up.
#[derive(Clone, Debug)]
pub struct ListenerMetrics {
    listener: String,
    outcomes: By<String, 2>,
    /// The most frequent outcome.
    whole: Counter,
    pub accepted: Counter,
    pub up: Counter,
    pub down: Counter,
}

impl ListenerMetrics {
    /// A connection or request ended like this, and moved so many bytes to the server and to the client.
    pub fn ended(&self, outcome: &str, up: u64, down: u64) {
        self.outcome(outcome);
        self.up.inc_by(up);
        self.down.inc_by(down);
    }

    /// One more connection or request ended like this.
    pub fn outcome(&self, outcome: &str) {
        if outcome == OK {
            self.whole.inc();
            return;
        }
        let labels = [("listener", self.listener.clone()), ("outcome", outcome.to_owned())];
        self.outcomes.get_or_create(&labels).inc();
    }
}

/// The counters of one path.
#[derive(Debug)]
struct PathMetrics {
    subflows: Counter,
    up: Counter,
    down: Counter,
    retransmissions: Counter,
}

impl Metrics {
    /// One more client connection was offloaded to the kernel, or was not for this reason.
    pub fn count_offload(&self, refusal: Option<&'static str>) {
        match refusal {
            None => self.offloaded.inc(),
            Some(reason) => self.not_offloaded.get_or_create(&[("reason", reason)]).inc(),
        };
    }

    /// Counts a request at a listener of kind `handoff`.
    pub fn count_handoff(&self, decision: HandoffDecision) {
        let labels = [("decision", decision.name())];
        self.handoff_requests.get_or_create(&labels).inc();
    }

    /// Counts a request at a listener of kind `handoff` that could not be handed over.
    pub fn count_handoff_failure(&self, reason: &'static str) {
        self.handoff_failures.get_or_create(&[("reason", reason)]).inc();
    }

    /// The counters of early SYN forwarding.
    pub fn early_syns(&self) -> EarlySyns {
        self.early_syns.clone()
    }

    /// The counters of the listener with this name.
    pub fn for_listener(&self, listener: &str) -> Arc<ListenerMetrics> {
        // What get_or_create returns holds a lock on its family, so that each has a statement of its own.
        let own = || ("listener", listener.to_owned());
        let accepted = self.accepted.get_or_create(&[own()]).clone();
        let direction = |name: &str| [own(), ("direction", name.to_owned())];
        let up = self.bytes.get_or_create(&direction("up")).clone();
        let down = self.bytes.get_or_create(&direction("down")).clone();
        let labels = [own(), ("outcome", OK.to_owned())];
        let whole = self.outcomes.get_or_create(&labels).clone();
        Arc::new(ListenerMetrics {
            listener: listener.to_owned(),
            outcomes: self.outcomes.clone(),
            whole,
            accepted,
            up,
            down,
        })
    }

    pub fn add_session(&self, multipath: &Multipath) {
        self.sessions.inc();
        self.joins.inc_by(multipath.subflows.len().saturating_sub(1) as u64);
        self.fallbacks.inc_by(u64::from(multipath.fallback));
        self.bytes_retransmitted.inc_by(multipath.bytes_retransmitted);
    }

    pub fn add_path(&self, line: &PathLine) {
        let mut known = self.paths.lock();
        if !known.contains_key(&line.path) {
            known.insert(line.path.clone(), self.for_path(&line.path));
        }
        let path = &known[&line.path];
        path.subflows.inc();
        path.up.inc_by(line.up_bytes);
        path.down.inc_by(line.down_bytes);
        path.retransmissions.inc_by(u64::from(line.retransmissions));
    }

    fn for_path(&self, path: &str) -> PathMetrics {
        let own = || ("path", path.to_owned());
        let bytes = |direction: &str| {
            let labels = [own(), ("direction", direction.to_owned())];
            self.path_bytes.get_or_create(&labels).clone()
        };
        PathMetrics {
            subflows: self.subflows.get_or_create(&[own()]).clone(),
            up: bytes("up"),
            down: bytes("down"),
            retransmissions: self.path_retransmissions.get_or_create(&[own()]).clone(),
        }
    }

    /// The whole exposition, in the `OpenMetrics` text format.
    pub fn exposition(&self, gauges: &Gauges) -> String {
        let signed = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.open.set(signed(gauges.open));
        self.buffered.set(signed(gauges.buffered));
        self.early_waiting.set(signed(gauges.early_waiting));
        self.log_lines_dropped.set(gauges.log_lines_dropped);
        self.handoff.set(gauges.handoff.as_deref());
        self.kernel.set(&gauges.kernel);
        let mut exposition = String::new();
        // A String takes everything.
        let _ = text::encode(&mut exposition, &self.registry);
        exposition
    }
}
