//! The process: its listeners and threads, what steers it, and what it answers.

mod active_config;
mod caches;
mod lifecycle;
mod status;
mod upgrade;
mod worker;

use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant as Clock};

use rustix::rand::{GetRandomFlags, getrandom};
use sd_notify::NotifyState;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::interval;
use tributary_proto::http::Pseudonym;

use crate::config::{self, Config, Reuse};
use crate::early::SynWatcher;
use crate::io::conn::Shared;
use crate::kernel::route::Routes;
use crate::observe::ConnectionRegistry;
use crate::observe::log::AccessLog;
use crate::observe::metrics::Metrics;
use crate::offload::Offloader;
use crate::policy::admission::Admission;
use crate::policy::convert::Cookies;
use crate::policy::logins::WrongLogins;
use crate::upstream::{CurrentHops, FdPool, IdlePool, TO_HOPS};
use active_config::{ActiveConfig, raise_open_files, spare_descriptors, workers};
#[cfg(test)]
pub use status::ListenerStatus;
use status::{Answers, ControlSocket, accept_scrape, metrics_socket, watched};
pub use status::{Status, ask};
use tributary_program::{Exit, Failure, event_loop};
use upgrade::{InheritedSockets, Predecessor, Successor};
use worker::{Phase, Pool, accepted, dialer};

/// The interval of a timer that is not needed.
const NEVER: Duration = Duration::from_secs(3600);
/// The process before this one accepts clients for so long at most once this one watches their SYNs, unless the machine is
/// busy. What one of them begins the other cannot claim.
const TAKING_OVER: Duration = Duration::from_secs(1);

/// Runs until SIGTERM or SIGINT. Without a file the configuration is the default one. A failure before it serves
/// leaves nothing behind.
pub fn run(file: Option<&Path>) -> Result<(), Failure> {
    let predecessor = Predecessor::find();
    let mut inherited = InheritedSockets::take(predecessor.as_ref())
        .map_err(|error| Failure::from_io("sockets that were passed", &error))?;
    let config = config::load(file)?;
    if config.timeouts.unused.is_some() && inherited.is_empty() {
        let message = "timeouts.unused: accepted: only with sockets that the service manager holds (systemd.socket(5))";
        return Err(Failure::new(Exit::Usage, message));
    }
    raise_open_files();
    let registry = Arc::new(ConnectionRegistry::new(Metrics::default(), AccessLog::default()));
    let log = registry.log.open(config.log.access.as_deref())?;
    registry.log.take(log);
    let active = ActiveConfig::new(config, None, &mut inherited, &registry.metrics)?;
    let metrics = metrics_socket(active.config.metrics.address, &mut inherited)?;
    inherited.close_the_rest();
    event_loop()?.block_on(async {
        let file = file.map(Path::to_owned);
        let service = Service::start(file, active, metrics, registry, predecessor).await?;
        service.serve().await
    })
}

struct Service {
    file: Option<PathBuf>,
    since: Clock,
    shared: Arc<Shared>,
    active: Arc<ActiveConfig>,
    pool: Pool,
    control: ControlSocket,
    metrics: Option<TcpListener>,
    /// At the control socket, and for metrics.
    answers: [Answers; 2],
    syn_watcher: Option<SynWatcher>,
    predecessor: Option<Predecessor>,
    successor: Option<Successor>,
}

enum ShutdownReason {
    /// By a signal, or since it was unused.
    Signalled,
    /// By the process of this number, which serves now.
    Superseded(u32),
}

impl Service {
    async fn start(
        file: Option<PathBuf>,
        active: ActiveConfig,
        metrics: Option<std::net::TcpListener>,
        registry: Arc<ConnectionRegistry>,
        predecessor: Option<Predecessor>,
    ) -> Result<Self, Failure> {
        let number = number().map_err(|error| Failure::from_io("random numbers", &error))?;
        let cookies = Cookies::new().map_err(|error| Failure::from_io("random numbers", &error))?;
        let control = ControlSocket::listen(&active.config.control.socket, predecessor.as_ref())?;
        let shared = Arc::new(Shared {
            registry,
            admission: Arc::new(Admission::new(&active.config.limits)),
            wrong_logins: WrongLogins::default(),
            early: Arc::default(),
            offloader: offloader(&active.config)?,
            fd_pool: FdPool::new(spare_descriptors()),
            system_files: Arc::default(),
            cookies: Arc::new(cookies),
            pseudonym: Pseudonym::new(&format!("tributary-{number:016x}")),
            number,
        });
        let active = Arc::new(active);
        let metrics = metrics.map(watched).transpose()?;
        let taking_over = predecessor.as_ref().map_or(Duration::ZERO, |_| TAKING_OVER);
        let syn_watcher = syn_watcher(&active, &shared, taking_over)?;
        // Somebody else's until now, who goes on if this process fails: so nothing is changed about them before.
        active
            .set_up()
            .map_err(|error| Failure::from_io("set up sockets", &error))?;
        let pool = start_pool(&active, &shared)
            .await
            .map_err(|error| Failure::from_io("threads", &error))?;
        Ok(Self {
            file,
            since: Clock::now(),
            shared,
            active,
            pool,
            control,
            metrics,
            answers: Default::default(),
            syn_watcher,
            predecessor,
            successor: None,
        })
    }

