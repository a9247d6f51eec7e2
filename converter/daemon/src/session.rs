//! One client's connection: connects to servers, relays, and writes log lines for its listener.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tokio::sync::watch;
use tributary_wire::http::{HeadLimits, MalformedFields};
use tributary_wire::proxy_protocol;

use crate::accounting::handoff_counters::HandoffDecision;
use crate::accounting::line::{self, Line, PathLine};
use crate::accounting::metrics::ListenerMetrics;
pub use crate::accounting::outcome::Outcome;
use crate::accounting::registry::{ConnectionGuard, ConnectionRegistry, ConnectionStats};
use crate::bytes::buffers::with_scratch;
use crate::bytes::context::RelayContext;
use crate::bytes::relay::{RelayResult, pipes, relay};
use crate::bytes::stream::ResetOnDrop;
use crate::config::{Config, Listen};
use crate::dial::{DialError, DialOptions, Dialer, FdPermit, PendingConnect, Server, Target};
use crate::early::EarlyConnects;
use crate::kernel::multipath::{self, Multipath, Subflow};
use crate::kernel::sockets;
use crate::offload::Offloader;
use crate::policy::admission::{Admission, ConnectionPermit, client_key};
use crate::policy::cookies::Cookies;
use crate::policy::handoff::SizeEstimator;
use crate::policy::rate_limit::RateLimit;

/// Bytes that may travel with a request to the gateway.
const EARLY: usize = 16 << 10;

/// A listener's settings, name and counters.
#[derive(Debug)]
pub struct Listener {
    /// As configured.
    pub listen: Listen,
    /// Its name in logs and metrics.
    pub label: Arc<str>,
    /// Its counters.
    pub counters: Arc<ListenerMetrics>,
}

/// What all sessions of one thread share.
pub struct WorkerContext {
    /// Connects to servers.
    pub dialer: Dialer,
    /// Open connections and counters.
    pub registry: Arc<ConnectionRegistry>,
    /// Limits of connections and memory.
    pub admission: Arc<Admission>,
    /// Connections that were started by the client's SYN.
    pub early: Arc<EarlyConnects>,
    /// Present if any listener offloads connections to the kernel.
    pub offloader: Option<Arc<Offloader>>,
    /// For RFC 8803.
    pub cookies: Arc<Cookies>,
    /// For RFC 8803's errors.
    pub errors: RateLimit,
    /// For lines in the log about servers.
    pub warnings: RateLimit,
    /// For HTTP: bounds, and this process' name in Via.
    pub http: HeadLimits,
    /// Whether this process is about to end.
    pub draining: watch::Receiver<bool>,
    /// For listeners of kind `handoff`.
    pub handoff: Option<HandoffContext>,
}

/// What sessions of listeners of kind `handoff` share.
#[derive(Clone)]
pub struct HandoffContext {
    /// To the back ends and the switch; each thread has its own.
    pub links: Rc<handoff_front::Links>,
    /// Estimates how large answers are; shared by all threads.
    pub estimator: Arc<SizeEstimator>,
}

/// One client's connection. Dropping it before its end resets it.
pub struct Session {
    /// The client's side.
    pub stream: ResetOnDrop,
    /// The client's address and port.
    pub client: SocketAddr,
    /// Whose client it is.
    pub listener: Rc<Listener>,
    /// The configuration as it was when the client came.
    pub config: Arc<Config>,
    context: Rc<WorkerContext>,
    guard: ConnectionGuard,
    /// The bytes of earlier log lines.
    accounted: Cell<(u64, u64)>,
    /// The client's subflows as they were when the first direction of a relay ended.
    at_half: RefCell<Vec<Subflow>>,
    /// Whether its paths were counted, as they are once at its end.
    over: Cell<bool>,
    permit: ConnectionPermit,
}

impl Session {
    /// A session for an accepted connection that was admitted.
    pub fn new(
        stream: ResetOnDrop,
        client: SocketAddr,
        listener: Rc<Listener>,
        config: Arc<Config>,
        context: Rc<WorkerContext>,
        permit: ConnectionPermit,
    ) -> Self {
        let guard = context.registry.open(&listener.label, client);
        Self {
            stream,
            client,
            listener,
            config,
            context,
            guard,
            accounted: Cell::default(),
            at_half: RefCell::default(),
            over: Cell::new(false),
            permit,
        }
    }

    /// For RFC 8803's cookies.
    pub fn cookies(&self) -> &Cookies {
        &self.context.cookies
    }

    /// Whether one more Convert error may be sent now (RFC 8803 section 6.2.5 wants them limited).
    pub fn may_send_error(&self) -> bool {
        self.context.errors.take()
    }

    /// Bounds on HTTP's heads, and this process' name in Via.
    pub fn http_limits(&self) -> &HeadLimits {
        &self.context.http
    }

    /// For a listener of kind `handoff`.
    pub fn handoff(&self) -> Option<HandoffContext> {
        self.context.handoff.clone()
    }

