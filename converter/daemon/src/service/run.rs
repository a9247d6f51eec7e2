//! The main thread: starts everything, listens to signals, and ends everything.

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
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{Instant, interval, sleep, sleep_until};

use tributary_wire::http::Pseudonym;

use super::accept::accepted;
use super::activation::Passed;
use super::control::{self, ControlSocket, ListenerStatus, Status};
use super::exposition;
use super::last_use::LastUse;
use super::plan::{Plan, raise_open_files, spare_descriptors, workers};
use super::pool::Pool;
use super::successor::{Predecessor, Successor};
use super::worker::{Phase, Shared};
use crate::accounting::access_log::AccessLog;
use crate::accounting::accounts::Accounts;
use crate::accounting::metrics::{Levels, Metrics};
use crate::config::{self, Config};
use crate::dial::{Dialer, Names, SpareDescriptors};
use crate::early::SynWatcher;
use crate::failure::{Exit, Failure};
use crate::kernel::netstat::MptcpCounters;
use crate::kernel::route::Routes;
use crate::kernel::sockets;
use crate::leaving::Departures;
use crate::policy::admission::Admission;
use crate::policy::cookies::Cookies;

/// Connections that a status shows.
const SHOWN: usize = 1000;
/// Between two looks at what was not asked for.
const NEVER: Duration = Duration::from_secs(3600);
/// How often a drain looks whether all have left.
const DRAIN_STEP: Duration = Duration::from_millis(20);
/// What a predecessor may take to end that was told to do so at once.
const AT_ONCE: Duration = Duration::from_secs(1);
/// What the last lines of the access log may take.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Runs until SIGTERM or SIGINT. Without a file the configuration is the default one. A failure before it serves
/// leaves nothing behind.
pub fn run(file: Option<&Path>) -> Result<(), Failure> {
    let predecessor = Predecessor::find();
    let mut passed = Passed::take(predecessor.as_ref())
        .map_err(|error| Failure::from_io("sockets that were passed", &error))?;
    let config = file.map_or_else(|| Ok(Config::default()), config::load)?;
    if config.timeouts.unused.is_some() && passed.is_empty() {
        let message = "timeouts.unused: accepted: only with sockets that the service manager holds (systemd.socket(5))";
        return Err(Failure::new(Exit::Usage, message));
    }
    raise_open_files();
    let accounts = Arc::new(Accounts::new(Metrics::default(), AccessLog::default()));
    accounts.log.open(config.log.access.as_deref())?;
    let plan = Plan::new(config, None, &mut passed, &accounts.metrics)?;
    let metrics = exposition::socket(plan.config.metrics.address, &mut passed)?;
    passed.close_the_rest();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| Failure::from_io("event loop", &error))?;
    LocalSet::new().block_on(&runtime, async {
        let file = file.map(Path::to_owned);
        let service = Service::start(file, plan, metrics, accounts, predecessor).await?;
        service.serve().await
    })
}

struct Service {
    file: Option<PathBuf>,
    since: Clock,
    shared: Arc<Shared>,
    plan: Arc<Plan>,
    pool: Pool,
    control: ControlSocket,
    metrics: Option<TcpListener>,
    syn_watcher: Option<SynWatcher>,
    predecessor: Option<Predecessor>,
    successor: Option<Successor>,
}

/// Why a service ends.
enum End {
    /// It was told to.
    Told,
    /// The process of this number serves in its place.
    Relieved(u32),
}

