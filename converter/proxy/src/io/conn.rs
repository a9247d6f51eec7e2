//! One client's connection: what belongs to it until its end, and the record of that.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use tokio::sync::watch;
use tokio::task::unconstrained;
use tributary_proto::http::{HeadLimits, Pseudonym};

use super::stream::{ResetOnDrop, wakes};
use crate::config::{Config, Listen};
use crate::early::EarlyConnects;
use crate::observe::metrics::{ListenerMetrics, Metrics};
use crate::observe::{ConnectionGuard, ConnectionRegistry, ConnectionStats, Line, PathLine, Summary, now};
use crate::offload::Offloader;
use crate::policy::admission::{Admission, ConnectionPermit};
use crate::policy::convert::Cookies;
use crate::policy::handoff::SizeEstimator;
use crate::policy::logins::WrongLogins;
use crate::policy::rate_limit::RateLimit;
use crate::upstream::{Dialer, FdPool, IdlePool, SystemFiles};
use tributary_sys::{Multipath, Subflow};

/// A listener as one thread serves it.
pub struct Listener {
    pub listen: Listen,
    pub counters: Arc<ListenerMetrics>,
    /// Its connections to servers that no client has at the moment.
    pub idle_pool: Rc<IdlePool>,
}

pub struct Shared {
    pub registry: Arc<ConnectionRegistry>,
    /// Limits of connections and memory.
    pub admission: Arc<Admission>,
    /// Wrong logins of late.
    pub wrong_logins: WrongLogins,
    /// Connections that were started by a SYN.
    pub early: Arc<EarlyConnects>,
    /// Present if any listener offloads connections to the kernel.
    pub offloader: Option<Arc<Offloader>>,
    /// Descriptors beyond two for each connection.
    pub fd_pool: FdPool,
    /// The system's files on names.
    pub system_files: Arc<SystemFiles>,
    /// For RFC 8803.
    pub cookies: Arc<Cookies>,
    /// This process' name in HTTP's Via.
    pub pseudonym: Option<Pseudonym>,
    /// The number of this process, in `pseudonym` and in Convert messages, which no other has.
    pub number: u64,
}

/// What all connections of one thread share.
pub struct WorkerContext {
    pub shared: Arc<Shared>,
    pub dialer: Dialer,
    /// For RFC 8803's errors (section 6.2.5 wants them limited).
    pub errors: RateLimit,
    /// For lines in the log about servers.
    pub warnings: RateLimit,
    /// For HTTP: bounds, and this process' name in Via.
    pub http: HeadLimits,
    /// Whether this process is about to end.
    pub draining: watch::Receiver<bool>,
    /// Whether another configuration has taken the place of this one.
    pub replaced: watch::Receiver<bool>,
    /// For listeners of kind `handoff`.
    pub handoff: Option<HandoffContext>,
}

impl WorkerContext {
    /// Whether this process is about to end.
    pub fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }

    /// Whether a connection that comes now would be served by other settings, or not at all.
    pub fn is_outdated(&self) -> bool {
        *self.draining.borrow() || *self.replaced.borrow()
    }

    /// Ready once it is.
    pub async fn outdated(&self) {
        let (mut draining, mut replaced) = (self.draining.clone(), self.replaced.clone());
        // Without a sender the thread has ended, and so has this.
        tokio::select! {
            _ = draining.wait_for(|draining| *draining) => {}
            _ = replaced.wait_for(|replaced| *replaced) => {}
        }
    }

    /// Ready once this process is about to end.
    pub fn draining(&self) -> impl Future<Output = ()> + use<> {
        let mut draining = self.draining.clone();
        async move {
            // Without its sender the thread has ended, and so has this.
            let _ = draining.wait_for(|draining| *draining).await;
        }
    }
}

/// Tells one task that this process is about to end, and asks about it only once.
pub struct DrainNotice<'a, F> {
    draining: Pin<&'a mut F>,
    /// Of the task that it wakes.
    waker: Option<Waker>,
}

impl<'a, F: Future<Output = ()>> DrainNotice<'a, F> {
    /// By what [`WorkerContext::draining`] returns.
    pub fn by(draining: Pin<&'a mut F>) -> Self {
        Self { draining, waker: None }
    }

    /// Ready once it is.
    pub fn poll(&mut self, cx: &mut Context<'_>, context: &WorkerContext) -> Poll<()> {
        if context.is_draining() {
            return Poll::Ready(());
        }
        if wakes(self.waker.as_ref(), cx) {
            return Poll::Pending;
        }
        self.waker = Some(cx.waker().clone());
        pin!(unconstrained(self.draining.as_mut())).poll(cx)
    }
}

/// What connections of listeners of kind `handoff` share.
#[derive(Clone)]
pub struct HandoffContext {
    /// To the back ends and the switch; each thread has its own.
    pub links: Rc<handoff_front::Links>,
    /// Estimates how large answers are; shared by all threads.
    pub estimator: Arc<SizeEstimator>,
}

