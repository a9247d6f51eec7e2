//! Counters of listeners of kind `handoff`.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// How a request was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By a back end that had the client's connection.
    HandedOver,
    /// By way of this converter, since it was expected to be small.
    Small,
    /// By way of this converter, for any other reason.
    Relayed,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::HandedOver => "handed-over",
            Self::Small => "small",
            Self::Relayed => "relayed",
        }
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByWay {
    way: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByReason {
    why: &'static str,
}

/// Which way requests went.
#[derive(Clone, Debug, Default)]
pub struct HandoffCounters {
    requests: Family<ByWay, Counter>,
    stayed: Family<ByReason, Counter>,
}

impl HandoffCounters {
    /// To be exposed.
    pub fn register(&self, r: &mut Registry) {
        r.register(
            "handoff_requests",
            "Requests at listeners of kind handoff, by the way they went",
            self.requests.clone(),
        );
        r.register(
            "handoff_stayed",
            "Requests that were to be handed over and were relayed, by what was in the way",
            self.stayed.clone(),
        );
    }

    /// One more request went this way.
    pub fn count(&self, way: Way) {
        let way = way.name();
        self.requests.get_or_create(&ByWay { way }).inc();
    }

    /// One more that was to be handed over, and this was in the way.
    pub fn stayed(&self, why: &'static str) {
        self.stayed.get_or_create(&ByReason { why }).inc();
    }
}