impl Service {
    async fn start(
        file: Option<PathBuf>,
        plan: Plan,
        metrics: Option<std::net::TcpListener>,
        accounts: Arc<Accounts>,
        predecessor: Option<Predecessor>,
    ) -> Result<Self, Failure> {
        let number = number().map_err(|error| Failure::from_io("random numbers", &error))?;
        let cookies = Cookies::new().map_err(|error| Failure::from_io("random numbers", &error))?;
        let control = ControlSocket::listen(&plan.config.control.socket, predecessor.as_ref())?;
        let shared = Arc::new(Shared {
            accounts,
            admission: Arc::new(Admission::new(plan.config.limits.buffered)),
            early: Arc::default(),
            departures: departures(&plan.config)?,
            spares: SpareDescriptors::new(spare_descriptors()),
            cookies: Arc::new(cookies),
            pseudonym: pseudonym(number),
            number,
        });
        let plan = Arc::new(plan);
        let metrics = metrics.map(exposition::watched).transpose()?;
        let syn_watcher = syn_watcher(&plan, &shared)?;
        let pool = start_pool(&plan, &shared)
            .await
            .map_err(|error| Failure::from_io("threads", &error))?;
        Ok(Self {
            file,
            since: Clock::now(),
            shared,
            plan,
            pool,
            control,
            metrics,
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
        let (mut hand_over, mut relieved) = (
            signals(SignalKind::user_defined2())?,
            signals(SignalKind::user_defined1())?,
        );
        self.control.show()?;
        for bound in &self.plan.bound {
            tracing::info!("listening on {} ({})", bound.listen.address, bound.label);
        }
        say_ready();
        notify(&[NotifyState::Ready]);
        if let Some(Err(error)) = self.predecessor.as_ref().map(Predecessor::relieve) {
            tracing::error!("the converter before this one does not hear: {error}");
        }
        let mut watchdog = interval(sd_notify::watchdog_enabled().map_or(NEVER, |time| time / 3));
        let mut last_use = LastUse::now();
        let mut look = interval(
            self.plan
                .config
                .timeouts
                .unused
                .map_or(NEVER, |timeout| timeout / 4),
        );
        let end = loop {
            tokio::select! {
                _ = hangup.recv() => self.reload().await,
                _ = hand_over.recv() => self.start_successor(),
                status = ended(&mut self.successor) => self.go_on_without_successor(&status),
                _ = relieved.recv() => if let Some(id) = self.successor_id() { break End::Relieved(id) },
                () = first(&mut terminate, &mut interrupt) => break End::Told,
                _ = look.tick() => if self.is_unused(&mut last_use) { break End::Told },
                _ = watchdog.tick() => notify(&[NotifyState::Watchdog]),
                asked = accepted(self.control.listener.accept()) => self.tell(asked, false),
                scraped = exposition::accept(self.metrics.as_ref()) => self.expose(scraped),
            }
        };
        self.take_leave(&end);
        self.drain(&end, terminate, interrupt).await
    }

    /// Whether nobody was here for as long as the configuration has it, if it has.
    fn is_unused(&self, last_use: &mut LastUse) -> bool {
        let Some(timeout) = self.plan.config.timeouts.unused else {
            return false;
        };
        // The one before has connections as long as it is there.
        let open = self.shared.admission.open() + usize::from(self.predecessor_is_there());
        let age = last_use.age(&self.plan, open);
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
        self.successor.as_ref().and_then(Successor::id)
    }

    /// One that does not get ready gives way to the next.
    fn start_successor(&mut self) {
        if let Some(successor) = &mut self.successor {
            successor.kill();
        }
        let listeners = self.plan.bound.iter().map(|bound| bound.socket.as_fd());
        let metrics = self.metrics.as_ref().map(AsFd::as_fd);
        let sockets: Vec<_> = listeners.chain(metrics).collect();
        match Successor::start(&sockets) {
            Ok(successor) => {
                tracing::info!("handing over to process {}", successor.id().unwrap_or(0));
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
    fn take_leave(&mut self, end: &End) {
        match end {
            End::Told => {
                if let Some(successor) = &mut self.successor {
                    successor.kill();
                }
                notify(&[NotifyState::Stopping]);
                self.end_predecessor();
            }
            End::Relieved(successor) => {
                // A scrape is meant for the one that serves.
                self.metrics = None;
                notify(&[NotifyState::MainPid(*successor)]);
            }
        }
    }

    /// Takes the file anew; if it is wrong, everything stays as it was. It is over when all threads go by the new plan.
    async fn reload(&mut self) {
        notify(&[
            NotifyState::Reloading,
            NotifyState::monotonic_usec_now().unwrap_or(NotifyState::Reloading),
        ]);
        match self.take_anew() {
            Ok(()) => {
                let entered = self
                    .pool
                    .enter(Phase::Serving(Arc::clone(&self.plan)))
                    .await;
                match entered {
                    Ok(()) => tracing::info!("reloaded: {} listeners", self.plan.bound.len()),
                    Err(error) => tracing::error!("reloaded, but not in whole: {error}"),
                }
            }
            Err(failure) => tracing::error!("not reloaded, everything stays as it was: {failure}"),
        }
        notify(&[NotifyState::Ready]);
    }

    /// The file becomes the plan. On a failure nothing has changed.
    fn take_anew(&mut self) -> Result<(), Failure> {
        let config = self
            .file
            .as_deref()
            .map_or_else(|| Ok(Config::default()), config::load)?;
        for (key, changed) in [
            ("workers", config.workers != self.plan.config.workers),
            ("leaving", config.leaving != self.plan.config.leaving),
            (
                "leave where no listener has had it",
                config.leaves() && self.shared.departures.is_none(),
            ),
            (
                "timeouts.unused",
                config.timeouts.unused != self.plan.config.timeouts.unused,
            ),
            ("control.socket", config.control != self.plan.config.control),
        ] {
            if changed {
                return Err(Failure::new(
                    Exit::Usage,
                    format!("{key} can change by a restart only"),
                ));
            }
        }
        let passed = &mut Passed::default();
        let new_metrics = if config.metrics == self.plan.config.metrics {
            None
        } else {
            let socket = exposition::socket(config.metrics.address, passed)?;
            Some(socket.map(exposition::watched).transpose()?)
        };
        let accounts = &self.shared.accounts;
        let plan = Plan::new(config, Some(&self.plan), passed, &accounts.metrics)?;
        let syn_watcher = syn_watcher(&plan, &self.shared)?;
        accounts.log.open(plan.config.log.access.as_deref())?;
        if plan.config.limits.backlog != self.plan.config.limits.backlog {
            plan.take_backlog()
                .map_err(|error| Failure::from_io("limits.backlog", &error))?;
        }
        let budget = &self.shared.admission.budget;
        budget.set(plan.config.limits.buffered);
        if let Some(metrics) = new_metrics {
            self.metrics = metrics;
        }
        self.syn_watcher = syn_watcher;
        self.plan = Arc::new(plan);
        Ok(())
    }

    /// Waits until the last connection has ended, and a predecessor, up to the deadline. Who was relieved takes one signal for
    /// a nearer deadline; another one ends it at once.
    async fn drain(
        mut self,
        end: &End,
        mut terminate: Signal,
        mut interrupt: Signal,
    ) -> Result<(), Failure> {
        // The plan holds the listeners open: whoever comes now shall be refused, not wait for an end.
        self.plan = Arc::new(self.plan.without_listeners());
        self.syn_watcher = None;
        if let Err(error) = self.pool.enter(Phase::Draining).await {
            tracing::error!("{error}");
        }
        let timeouts = &self.plan.config.timeouts;
        let (mut told, timeout) = match end {
            End::Told => (true, timeouts.drain),
            End::Relieved(_) => (false, timeouts.hand_over),
        };
        let mut deadline = Instant::now() + timeout;
        tracing::info!(
            "ending: {} connections are open",
            self.shared.admission.open()
        );
        let is_over = || self.shared.admission.open() == 0 && !self.predecessor_is_there();
        while !is_over() && Instant::now() < deadline {
            tokio::select! {
                () = sleep(DRAIN_STEP) => {}
                () = sleep_until(deadline) => {}
                () = first(&mut terminate, &mut interrupt) => {
                    if told {
                        break;
                    }
                    told = true;
                    deadline = deadline.min(Instant::now() + timeouts.drain);
                    self.end_predecessor();
                }
                asked = accepted(self.control.listener.accept()) => self.tell(asked, true),
                scraped = exposition::accept(self.metrics.as_ref()) => self.expose(scraped),
            }
        }
        let left = self.shared.admission.open();
        self.end_predecessor();
        let deadline = Instant::now() + AT_ONCE;
        while self.predecessor_is_there() && Instant::now() < deadline {
            sleep(DRAIN_STEP).await;
        }
        self.pool.end();
        if !self.shared.accounts.log.close(LAST_LINES) {
            tracing::error!(
                "the last lines of the access log are lost: {LAST_LINES:?} was not enough"
            );
        }
        if left == 0 {
            return Ok(());
        }
        Err(Failure::new(
            Exit::WrongResult,
            format!("{left} connections had not ended in time and were reset"),
        ))
    }

    fn tell(
        &self,
        asked: Option<(tokio::net::UnixStream, tokio::net::unix::SocketAddr)>,
        draining: bool,
    ) {
        if let Some((stream, _)) = asked {
            let status = self.status(draining);
            spawn_local(async move { control::answer(stream, &status).await });
        }
    }

    fn expose(&self, stream: Option<tokio::net::TcpStream>) {
        if let Some(stream) = stream {
            let shared = Arc::clone(&self.shared);
            let next_hops = Arc::clone(&self.plan.next_hops);
            let handoff = self.plan.handoff.clone();
            spawn_local(exposition::answer(stream, move || {
                shared.accounts.metrics.exposition(Levels {
                    open: shared.admission.open(),
                    buffered: shared.admission.budget.used(),
                    log_lines_dropped: shared.accounts.log.dropped(),
                    early_waiting: shared.early.waiting(),
                    remembered_servers: next_hops.remembered(),
                    handoff_threshold: handoff.map_or(0, |each| each.learned.threshold()),
                    kernel: MptcpCounters::now(),
                })
            }));
        }
    }

    fn status(&self, draining: bool) -> Status {
        let listeners = self.plan.bound.iter().map(|bound| ListenerStatus {
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
            most_connections: self.plan.most,
            buffered_bytes: self.shared.admission.budget.used(),
            log_lines_dropped: self.shared.accounts.log.dropped(),
            handoff_threshold_bytes: self
                .plan
                .handoff
                .as_ref()
                .map(|each| each.learned.threshold()),
            kernel_mptcp: MptcpCounters::now(),
            listeners: listeners.collect(),
            connections: self.shared.accounts.seen(SHOWN),
        }
    }
}

/// Whoever closed our standard output does not wait for this.
fn say_ready() {
    if let Err(error) = writeln!(io::stdout(), "ready") {
        tracing::warn!("standard output: {error}");
    }
}

/// A number that no other process has: two converters in one chain are no loop.
fn number() -> io::Result<u64> {
    let mut number = [0; 8];
    getrandom(&mut number, GetRandomFlags::empty())?;
    Ok(u64::from_ne_bytes(number))
}

/// A name in Via.
fn pseudonym(number: u64) -> Pseudonym {
    Pseudonym::new(&format!("tributary-{number:016x}")).unwrap_or_default()
}

/// The end of the successor, if there is one.
async fn ended(successor: &mut Option<Successor>) -> io::Result<ExitStatus> {
    match successor {
        Some(successor) => successor.ended().await,
        None => std::future::pending().await,
    }
}

/// For listeners that leave connections, if any does.
fn departures(config: &Config) -> Result<Option<Arc<Departures>>, Failure> {
    if !config.leaves() {
        return Ok(None);
    }
    let attempted = "leaving (needs CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON and the devices)";
    let loaded = Departures::load(&config.leaving);
    loaded
        .map(|departures| Some(Arc::new(departures)))
        .map_err(|error| Failure::from_io(attempted, &error))
}

/// For the listeners of `plan` that want one, if any does.
fn syn_watcher(plan: &Plan, shared: &Shared) -> Result<Option<SynWatcher>, Failure> {
    if !plan.config.forwards_syns_early() {
        return Ok(None);
    }
    let start = || {
        let names = Names::new(&plan.config.names.servers);
        let routes = Rc::new(Routes::open()?);
        let dialer = Dialer::new(
            names,
            routes,
            Arc::clone(&plan.next_hops),
            shared.spares.clone(),
            shared.number,
        );
        let counters = shared.accounts.metrics.early_syns();
        SynWatcher::start(&plan.config, &shared.early, dialer, counters)
    };
    start()
        .map(Some)
        .map_err(|error| Failure::from_io("early_syn (needs CAP_NET_RAW)", &error))
}

/// As many threads as configured, or as there are processors, each ready to accept.
async fn start_pool(plan: &Arc<Plan>, shared: &Arc<Shared>) -> io::Result<Pool> {
    let mut pool = Pool::start(
        workers(&plan.config),
        shared,
        Phase::Serving(Arc::clone(plan)),
    )?;
    pool.reached().await?;
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
