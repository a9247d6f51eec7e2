//! A worker thread, which accepts and serves connections. Every thread waits on every listener: an idle one accepts.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::mem;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::runtime::LocalOptions;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::sleep;
use tributary_proto::http::HeadLimits;
use tributary_sys::canonical;

use super::active_config::{ActiveConfig, BoundListener};
use super::caches::{HandoffLinksCache, NextHopsCache};
use crate::config::{ListenerKind, Reuse};
use crate::io::conn::{Conn, HandoffContext, Listener, Shared, WorkerContext};
use crate::io::quiet::FIRST_LOOK;
use crate::io::stream::ResetOnDrop;
use crate::kernel::route::Routes;
use crate::kernel::sockets;
use crate::listener::{self, convert, handoff, http, socks5, transparent};
use crate::policy::rate_limit::RateLimit;
use crate::upstream::{CurrentHops, Dialer, IdlePool, Names, TO_HOPS, TO_SERVERS};

/// Refusals that each thread sends at the same time; more clients are reset.
const MAX_REFUSALS: usize = 256;
/// Convert errors a second, by each thread.
const ERRORS: u32 = 1000;
/// Lines in the log about servers a second, by each thread.
const WARNINGS: u32 = 1;

#[derive(Clone)]
pub enum Phase {
    /// Accept with this configuration.
    Serving(Arc<ActiveConfig>),
    /// Accept no more clients, and serve the open connections.
    Draining,
    /// Reset open connections, and end.
    Ended,
}

/// Runs the thread until it ends. Sends the result of each phase change to `ack`.
pub fn run_worker(
    shared: &Arc<Shared>,
    mut phase: watch::Receiver<Phase>,
    ack: &mpsc::UnboundedSender<io::Result<()>>,
) {
    let main_loop = async {
        spawn_local(tick());
        let routes = Rc::new(Routes::open()?);
        let mut handoff = HandoffLinksCache::default();
        let mut next_hops = NextHopsCache::default();
        let draining = watch::Sender::new(false);
        let mut current = watch::Sender::new(false);
        let mut loops = Vec::new();
        loop {
            let now = phase.borrow_and_update().clone();
            let came = match now {
                Phase::Serving(active) => {
                    let (draining, handoff) = (draining.subscribe(), handoff.of(&active));
                    let before = mem::replace(&mut current, watch::Sender::new(false));
                    let replaced = current.subscribe();
                    let next_hops = next_hops.of(&active);
                    let context = context(&active, shared, &routes, next_hops, [draining, replaced], handoff);
                    before.send_replace(true);
                    serve(&active, &Rc::new(context), &mut loops).await
                }
                Phase::Draining => {
                    close(mem::take(&mut loops)).await;
                    draining.send_replace(true);
                    Ok(())
                }
                Phase::Ended => return Ok(()),
            };
            // Without the main thread there is no next phase either.
            let _ = ack.send(came);
            if phase.changed().await.is_err() {
                return Ok(());
            }
        }
    };
    let result = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())
        .and_then(|runtime| runtime.block_on(main_loop));
    if result.is_err() {
        let _ = ack.send(result);
    }
}

/// Wakes the thread once in a while. A timer that is due before the next time at which the event loop wakes costs two
/// system calls when it is set (tokio's `Handle::reregister` writes to the loop's own eventfd): those of connections are
/// due no sooner.
async fn tick() {
    loop {
        sleep(FIRST_LOOK).await;
    }
}

fn context(
    active: &ActiveConfig,
    shared: &Arc<Shared>,
    routes: &Rc<Routes>,
    next_hops: CurrentHops,
    [draining, replaced]: [watch::Receiver<bool>; 2],
    handoff: Option<HandoffContext>,
) -> WorkerContext {
    let reuse = match &active.config.gateway {
        Some(gateway) if gateway.reuse => Reuse::Always,
        _ => Reuse::Never,
    };
    let hop_pool = IdlePool::watched(reuse, TO_HOPS, shared.fd_pool.clone());
    WorkerContext {
        shared: Arc::clone(shared),
        dialer: dialer(active, shared, Rc::clone(routes), next_hops, hop_pool),
        errors: RateLimit::per_second(ERRORS),
        warnings: RateLimit::per_second(WARNINGS),
        http: HeadLimits {
            head: active.config.limits.head,
            pseudonym: shared.pseudonym.clone().filter(|_| active.config.http.via),
            outlives_client: active.config.upstream.reuse_by_others() != Reuse::Never,
        },
        draining,
        replaced,
        handoff,
    }
}

