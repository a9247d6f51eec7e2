//! The active configuration with its sockets.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;

use handoff_front::{BackEndSettings, Identity, Role, Sessions, SwitchAddress};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::net::listen;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tributary_program::{Exit, Failure};

use super::upgrade::InheritedSockets;
use crate::config::{Config, Listen};
use crate::kernel::sockets;
use crate::observe::metrics::{ListenerMetrics, Metrics};
use crate::policy::handoff::SizeEstimator;
use crate::upstream::NextHops;

/// Descriptors for everything but connections: logs, control, metrics, a reload's.
const RESERVED: u64 = 128;
/// A thread's own: epoll(7), its waker, two of rtnetlink(7), and connections to name servers; its copy of each listener
/// besides.
const PER_WORKER: u64 = 8;
/// Of how many descriptors one is spare, for all that a connection may need beyond its two: more sockets that race to a
/// server, look-ups, a raw socket for Extended Connect, and refusals that are being sent.
const SPARE: u64 = 8;
/// Descriptors that there is room for from the start: 64 KiB of the kernel's memory.
const TABLE: i32 = 8191;
/// A client's, and a server's.
const PER_CONNECTION: u64 = 2;

/// A configuration with its sockets.
pub struct ActiveConfig {
    pub config: Arc<Config>,
    /// Client connections at most.
    pub most: usize,
    /// The listeners, in the configuration's order.
    pub bound: Vec<Arc<BoundListener>>,
    /// Which converter is next on the way to a server.
    pub next_hops: Arc<NextHops>,
    /// For listeners of kind `handoff`.
    pub handoff: Option<ActiveHandoff>,
}

/// What listeners of kind `handoff` share.
#[derive(Clone)]
pub struct ActiveHandoff {
    /// Where the back ends and the switch are.
    pub settings: Arc<handoff_front::Settings>,
    /// Estimates how large answers are.
    pub estimator: Arc<SizeEstimator>,
}

#[derive(Debug)]
pub struct BoundListener {
    pub listen: Listen,
    pub counters: Arc<ListenerMetrics>,
    /// Shared with the same listener of the configuration before and after.
    pub socket: Arc<TcpListener>,
    /// Whether a converter made it, and not the service manager.
    pub is_ours: bool,
}

impl BoundListener {
    fn take_backlog(&self, backlog: u16) -> io::Result<()> {
        // Once more is no error, and sets it (listen(2)).
        Ok(listen(&self.socket, i32::from(backlog))?)
    }
}

impl ActiveConfig {
    /// Makes the sockets that neither `old` nor the service manager has. Changes nothing on a failure.
    pub fn new(
        mut config: Config,
        old: Option<&ActiveConfig>,
        inherited: &mut InheritedSockets,
        metrics: &Metrics,
    ) -> Result<Self, Failure> {
        let most = most_connections(&config)?;
        let mut bound = Vec::with_capacity(config.listen.len());
        for listen in &config.listen {
            let (socket, is_ours) = socket(listen, &config, old, inherited)?;
            bound.push(Arc::new(BoundListener {
                socket,
                is_ours,
                counters: metrics.for_listener(&listen.label),
                listen: listen.clone(),
            }));
        }
        let next_hops = Arc::new(next_hops(&config, old)?);
        if let Some(gateway) = &mut config.gateway {
            // They are there now, and connections keep their configuration.
            gateway.routes = Vec::new();
        }
        Ok(Self {
            next_hops,
            handoff: handoff(&config, old)?,
            config: Arc::new(config),
            most,
            bound,
        })
    }

    /// Sets the sockets' options, whoever made the sockets.
    pub fn set_up(&self) -> io::Result<()> {
        for bound in &self.bound {
            sockets::set_up(&*bound.socket, &bound.listen)?;
            if bound.is_ours {
                bound.take_backlog(self.config.limits.backlog)?;
            }
        }
        Ok(())
    }

    /// Sets the sockets' backlog to that of this configuration.
    pub fn take_backlog(&self) -> io::Result<()> {
        let mut all = self.bound.iter();
        all.try_for_each(|bound| bound.take_backlog(self.config.limits.backlog))
    }

