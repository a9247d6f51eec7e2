//! Counters for Prometheus. Every label has a bounded set of values: listeners, paths and outcomes.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::accounting::handoff_counters::HandoffCounters;
use crate::accounting::kernel_counters::KernelCounters;
use crate::accounting::line::PathLine;
use crate::kernel::multipath::Multipath;
use crate::kernel::netstat::MptcpCounters;

/// The outcome of a request or connection that both sides ended in an orderly way.
pub const OK: &str = "ok";

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByListener {
    listener: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByOutcome {
    listener: String,
    outcome: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct BySynOutcome {
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByReason {
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByDirection {
    listener: String,
    direction: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByPath {
    path: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByPathDirection {
    path: String,
    direction: &'static str,
}

/// All counters of the process.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    accepted: Family<ByListener, Counter>,
    outcomes: Family<ByOutcome, Counter>,
    bytes: Family<ByDirection, Counter>,
    subflows: Family<ByPath, Counter>,
    path_bytes: Family<ByPathDirection, Counter>,
    path_retransmissions: Family<ByPath, Counter>,
    /// Client connections with MPTCP that ended.
    pub sessions: Counter,
    /// Client connections without MPTCP that ended.
    pub plain_tcp: Counter,
    joins: Counter,
    fallbacks: Counter,
    bytes_retransmitted: Counter,
    /// Times that accepting had to pause.
    pub accept_pauses: Counter,
    offloaded: Counter,
    not_offloaded: Family<ByReason, Counter>,
    /// Field lines that were left out of responses.
    pub malformed_fields: Counter,
    early_syns: EarlySyns,
    early_waiting: Gauge,
    /// Seconds from the client's request to the connection to its server.
    pub dial_seconds: Histogram,
    open: Gauge,
    buffered: Gauge,
    log_lines_dropped: Gauge<u64, AtomicU64>,
    /// Requests at listeners of kind `handoff`.
    pub handoff: HandoffCounters,
    kernel: KernelCounters,
}

/// Counts SYNs at listeners with `early_syn`, and what became of what was begun for them.
#[derive(Clone, Debug, Default)]
pub struct EarlySyns {
    by_outcome: Family<BySynOutcome, Counter>,
    abandoned: Counter,
}

impl EarlySyns {
    fn register(&self, r: &mut Registry) {
        r.register(
            "early_syns",
            "SYNs at listeners with early_syn, by outcome",
            self.by_outcome.clone(),
        );
        r.register(
            "early_abandoned",
            "EarlyConnects connections whose client did not come",
            self.abandoned.clone(),
        );
    }

    /// Counts a SYN: `started`, or why no connection was started.
    pub fn count(&self, outcome: &'static str) {
        self.by_outcome
            .get_or_create(&BySynOutcome { outcome })
            .inc();
    }

    /// Counts SYNs that were ignored because there is a flood of them; the kernel dropped others.
    pub fn flooded(&self, count: usize) {
        let outcome = "flood";
        self.by_outcome
            .get_or_create(&BySynOutcome { outcome })
            .inc_by(count as u64);
    }

    /// Counts connections that were abandoned because their client did not come.
    pub fn abandoned(&self, count: usize) {
        self.abandoned.inc_by(count as u64);
    }
}

/// What is measured at the moment of a scrape.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gauges {
    /// Client connections that are open.
    pub open: usize,
    /// Bytes that wait for a peer.
    pub buffered: usize,
    /// Lines of the access log that were lost.
    pub log_lines_dropped: u64,
    /// Early connections that wait for their client.
    pub early_waiting: usize,
    /// The kernel's counters.
    pub kernel: MptcpCounters,
}

/// The counters of one listener, found once and then used without a look-up.
#[derive(Clone, Debug)]
pub struct ListenerMetrics {
    listener: String,
    outcomes: Family<ByOutcome, Counter>,
    /// The most frequent outcome.
    whole: Counter,
    /// Connections accepted.
    pub accepted: Counter,
    /// Bytes to servers.
    pub up: Counter,
    /// Bytes to clients.
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
        let labels = ByOutcome {
            listener: self.listener.clone(),
            outcome: outcome.to_owned(),
        };
        self.outcomes.get_or_create(&labels).inc();
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("tributary_converter"),
            accepted: Family::default(),
            outcomes: Family::default(),
            bytes: Family::default(),
            subflows: Family::default(),
            path_bytes: Family::default(),
            path_retransmissions: Family::default(),
            sessions: Counter::default(),
            plain_tcp: Counter::default(),
            joins: Counter::default(),
            fallbacks: Counter::default(),
            bytes_retransmitted: Counter::default(),
            accept_pauses: Counter::default(),
            offloaded: Counter::default(),
            malformed_fields: Counter::default(),
            not_offloaded: Family::default(),
            early_syns: EarlySyns::default(),
            early_waiting: Gauge::default(),
            dial_seconds: Histogram::new([0.0001, 0.001, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0]),
            open: Gauge::default(),
            buffered: Gauge::default(),
            log_lines_dropped: Gauge::default(),
            handoff: HandoffCounters::default(),
            kernel: KernelCounters::default(),
        };
        metrics.register();
        metrics
    }
}

impl Metrics {
    fn register(&mut self) {
        self.register_clients();
        self.register_process();
        self.handoff.register(&mut self.registry);
        self.kernel.register(&mut self.registry);
    }

    /// One more client connection was offloaded to the kernel, or was not for this reason.
    pub fn count_offload(&self, refusal: Option<&'static str>) {
        match refusal {
            None => self.offloaded.inc(),
            Some(reason) => self.not_offloaded.get_or_create(&ByReason { reason }).inc(),
        };
    }

    fn register_clients(&mut self) {
        let r = &mut self.registry;
        r.register(
            "connections",
            "Client connections accepted",
            self.accepted.clone(),
        );
        r.register(
            "outcomes",
            "How requests and connections ended",
            self.outcomes.clone(),
        );
        r.register_with_unit("relayed", "Bytes relayed", Unit::Bytes, self.bytes.clone());
        r.register(
            "mptcp_sessions",
            "Client connections with MPTCP that ended",
            self.sessions.clone(),
        );
        r.register(
            "plain_tcp_sessions",
            "Client connections without MPTCP that ended",
            self.plain_tcp.clone(),
        );
        r.register(
            "mptcp_subflows",
            "Subflows of ended sessions",
            self.subflows.clone(),
        );
        r.register(
            "mptcp_joins",
            "Subflows of ended sessions beyond the first",
            self.joins.clone(),
        );
        r.register(
            "mptcp_fallbacks",
            "Sessions that fell back to TCP",
            self.fallbacks.clone(),
        );
        let again = "Bytes sent again on another subflow";
        r.register_with_unit(
            "mptcp_retransmitted",
            again,
            Unit::Bytes,
            self.bytes_retransmitted.clone(),
        );
        r.register_with_unit(
            "path",
            "Bytes of ended sessions, by path",
            Unit::Bytes,
            self.path_bytes.clone(),
        );
        r.register(
            "path_retransmissions",
            "Segments sent again, by path",
            self.path_retransmissions.clone(),
        );
        r.register(
            "offloaded",
            "Client connections that were offloaded to the kernel",
            self.offloaded.clone(),
        );
        r.register(
            "not_offloaded",
            "Client connections that were not offloaded to the kernel, by reason",
            self.not_offloaded.clone(),
        );
        r.register(
            "malformed_fields",
            "Malformed field lines that were left out of servers' responses",
            self.malformed_fields.clone(),
        );
    }

    fn register_process(&mut self) {
        let r = &mut self.registry;
        r.register(
            "accept_pauses",
            "Times that accepting paused, out of descriptors or memory",
            self.accept_pauses.clone(),
        );
        self.early_syns.register(r);
        r.register(
            "early_waiting",
            "Early connections that wait for their client",
            self.early_waiting.clone(),
        );
        r.register_with_unit(
            "dial",
            "From a request to the connection to its server",
            Unit::Seconds,
            self.dial_seconds.clone(),
        );
        r.register(
            "open_connections",
            "Client connections that are open",
            self.open.clone(),
        );
        r.register_with_unit(
            "buffered",
            "Held for slow readers",
            Unit::Bytes,
            self.buffered.clone(),
        );
        r.register(
            "log_lines_dropped",
            "Lines of the access log that were lost",
            self.log_lines_dropped.clone(),
        );
    }

    /// The counters of early SYN forwarding.
    pub fn early_syns(&self) -> EarlySyns {
        self.early_syns.clone()
    }

    /// The counters of the listener with this name.
    pub fn for_listener(&self, listener: &str) -> Arc<ListenerMetrics> {
        // What get_or_create returns holds a lock on its family, so that each has a statement of its own.
        let accepted = self
            .accepted
            .get_or_create(&ByListener {
                listener: listener.to_owned(),
            })
            .clone();
        let direction = |direction| ByDirection {
            listener: listener.to_owned(),
            direction,
        };
        let up = self.bytes.get_or_create(&direction("up")).clone();
        let down = self.bytes.get_or_create(&direction("down")).clone();
        let labels = ByOutcome {
            listener: listener.to_owned(),
            outcome: OK.to_owned(),
        };
        let whole = self.outcomes.get_or_create(&labels).clone();
        let (listener, outcomes) = (listener.to_owned(), self.outcomes.clone());
        Arc::new(ListenerMetrics {
            listener,
            outcomes,
            whole,
            accepted,
            up,
            down,
        })
    }

    /// An MPTCP session ended.
    pub fn add_session(&self, multipath: &Multipath) {
        self.sessions.inc();
        self.joins
            .inc_by(multipath.subflows.len().saturating_sub(1) as u64);
        self.fallbacks.inc_by(u64::from(multipath.fallback));
        self.bytes_retransmitted
            .inc_by(multipath.bytes_retransmitted);
    }

    /// One of its subflows.
    pub fn add_path(&self, line: &PathLine) {
        let path = || line.path.clone();
        let direction = |direction| ByPathDirection {
            path: path(),
            direction,
        };
        self.subflows.get_or_create(&ByPath { path: path() }).inc();
        self.path_bytes
            .get_or_create(&direction("up"))
            .inc_by(line.up_bytes);
        self.path_bytes
            .get_or_create(&direction("down"))
            .inc_by(line.down_bytes);
        let retransmissions = u64::from(line.retransmissions);
        self.path_retransmissions
            .get_or_create(&ByPath { path: path() })
            .inc_by(retransmissions);
    }

    /// The whole exposition, in the `OpenMetrics` text format.
    pub fn exposition(&self, gauges: Gauges) -> String {
        let signed = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.open.set(signed(gauges.open));
        self.buffered.set(signed(gauges.buffered));
        self.early_waiting.set(signed(gauges.early_waiting));
        self.log_lines_dropped.set(gauges.log_lines_dropped);
        self.kernel.set(&gauges.kernel);
        let mut exposition = String::new();
        // A String takes everything.
        let _ = text::encode(&mut exposition, &self.registry);
        exposition
    }
}