    async fn serve(mut self) -> Result<(), Failure> {
        let signals = |kind| signal(kind).map_err(|error| Failure::from_io("signals", &error));
        let (mut hangup, mut terminate, mut interrupt) = (
            signals(SignalKind::hangup())?,
            signals(SignalKind::terminate())?,
            signals(SignalKind::interrupt())?,
        );
        let (mut hand_over, mut superseded) = (
            signals(SignalKind::user_defined2())?,
            signals(SignalKind::user_defined1())?,
        );
        self.control.show()?;
        for bound in &self.active.bound {
            tracing::info!("listening on {} ({})", bound.listen.address, bound.listen.label);
        }
        say_ready();
        notify(&[NotifyState::Ready]);
        if let Some(Err(error)) = self.predecessor.as_ref().map(Predecessor::notify_ready) {
            tracing::error!("the converter before this one does not hear: {error}");
        }
        let mut watchdog = interval(sd_notify::watchdog_enabled().map_or(NEVER, |time| time / 3));
        let mut last_use = LastUse::now();
        let mut look = interval(self.active.config.timeouts.unused.map_or(NEVER, |timeout| timeout / 4));
        let end = loop {
            tokio::select! {
                biased; // a successor that is ready takes over before another one is started in its place
                _ = superseded.recv() => if let Some(id) = self.successor_id() { break ShutdownReason::Superseded(id) },
                _ = hangup.recv() => self.reload().await,
                _ = hand_over.recv() => self.start_successor(&mut superseded).await,
                status = ended(&mut self.successor) => self.go_on_without_successor(&status),
                () = first(&mut terminate, &mut interrupt) => break ShutdownReason::Signalled,
                _ = look.tick() => if self.is_unused(&mut last_use) { break ShutdownReason::Signalled },
                _ = watchdog.tick() => notify(&[NotifyState::Watchdog]),
                asked = accepted(self.control.listener.accept()) => self.tell(asked, false),
                scraped = accept_scrape(self.metrics.as_ref()) => self.expose(scraped),
            }
        };
        self.begin_shutdown(&end);
        self.drain(&end, terminate, interrupt).await
    }

    /// Whether it was unused for `timeouts.unused`.
    fn is_unused(&self, last_use: &mut LastUse) -> bool {
        let Some(timeout) = self.active.config.timeouts.unused else {
            return false;
        };
        // The one before has connections as long as it is there.
        let open = self.shared.admission.open() + usize::from(self.predecessor_is_there());
        let age = last_use.age(&self.active, open);
        if age >= timeout {
            tracing::info!("nobody has come for {age:?}");
        }
        age >= timeout
    }

    fn predecessor_is_there(&self) -> bool {
        self.predecessor.as_ref().is_some_and(Predecessor::is_there)
    }

    fn end_predecessor(&self) {
        if let Some(predecessor) = &self.predecessor {
            predecessor.end();
        }
    }

    fn successor_id(&self) -> Option<u32> {
        self.successor.as_ref().map(Successor::id)
    }

    /// Replaces one that did not get ready.
    async fn start_successor(&mut self, superseded: &mut Signal) {
        if let Some(successor) = self.successor.take() {
            successor.kill_for_another(superseded).await;
        }
        let (ours, others): (Vec<_>, Vec<_>) = self.active.bound.iter().partition(|bound| bound.is_ours);
        let ours: Vec<_> = ours.iter().map(|bound| bound.socket.as_fd()).collect();
        let others = others.iter().map(|bound| bound.socket.as_fd());
        let metrics = self.metrics.as_ref().map(AsFd::as_fd);
        match Successor::start(&ours, &others.chain(metrics).collect::<Vec<_>>()) {
            Ok(successor) => {
                tracing::info!("handing over to process {}", successor.id());
                self.successor = Some(successor);
            }
            Err(error) => tracing::error!("not handed over, no successor: {error}"),
        }
    }