    /// The same without listeners, for a drain.
    pub fn without_listeners(&self) -> Self {
        Self {
            config: Arc::clone(&self.config),
            most: self.most,
            bound: Vec::new(),
            next_hops: Arc::clone(&self.next_hops),
            handoff: self.handoff.clone(),
        }
    }
}

fn next_hops(config: &Config, old: Option<&ActiveConfig>) -> Result<NextHops, Failure> {
    let Some(gateway) = &config.gateway else {
        return Ok(NextHops::default());
    };
    NextHops::new(gateway, old.map(|old| old.next_hops.as_ref()))
        .map_err(|error| Failure::from_io("gateway.syn_option (needs CAP_BPF, CAP_NET_ADMIN)", &error))
}

/// The same as before if nothing about it has changed: connections and learned sizes are kept.
fn handoff(config: &Config, old: Option<&ActiveConfig>) -> Result<Option<ActiveHandoff>, Failure> {
    let Some(wanted) = &config.handoff else {
        return Ok(None);
    };
    if let Some(old) = old.filter(|old| old.config.handoff.as_ref() == Some(wanted)) {
        return Ok(old.handoff.clone());
    }
    let identity = Identity::read(&wanted.identity, Role::Front).map_err(|error| {
        let message = format!("handoff.identity: {error}");
        Failure::new(Exit::NoInput, message)
    })?;
    let switch = match wanted.switch.parse() {
        Ok(address) => SwitchAddress::Tcp(address),
        Err(_) => SwitchAddress::Unix(wanted.switch.clone().into()),
    };
    let back_ends = wanted.back_ends.iter().map(|each| BackEndSettings {
        name: each.name.clone(),
        fronts: each.fronts,
        hand_off: each.hand_off,
        connections: Arc::default(),
        sessions: Sessions::default(),
    });
    let estimator = Arc::new(SizeEstimator::new(wanted.relay_below));
    Ok(Some(ActiveHandoff {
        settings: Arc::new(handoff_front::Settings {
            identity,
            switch,
            switch_sessions: Sessions::default(),
            back_ends: back_ends.collect(),
        }),
        estimator,
    }))
}

/// The listener's socket, and whether a converter made it.
fn socket(
    listen: &Listen,
    config: &Config,
    old: Option<&ActiveConfig>,
    inherited: &mut InheritedSockets,
) -> Result<(Arc<TcpListener>, bool), Failure> {
    if let Some(same) = old.and_then(|old| old.bound.iter().find(|each| each.listen.address == listen.address)) {
        let kept = &same.listen;
        if made_for(kept) == made_for(listen) {
            return Ok((Arc::clone(&same.socket), same.is_ours));
        }
        let message = format!(
            "{}: kind, mptcp, intercept and offload of a listener can change by a restart only",
            listen.address
        );
        return Err(Failure::new(Exit::Usage, message));
    }
    let attempted = format!("cannot listen on {} ({})", listen.address, listen.label);
    let failed = |error| Failure::from_io(&attempted, &error);
    if let Some(socket) = inherited.claim(listen)? {
        return Ok((Arc::new(socket.listener), socket.is_ours));
    }
    let made = sockets::listener(listen, config.limits.backlog);
    if let (Some(own), Err(error)) = (at_port(old, listen), &made) {
        if error.kind() == ErrorKind::AddrInUse {
            let message = format!(
                "{}: {own}, a listener of this converter, has this port: it can change by a restart only",
                listen.address
            );
            return Err(Failure::new(Exit::Usage, message));
        }
    }
    made.map(|socket| (Arc::new(socket.into()), true)).map_err(failed)
}

/// What a listener's socket cannot change.
fn made_for(listen: &Listen) -> (&'static str, bool, bool, bool) {
    let kind = listen.kind.name();
    (kind, listen.tproxy().is_some(), listen.mptcp, listen.offload)
}

/// The address of a listener that `old` has at the same port, and that has to go for this one.
fn at_port(old: Option<&ActiveConfig>, listen: &Listen) -> Option<SocketAddr> {
    let mut known = old?.bound.iter().map(|bound| bound.listen.address);
    known.find(|address| includes(*address, listen.address) || includes(listen.address, *address))
}

