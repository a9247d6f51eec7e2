//! Counters of listeners of kind `handoff`.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// How a request was answered.
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

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByDecision {
    decision: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByReason {
    reason: &'static str,
}

/// Counts the requests of `handoff` listeners.
#[derive(Clone, Debug, Default)]
pub struct HandoffCounters {
    requests: Family<ByDecision, Counter>,
    failures: Family<ByReason, Counter>,
}

impl HandoffCounters {
    /// Registers the counters.
    pub fn register(&self, r: &mut Registry) {
        r.register(
            "handoff_requests",
            "Requests at listeners of kind handoff, by how they were answered",
            self.requests.clone(),
        );
        r.register(
            "handoff_failures",
            "Requests that were to be handed over and were relayed, by reason",
            self.failures.clone(),
        );
    }

    /// Counts a request.
    pub fn count(&self, decision: HandoffDecision) {
        let decision = decision.name();
        self.requests.get_or_create(&ByDecision { decision }).inc();
    }

    /// Counts a request that could not be handed over.
    pub fn failed(&self, reason: &'static str) {
        self.failures.get_or_create(&ByReason { reason }).inc();
    }
}