/// Connects to servers for one thread.
pub fn dialer(
    active: &ActiveConfig,
    shared: &Shared,
    routes: Rc<Routes>,
    next_hops: CurrentHops,
    hop_pool: Rc<IdlePool>,
) -> Dialer {
    Dialer::new(
        Names::new(&active.config.names.servers, &shared.system_files),
        routes,
        next_hops,
        shared.fd_pool.clone(),
        shared.number,
        hop_pool,
    )
}

/// Serves with `active`: accept loops that it shares with the configuration before stay open. Returns the first error; all
/// that works is done.
async fn serve(active: &Arc<ActiveConfig>, context: &Rc<WorkerContext>, loops: &mut Vec<AcceptLoop>) -> io::Result<()> {
    let mut result = Ok(());
    let mut old = mem::take(loops);
    for bound in &active.bound {
        let acceptor = Rc::new(Acceptor::new(active, bound, context));
        let same = |accept_loop: &AcceptLoop| Arc::ptr_eq(&accept_loop.socket, &bound.socket);
        if let Some(at) = old.iter().position(same) {
            old[at].acceptor.replace(acceptor);
            loops.push(old.swap_remove(at));
            continue;
        }
        match AcceptLoop::open(&bound.socket, acceptor) {
            Ok(accept_loop) => loops.push(accept_loop),
            Err(error) => result = result.and(Err(error)),
        }
    }
    close(old).await;
    result
}

/// Ends accept loops, and waits until their listening sockets are closed.
async fn close(loops: Vec<AcceptLoop>) {
    for accept_loop in loops {
        accept_loop.accepting.abort();
        // It was cancelled: that is no error here.
        let _ = accept_loop.accepting.await;
    }
}

/// A listening socket at which this thread accepts.
struct AcceptLoop {
    socket: Arc<TcpListener>,
    /// Handles accepted connections.
    acceptor: Rc<RefCell<Rc<Acceptor>>>,
    accepting: JoinHandle<()>,
}

impl AcceptLoop {
    /// Raises what dup(2) does.
    fn open(socket: &Arc<TcpListener>, acceptor: Rc<Acceptor>) -> io::Result<Self> {
        let listener = tokio::net::TcpListener::from_std(socket.try_clone()?)?;
        let acceptor = Rc::new(RefCell::new(acceptor));
        Ok(Self {
            socket: Arc::clone(socket),
            acceptor: Rc::clone(&acceptor),
            accepting: spawn_local(accept(listener, acceptor)),
        })
    }
}

async fn accept(listener: tokio::net::TcpListener, acceptor: Rc<RefCell<Rc<Acceptor>>>) {
    let inherits = sockets::accepts_urgent_data_inline(&listener);
    loop {
        let accepted = poll_fn(|cx| listener.poll_accept(cx)).await;
        let acceptor = Rc::clone(&acceptor.borrow());
        match accepted {
            Ok((stream, client)) => {
                let is_mptcp = !inherits && sockets::set_up_accepted_for_reads(&stream);
                acceptor.handle_connection(stream, canonical(client), is_mptcp);
            }
            Err(error) if lacks_resources(&error) => {
                acceptor.context.shared.registry.metrics.accept_pauses.inc();
                sleep(PAUSE).await;
            }
            // This one connection ended before it was accepted (accept(2)).
            Err(_) => {}
        }
    }
}

/// One listener, as one thread serves it.
struct Acceptor {
    active: Arc<ActiveConfig>,
    listener: Rc<Listener>,
    context: Rc<WorkerContext>,
    /// Its clones count the refusals that are being sent.
    refusals: Rc<()>,
}

impl Acceptor {
    fn new(active: &Arc<ActiveConfig>, bound: &BoundListener, context: &Rc<WorkerContext>) -> Self {
        let reuse = match bound.listen.kind {
            ListenerKind::Http | ListenerKind::Handoff => active.config.upstream.reuse_by_others(),
            _ => Reuse::Never,
        };
        let listener = Listener {
            listen: bound.listen.clone(),
            counters: Arc::clone(&bound.counters),
            idle_pool: IdlePool::watched(reuse, TO_SERVERS, context.shared.fd_pool.clone()),
        };
        Self {
            active: Arc::clone(active),
            listener: Rc::new(listener),
            context: Rc::clone(context),
            refusals: Rc::new(()),
        }
    }