/// Whether `one` is for all addresses, and `other` among them. A socket at `[::]` is for both families.
fn includes(one: SocketAddr, other: SocketAddr) -> bool {
    let same_family = one.is_ipv6() || other.is_ipv4();
    one.ip().is_unspecified() && one.port() == other.port() && same_family
}

fn open_files() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Descriptors beyond two for each connection.
pub fn spare_descriptors() -> usize {
    // A semaphore counts no further.
    usize::try_from(open_files() / SPARE).map_or(1 << 20, |spare| spare.min(1 << 20))
}

/// Threads: as configured, or as many as there are processors.
pub fn workers(config: &Config) -> usize {
    config
        .workers
        .or_else(|| available_parallelism().ok())
        .map_or(1, NonZero::get)
}

/// Connections that there are descriptors for.
fn room(files: u64, early: u64, workers: u64, listeners: u64) -> u64 {
    let threads = workers * (PER_WORKER + listeners);
    files.saturating_sub(RESERVED + early + threads + files / SPARE) / PER_CONNECTION
}

/// As configured, or as many as the limit of open files has room for.
fn most_connections(config: &Config) -> Result<usize, Failure> {
    let files = open_files();
    let early = early_connections(config);
    if early > files / 2 {
        return Err(Failure::new(
            Exit::System,
            format!(
                "early_syn.connections = {early}: accepted: at most {} with {files} open files (ulimit -n, LimitNOFILE=)",
                files / 2
            ),
        ));
    }
    let room = room(files, early, workers(config) as u64, config.listen.len() as u64);
    let room = usize::try_from(room).unwrap_or(usize::MAX);
    match config.limits.connections {
        Some(wanted) if wanted > room => Err(Failure::new(
            Exit::System,
            format!(
                "limits.connections = {wanted}: accepted: at most {room} with {files} open files (ulimit -n, LimitNOFILE=)"
            ),
        )),
        Some(wanted) => Ok(wanted),
        None => Ok(room),
    }
}

/// Those that no client has claimed yet have a descriptor each.
fn early_connections(config: &Config) -> u64 {
    if config.forwards_syns_early() {
        config.early_syn.connections as u64
    } else {
        0
    }
}

/// Takes as many open files as this process is allowed, and room for the first ones. Before there are threads.
pub fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    // A system that refuses leaves what there is, and most_connections goes by that.
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        },
    );
    // Once there are threads each growth of the table of descriptors takes a grace period of the kernel's (RCU; fs/file.c),
    // some 20 ms in which nobody is accepted.
    let _ = fcntl_dupfd_cloexec(std::io::stdin(), TABLE);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_in_the_way_of_those_at_its_port_that_it_includes() {
        let at = |text: &str| text.parse::<SocketAddr>().expect("an address");
        for (one, other, expected) in [
            ("0.0.0.0:80", "10.0.0.1:80", true),
            ("[::]:80", "10.0.0.1:80", true),
            ("[::]:80", "[fd00::1]:80", true),
            ("0.0.0.0:80", "[fd00::1]:80", false),
            ("0.0.0.0:80", "10.0.0.1:81", false),
            ("10.0.0.2:80", "10.0.0.1:80", false),
        ] {
            assert_eq!(includes(at(one), at(other)), expected, "{one} and {other}");
        }
    }

    #[test]
    fn connections_with_all_else_never_take_more_descriptors_than_there_are() {
        for files in [0, 100, 256, 1024, 4096, 524_288] {
            for (early, workers, listeners) in [(0, 1, 1), (1024, 2, 3), (0, 64, 8)] {
                let room = room(files, early, workers, listeners);
                let threads = workers * (PER_WORKER + listeners);
                let all = RESERVED + early + threads + files / SPARE + room * PER_CONNECTION;
                assert!(room == 0 || all <= files, "{files}, {early}, {workers}, {listeners}");
            }
        }
        assert_eq!(room(1024, 0, 2, 3), 373);
    }
}