    /// Counts a request at a listener of kind `handoff`.
    pub fn count_handoff(&self, decision: HandoffDecision) {
        self.context.registry.metrics.handoff.count(decision);
    }

    /// Counts a request at a listener of kind `handoff` that could not be handed over.
    pub fn count_handoff_failure(&self, reason: &'static str) {
        self.context.registry.metrics.handoff.failed(reason);
    }

    /// Whether this process is about to end.
    pub fn is_draining(&self) -> bool {
        *self.context.draining.borrow()
    }

    /// Ready once this process is about to end.
    pub fn draining(&self) -> impl Future<Output = ()> + use<> {
        let mut draining = self.context.draining.clone();
        async move {
            // Without its sender the thread has ended, and so has this.
            let _ = draining.wait_for(|draining| *draining).await;
        }
    }

    /// Whether a request that has passed these converters goes round in circles.
    pub fn is_loop(&self, path_trace: &[u64], source_route: usize) -> bool {
        self.context.dialer.is_loop(path_trace, source_route)
    }

    /// Whether the client is this machine: then a transparent listener has met its own connection.
    pub fn is_own_loop(&self) -> bool {
        self.context.dialer.is_own(self.client.ip())
    }

    /// A descriptor for something beside the two connections, if there is one.
    pub fn fd_permit(&self) -> Option<FdPermit> {
        self.context.dialer.fd_permit()
    }

    /// What the client has sent so far, without waiting for more. Raises what broke its connection.
    pub fn early_bytes(&self) -> io::Result<Vec<u8>> {
        with_scratch(EARLY, |scratch| {
            match sockets::read_what_is_there(&self.stream, &mut scratch[..EARLY]) {
                Ok(count) => Ok(scratch[..count].to_vec()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Vec::new()),
                Err(error) => Err(error),
            }
        })
    }

    /// A server has sent field lines that are left out of its response: shows the first one in the log, and counts all.
    pub fn malformed_fields(&self, server: &str, lines: &MalformedFields) {
        if lines.count == 0 {
            return;
        }
        let metrics = &self.context.registry.metrics;
        metrics.malformed_fields.inc_by(lines.count as u64);
        if self.context.warnings.take() {
            let line = String::from_utf8_lossy(&lines.first);
            tracing::warn!("{server} sent a malformed field line, which is left out: {line:?}");
        }
    }

    /// The statistics of this connection.
    pub fn stats(&self) -> &ConnectionStats {
        &self.guard.stats
    }

    /// Connects to `target`, which the client calls `name`, via the gateway if the listener has `via_gateway`. `early` was
    /// read from the client before; if it is sent with the request to the gateway or in the SYN to the server, `early_sent`
    /// of the result is true.
    pub async fn dial(
        &self,
        target: &Target,
        name: &str,
        options: DialOptions,
        early: &[u8],
    ) -> Result<Server, DialError> {
        self.stats().set_target(name);
        let options = DialOptions {
            client: Some(client_key(self.client.ip())),
            ..options
        };
        let since = Instant::now();
        let dialer = &self.context.dialer;
        // Nothing goes before the PROXY protocol's header.
        let has_proxy_header = self.config.upstream.proxy_protocol;
        let early = if has_proxy_header { &[] } else { early };
        let mut begun = self.early_connection(target);
        let is_source_routed = options.source_route.is_some();
        if let Some(elsewhere) = begun.take_if(|_| is_source_routed) {
            elsewhere.give_up();
        }
        let mut server = if let Some(begun) = begun {
            dialer.resume(begun, options, early, &self.config).await
        } else if is_source_routed || self.listener.listen.via_gateway {
            dialer
                .dial_via_gateway(target, options, early, &self.config)
                .await
        } else {
            dialer.dial(target, options, early, &self.config).await
        }?;
        let seconds = since.elapsed().as_secs_f64();
        self.context.registry.metrics.dial_seconds.observe(seconds);
        if has_proxy_header {
            self.send_proxy_header(&server).await?;
        }
        // No early data means that none was sent: later bytes must not be taken for it.
        server.early_sent &= !early.is_empty();
        Ok(server)
    }

    /// Takes the connection that was started for this client's SYN.
    fn early_connection(&self, target: &Target) -> Option<PendingConnect> {
        match target {
            Target::Address(server) if self.listener.listen.early_syn => {
                self.context.early.claim(self.client, *server)
            }
            _ => None,
        }
    }

    /// Sends the PROXY protocol's header, before anything else.
    async fn send_proxy_header(&self, server: &Server) -> Result<(), DialError> {
        let header = proxy_protocol::header(self.client, server.address);
        let deadline = Some(tokio::time::Instant::now() + self.config.timeouts.connect);
        server
            .stream
            .send(&header, deadline)
            .await
            .map_err(DialError::from)
    }