/// One client's connection. Dropping it before its end resets it.
pub struct Conn {
    pub stream: ResetOnDrop,
    pub client: SocketAddr,
    /// Where it was accepted.
    pub listener: Rc<Listener>,
    /// The configuration as it was when the client came.
    pub config: Arc<Config>,
    /// What it shares with the thread's other connections.
    pub context: Rc<WorkerContext>,
    /// Its place among those that are admitted, and its share of their memory.
    pub permit: ConnectionPermit,
    /// Whether the client's side is a socket of MPTCP: of another one the kernel is not asked for subflows.
    pub is_mptcp: bool,
    /// The client's subflows as they were when the first direction of a relay ended.
    pub at_half: RefCell<Vec<Subflow>>,
    guard: ConnectionGuard,
    /// The bytes of earlier log lines.
    accounted: Cell<(u64, u64)>,
    /// Whether its paths were counted, as they are once at its end.
    over: Cell<bool>,
}

impl Conn {
    /// An accepted connection that was admitted; in a box, since it goes from hand to hand.
    pub fn new(
        stream: ResetOnDrop,
        client: SocketAddr,
        listener: Rc<Listener>,
        config: Arc<Config>,
        context: Rc<WorkerContext>,
        permit: ConnectionPermit,
        is_mptcp: bool,
    ) -> Box<Self> {
        let guard = context.shared.registry.open(&listener.listen.label, client);
        Box::new(Self {
            stream,
            client,
            listener,
            config,
            context,
            permit,
            is_mptcp,
            at_half: RefCell::default(),
            guard,
            accounted: Cell::default(),
            over: Cell::new(false),
        })
    }

    pub fn metrics(&self) -> &Metrics {
        &self.context.shared.registry.metrics
    }

    pub fn stats(&self) -> &ConnectionStats {
        &self.guard.stats
    }

    /// Bytes so far, to servers and to the client.
    pub fn bytes(&self) -> (u64, u64) {
        (
            self.stats().up.load(Ordering::Relaxed),
            self.stats().down.load(Ordering::Relaxed),
        )
    }

    /// Records the subflows, and lets the connection close in an orderly way.
    pub fn finish_gracefully(&mut self) {
        self.record_subflows();
        self.stream.disarm();
    }

    /// Records the end of the connection: its line has the client's paths, and the bytes since the line before it.
    pub fn record(&self, summary: &Summary<'_>) {
        self.write(summary, self.record_subflows());
    }

    /// Records the end of one request among others: its line has the bytes since the line before it.
    pub fn record_request(&self, summary: &Summary<'_>) {
        self.write(summary, None);
    }

    /// Records the client's subflows at the end of the connection.
    pub fn record_subflows(&self) -> Option<Vec<PathLine>> {
        self.over.set(true);
        let mut multipath = self.multipath();
        if let Some(multipath) = &mut multipath {
            // Where both sides have ended the kernel has let go of some of them, or of what it knew.
            let before = self.at_half.take();
            if moved(&before) > moved(&multipath.subflows) {
                multipath.subflows = before;
            }
        }
        self.context
            .shared
            .registry
            .add_multipath(multipath.as_ref(), &self.config.paths)
    }

    /// What the kernel knows of the client's side, if that is MPTCP.
    pub fn multipath(&self) -> Option<Multipath> {
        let socket = self.is_mptcp.then(|| self.stream.as_fd())?;
        Multipath::of(socket, self.client.ip())
    }

    fn write(&self, summary: &Summary<'_>, paths: Option<Vec<PathLine>>) {
        let (up, down) = self.bytes();
        let (up_before, down_before) = self.accounted.replace((up, down));
        let (up, down) = (up - up_before, down - down_before);
        self.listener.counters.ended(summary.outcome, up, down);
        let log = &self.context.shared.registry.log;
        if !log.is_open() {
            return;
        }
        let shown = self.config.log.clients;
        let hide = |path: PathLine| PathLine {
            client: shown.address(path.client),
            ..path
        };
        log.write(&Line {
            time: now(),
            listener: &self.listener.listen.label,
            client: shown.socket_address(self.client),
            summary,
            seconds: summary.since.elapsed().as_secs_f64(),
            up_bytes: up,
            down_bytes: down,
            paths: paths.map(|paths| paths.into_iter().map(hide).collect()),
        });
    }
}

impl Drop for Conn {
    /// Nobody has said what became of it: this process ends, and resets it.
    fn drop(&mut self) {
        if !self.over.get() {
            self.record(&Summary {
                target: &self.stats().target(),
                ..Summary::new("shutdown", self.stats().since)
            });
        }
    }
}

fn moved(subflows: &[Subflow]) -> u64 {
    subflows.iter().map(|subflow| subflow.sent + subflow.received).sum()
}
