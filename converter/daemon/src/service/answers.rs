//! Answers to `status` and `top`, and to Prometheus.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

use tokio::task::{AbortHandle, spawn_local};

use super::control::{self, ListenerStatus, Status};
use super::exposition;
use super::run::Service;
use crate::accounting::metrics::Gauges;
use crate::kernel::netstat::MptcpCounters;
use crate::kernel::sockets;

/// How many connections a status shows.
const SHOWN: usize = 1000;

/// Connections of one kind that are answered at a time: those of two kinds take half of the reserved descriptors.
const AT_A_TIME: usize = 32;

/// Answers in progress, on other connections than clients'. When there are too many, the oldest is aborted: a peer that
/// connects and asks nothing blocks no other, and takes no descriptor from clients.
#[derive(Debug, Default)]
pub struct Answers(RefCell<VecDeque<AbortHandle>>);

impl Answers {
    fn begin(&self, answer: impl Future<Output = ()> + 'static) {
        let mut begun = self.0.borrow_mut();
        begun.retain(|each| !each.is_finished());
        if begun.len() == AT_A_TIME {
            if let Some(oldest) = begun.pop_front() {
                oldest.abort();
            }
        }
        begun.push_back(spawn_local(answer).abort_handle());
    }
}

impl Service {
    pub fn tell(
        &self,
        asked: Option<(tokio::net::UnixStream, tokio::net::unix::SocketAddr)>,
        draining: bool,
    ) {
        if let Some((stream, _)) = asked {
            let status = self.status(draining);
            self.answers[0].begin(async move { control::answer(stream, &status).await });
        }
    }

    pub fn expose(&self, stream: Option<tokio::net::TcpStream>) {
        if let Some(stream) = stream {
            let shared = Arc::clone(&self.shared);
            self.answers[1].begin(exposition::answer(stream, move || {
                shared.registry.metrics.exposition(Gauges {
                    open: shared.admission.open(),
                    buffered: shared.admission.buffered(),
                    log_lines_dropped: shared.registry.log.dropped(),
                    early_waiting: shared.early.waiting(),
                    kernel: MptcpCounters::now(),
                })
            }));
        }
    }

    fn status(&self, draining: bool) -> Status {
        let listeners = self.active.bound.iter().map(|bound| ListenerStatus {
            name: bound.label.to_string(),
            kind: bound.listen.kind.name().to_owned(),
            address: bound.listen.address,
            mptcp: sockets::is_mptcp(&bound.socket),
            accepted: bound.counters.accepted.get(),
            up_bytes: bound.counters.up.get(),
            down_bytes: bound.counters.down.get(),
        });
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_seconds: self.since.elapsed().as_secs_f64(),
            draining,
            open_connections: self.shared.admission.open(),
            most_connections: self.active.most,
            buffered_bytes: self.shared.admission.buffered(),
            log_lines_dropped: self.shared.registry.log.dropped(),
            kernel_mptcp: MptcpCounters::now(),
            listeners: listeners.collect(),
            connections: self.shared.registry.snapshot(SHOWN),
        }
    }
}