    fn go_on_without_successor(&mut self, status: &io::Result<ExitStatus>) {
        self.successor = None;
        match status {
            Ok(status) => tracing::error!("not handed over, the successor ended: {status}"),
            Err(error) => tracing::error!("not handed over: {error}"),
        }
    }

    /// Tells the service manager.
    fn begin_shutdown(&mut self, end: &ShutdownReason) {
        match end {
            ShutdownReason::Signalled => {
                if let Some(successor) = self.successor.take() {
                    successor.kill();
                }
                notify(&[NotifyState::Stopping]);
                self.end_predecessor();
            }
            ShutdownReason::Superseded(successor) => {
                // A scrape is meant for the one that serves.
                self.metrics = None;
                notify(&[NotifyState::MainPid(*successor)]);
            }
        }
    }
}

/// Whoever closed our standard output does not wait for this.
fn say_ready() {
    if let Err(error) = writeln!(io::stdout(), "ready") {
        tracing::warn!("standard output: {error}");
    }
}

/// A random number of this process, by which loops of chains are detected.
fn number() -> io::Result<u64> {
    let mut number = [0; 8];
    getrandom(&mut number, GetRandomFlags::empty())?;
    Ok(u64::from_ne_bytes(number))
}

/// Waits for the end of the successor, if there is one.
async fn ended(successor: &mut Option<Successor>) -> io::Result<ExitStatus> {
    match successor {
        Some(successor) => successor.ended().await,
        None => std::future::pending().await,
    }
}

/// Loads the offloader if any listener needs it.
fn offloader(config: &Config) -> Result<Option<Arc<Offloader>>, Failure> {
    if !config.offloads() {
        return Ok(None);
    }
    let attempted = "offload (needs CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON and the devices)";
    let loaded = Offloader::load(&config.offload);
    loaded
        .map(|offloader| Some(Arc::new(offloader)))
        .map_err(|error| Failure::from_io(attempted, &error))
}

/// Starts the watcher if any listener has `early_syn`, which begins connections after some time.
fn syn_watcher(active: &ActiveConfig, shared: &Shared, after: Duration) -> Result<Option<SynWatcher>, Failure> {
    if !active.config.forwards_syns_early() {
        return Ok(None);
    }
    let start = || {
        // What it begins waits for its client, and not for the next one.
        let hop_pool = IdlePool::watched(Reuse::Never, TO_HOPS, shared.fd_pool.clone());
        let next_hops = CurrentHops::new(Arc::clone(&active.next_hops).into());
        let dialer = dialer(active, shared, Rc::new(Routes::open()?), next_hops, hop_pool);
        let counters = shared.registry.metrics.early_syns();
        SynWatcher::start(after, &active.config, &shared.early, dialer, counters)
    };
    start()
        .map(Some)
        .map_err(|error| Failure::from_io("early_syn (needs CAP_NET_RAW)", &error))
}

/// Starts the threads, and waits until each is ready to accept.
async fn start_pool(active: &Arc<ActiveConfig>, shared: &Arc<Shared>) -> io::Result<Pool> {
    let mut pool = Pool::start(workers(&active.config), shared, Phase::Serving(Arc::clone(active)))?;
    pool.wait_acks().await?;
    Ok(pool)
}

async fn first(one: &mut Signal, other: &mut Signal) {
    tokio::select! {
        _ = one.recv() => {}
        _ = other.recv() => {}
    }
}

/// Tells the service manager, if there is one (`sd_notify(3)`).
fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!("service manager: {error}");
    }
}

/// The time of the last use, and how many connections had been accepted by then.
struct LastUse {
    accepted: u64,
    at: Clock,
}

impl LastUse {
    /// Counts the start as a use.
    fn now() -> Self {
        Self {
            accepted: 0,
            at: Clock::now(),
        }
    }

    /// How long ago it was; `open` connections are open now. Connections that were accepted and ended since the last call
    /// count as a use now.
    fn age(&mut self, active: &ActiveConfig, open: usize) -> Duration {
        let accepted = active.bound.iter().map(|bound| bound.counters.accepted.get());
        let accepted = accepted.sum();
        if open > 0 || accepted != self.accepted {
            *self = Self {
                accepted,
                at: Clock::now(),
            };
        }
        self.at.elapsed()
    }
}