    /// What a relay of this connection may use, and where it counts.
    pub fn relay_context(&self) -> RelayContext<'_> {
        RelayContext {
            budget: self.permit.budget(),
            buffer: self.config.limits.buffer,
            idle: self.config.timeouts.idle,
            half_closed: self.config.timeouts.half_closed,
            up: &self.stats().up,
            down: &self.stats().down,
        }
    }

    /// Bytes so far, to servers and to the client.
    pub fn bytes(&self) -> (u64, u64) {
        (
            self.stats().up.load(Ordering::Relaxed),
            self.stats().down.load(Ordering::Relaxed),
        )
    }

    /// Reserves memory for `bytes` that wait here, in place of those of the last call. Returns whether there is memory for them;
    /// there always is for no more than before.
    pub fn reserve(&self, bytes: usize) -> bool {
        self.permit.reserve(bytes)
    }

    /// Relays until the end. `early` came from the client already.
    async fn relay(&mut self, server: &mut Server, early: Vec<u8>) -> RelayResult {
        let said = std::mem::take(&mut server.early);
        let half = || {
            let multipath = self.multipath().unwrap_or_default();
            self.at_half.replace(multipath.subflows);
        };
        let (client, server_stream, context) = (&self.stream, &server.stream, self.relay_context());
        let ended = match self.offloader() {
            None => relay(client, server_stream, early, said, &context, half).await,
            Some(offloader) => {
                let mark = self.config.upstream.mark;
                let decided = |refusal: Option<&'static str>| {
                    self.context.registry.metrics.count_offload(refusal);
                };
                let pipes = pipes(client, server_stream, early, said, &context);
                offloader.relay(pipes, &context, mark, half, decided).await
            }
        };
        if ended == RelayResult::Completed {
            self.stream.disarm();
            server.stream.disarm();
        }
        ended
    }

    /// The offloader, if this listener's connections may be offloaded.
    fn offloader(&self) -> Option<&Offloader> {
        let offloader = self.context.offloader.as_deref();
        offloader.filter(|_| self.listener.listen.offload)
    }

    /// Records the subflows, and lets the connection close in an orderly way.
    pub fn finish_gracefully(&mut self) {
        self.record_subflows();
        self.stream.disarm();
    }

    /// Sends `reply`, relays until the end, and writes the connection's log line. `early` was read from the client before.
    pub async fn tunnel(
        mut self,
        mut server: Server,
        reply: &[u8],
        early: Vec<u8>,
        target: &str,
        since: Instant,
        status: Option<u16>,
    ) {
        let deadline = tokio::time::Instant::now() + self.config.timeouts.request;
        let name = if self.stream.send(reply, Some(deadline)).await.is_ok() {
            // From now on the relay counts what waits.
            self.reserve(0);
            let early = if server.early_sent { Vec::new() } else { early };
            self.relay(&mut server, early).await.name()
        } else {
            "client-gone"
        };
        self.log_close(&Outcome {
            target,
            server: Some(server.address),
            size: server.size,
            status,
            ..Outcome::new(name, since)
        });
    }

    /// The last outcome of the connection: its line has the client's paths, and the bytes since the outcome before it.
    pub fn log_close(&self, outcome: &Outcome<'_>) {
        self.write(outcome, self.record_subflows());
    }

    /// The outcome of one request among others; its line has the bytes since the outcome before it.
    pub fn log_request(&self, outcome: &Outcome<'_>) {
        self.write(outcome, None);
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
            .registry
            .add_multipath(multipath.as_ref(), &self.config.paths)
    }

    fn multipath(&self) -> Option<Multipath> {
        multipath::of(self.stream.as_fd(), self.client.ip())
    }

    fn write(&self, outcome: &Outcome<'_>, paths: Option<Vec<PathLine>>) {
        let (up, down) = self.bytes();
        let (up_before, down_before) = self.accounted.replace((up, down));
        let (up, down) = (up - up_before, down - down_before);
        self.listener.counters.ended(outcome.name, up, down);
        let log = &self.context.registry.log;
        if !log.is_open() {
            return;
        }
        log.write(&Line {
            time: line::now(),
            listener: &self.listener.label,
            client: self.client,
            target: outcome.target,
            server: outcome.server,
            size: outcome.size,
            outcome: outcome.name,
            status: outcome.status,
            seconds: outcome.since.elapsed().as_secs_f64(),
            up_bytes: up,
            down_bytes: down,
            paths,
        });
    }
}

impl Drop for Session {
    /// Nobody has said what became of it: this process ends, and resets it.
    fn drop(&mut self) {
        if !self.over.get() {
            self.log_close(&Outcome {
                target: &self.stats().target(),
                ..Outcome::new("shutdown", self.stats().since)
            });
        }
    }
}

fn moved(subflows: &[Subflow]) -> u64 {
    subflows
        .iter()
        .map(|subflow| subflow.sent + subflow.received)
        .sum()
}