    fn handle_connection(&self, stream: TcpStream, client: SocketAddr, is_mptcp: bool) {
        self.listener.counters.accepted.inc();
        let stream = ResetOnDrop::new(stream);
        match self
            .context
            .shared
            .admission
            .admit(client.ip(), &self.active.config, self.active.most)
        {
            Ok(permit) => {
                let config = Arc::clone(&self.active.config);
                let (listener, context) = (Rc::clone(&self.listener), Rc::clone(&self.context));
                let conn = Conn::new(stream, client, listener, config, context, permit, is_mptcp);
                match self.listener.listen.kind {
                    ListenerKind::Http => spawn_local(http::serve(conn)),
                    ListenerKind::Socks5(_) => spawn_local(socks5::serve(conn)),
                    ListenerKind::Convert(how) => spawn_local(convert::serve(conn, how)),
                    ListenerKind::Transparent(how) => spawn_local(transparent::serve(conn, how)),
                    ListenerKind::Handoff => spawn_local(handoff::serve(conn)),
                };
            }
            Err(refusal) => {
                self.listener.counters.outcome(refusal.name());
                if let Some(last) = listener::refuse(&self.listener.listen.kind, refusal) {
                    self.send_refusal(stream, last);
                }
            }
        }
    }

    fn send_refusal(&self, mut stream: ResetOnDrop, last: Vec<u8>) {
        let permit = self.context.dialer.fd_permit();
        if permit.is_some() && Rc::strong_count(&self.refusals) <= MAX_REFUSALS {
            let refusal = Rc::clone(&self.refusals);
            spawn_local(async move {
                stream.send_and_linger(&last).await;
                drop((stream, refusal, permit));
            });
        }
    }
}

/// All threads of the process that serve clients.
pub struct Pool {
    phase: watch::Sender<Phase>,
    threads: Vec<Thread>,
}

struct Thread {
    handle: thread::JoinHandle<()>,
    /// The result of each phase change.
    acks: mpsc::UnboundedReceiver<io::Result<()>>,
}

impl Pool {
    /// Starts `count` threads, which have entered the `first` phase when [`Pool::wait_acks`] returns.
    pub fn start(count: usize, shared: &Arc<Shared>, first: Phase) -> io::Result<Self> {
        let (phase, _) = watch::channel(first);
        let start = |number| {
            let (shared, phase) = (Arc::clone(shared), phase.subscribe());
            let (ack, acks) = mpsc::unbounded_channel();
            let handle = thread::Builder::new()
                .name(format!("worker-{number}"))
                .spawn(move || run_worker(&shared, phase, &ack))?;
            Ok(Thread { handle, acks })
        };
        let threads: io::Result<_> = (0..count).map(start).collect();
        Ok(Self {
            threads: threads?,
            phase,
        })
    }

    /// Sets the phase, and waits until all threads are in it. Returns the first error; all that works is done.
    pub async fn set_phase(&mut self, phase: Phase) -> io::Result<()> {
        self.phase.send_replace(phase);
        self.wait_acks().await
    }

    /// Waits until all threads are in the phase that was set last.
    pub async fn wait_acks(&mut self) -> io::Result<()> {
        let mut result = Ok(());
        for thread in &mut self.threads {
            let ack = thread.acks.recv().await;
            result = result.and(ack.unwrap_or_else(|| Err(io::Error::other("a thread is gone"))));
        }
        result
    }

    /// Resets all open connections, and waits for the threads to end.
    pub fn end(self) {
        self.phase.send_replace(Phase::Ended);
        for thread in self.threads {
            if thread.handle.join().is_err() {
                tracing::error!("a thread ended by a panic");
            }
        }
    }
}

/// How long accepting pauses on EMFILE or ENOMEM: the listener stays readable, and each attempt would fail at once.
pub const PAUSE: Duration = Duration::from_millis(100);

/// Returns the accepted connection, or `None` after a pause on EMFILE or ENOMEM.
pub async fn accepted<T>(accept: impl Future<Output = io::Result<T>>) -> Option<T> {
    match accept.await {
        Ok(came) => Some(came),
        Err(error) => {
            if lacks_resources(&error) {
                sleep(PAUSE).await;
            }
            None
        }
    }
}

/// Whether every accept would fail, and not only this one.
pub fn lacks_resources(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
    )
}
