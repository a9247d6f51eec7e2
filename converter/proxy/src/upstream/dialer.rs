//! Connects to servers: resolves names, checks every address before a packet leaves, and takes the quickest one.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd as _;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use socket2::Socket;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use tributary_proto::http::Authority;
use tributary_sys::canonical;

use super::addresses::Addresses;
use super::fd_pool::{FdPermit, FdPool};
use super::idle_pool::IdlePool;
use super::names::Names;
use super::next_hop::PendingRequest;
use super::race::race;
use super::routes::{CurrentHops, NextHops};
use super::{DialError, DialOptions, Upstream};
use crate::config::{Config, UpstreamSettings};
use crate::io::stream::ResetOnDrop;
use crate::kernel::route::{RouteKind, RouteQuery, Routes};
use crate::kernel::sockets::{self, IcmpError, IcmpWatch};
use crate::policy::targets::{self, Forbidden};

/// Converters that a request may have passed before this one.
const LONGEST_CHAIN: usize = 15;
/// Between two attempts to take the client's own address and port.
const TAKEN_POLL: Duration = Duration::from_millis(10);

/// Connects to servers for one thread.
pub struct Dialer {
    pub(super) names: Names,
    routes: Rc<Routes>,
    next_hops: CurrentHops,
    pub(super) fd_pool: FdPool,
    pub(super) number: u64,
    pub(super) hop_pool: Rc<IdlePool>,
}

impl Dialer {
    /// Resolves with `names`, asks the kernel's `routes`, and finds the next converter in `next_hops`. Sockets beside the
    /// first one to a server count in `fd_pool`. `number` is this converter's own, for
    /// [`crate::config::Gateway::loop_check`]. Connections to next converters wait in `hop_pool`.
    pub fn new(
        names: Names,
        routes: Rc<Routes>,
        next_hops: CurrentHops,
        fd_pool: FdPool,
        number: u64,
        hop_pool: Rc<IdlePool>,
    ) -> Self {
        Self {
            names,
            routes,
            next_hops,
            fd_pool,
            number,
            hop_pool,
        }
    }

    /// The routes to servers as they are now.
    pub(super) fn next_hops(&self) -> Arc<NextHops> {
        Arc::clone(&self.next_hops.borrow())
    }

    /// Reserves a descriptor for something beside the connection to the server, if there is one.
    pub fn fd_permit(&self) -> Option<FdPermit> {
        self.fd_pool.one()
    }

    /// Connects to `target`, without a timeout of its own. `early` was read from the client before. `config` has the allowed
    /// targets.
    pub async fn dial(
        &self,
        target: &Authority,
        options: DialOptions,
        early: &[u8],
        config: &Config,
    ) -> Result<Upstream, DialError> {
        // It may travel in the SYN to one alone: no two servers shall do what it asks for.
        let settings = &config.upstream;
        if let Some(address) = target.address() {
            let address = self.check(address, options.source, false, config)?;
            return begin_once_free(address, &options, early, config).await?.end().await;
        }
        let mut addresses = Addresses::of(self, target, &options, config).await;
        let Some(first) = addresses.next().await else {
            return Err(addresses.error());
        };
        if addresses.is_last() {
            return connect(first, &options, early, settings).await;
        }
        let mut first = Some(first);
        let next = async || match first.take() {
            Some(first) => Some(first),
            None => addresses.next().await,
        };
        self.connect_to_one(next, options, settings).await
    }

    /// Starts a connection to `server` without waiting: with `via_gateway` to the next converter, if its route has one that
    /// is available.
    pub fn begin(
        &self,
        server: SocketAddr,
        options: &DialOptions,
        via_gateway: bool,
        config: &Config,
    ) -> Result<PendingConnect, DialError> {
        let server = self.check(server, options.source, via_gateway, config)?;
        if let Some(gateway) = config.gateway.as_ref().filter(|_| via_gateway) {
            let begun = self.begin_via_gateway(server, gateway, &config.upstream)?;
            if let Some(pending) = begun {
                return Ok(PendingConnect::ViaGateway(pending));
            }
        }
        let attempt = Attempt::begin(server, options, &[], &config.upstream)?;
        Ok(PendingConnect::Direct(attempt))
    }

    /// Completes a connection that was started before. `early` was read from the client since, and goes to the next
    /// converter behind the request if the route has one.
    pub async fn resume(
        &self,
        begun: PendingConnect,
        options: DialOptions,
        early: &[u8],
        config: &Config,
    ) -> Result<Upstream, DialError> {
        match begun {
            PendingConnect::Direct(attempt) => {
                let ended = timeout(config.timeouts.connect, attempt.end()).await;
                ended.unwrap_or(Err(DialError::TimedOut))
            }
            PendingConnect::ViaGateway(pending) => {
                Box::pin(self.resume_via_gateway(pending, options, early, config)).await
            }
        }
    }

    /// Whether a request that has passed these converters is in a loop: it was here before, or its chain, with the
    /// `source_route` converters to come, is too long.
    pub fn is_loop(&self, path_trace: &[u64], source_route: usize) -> bool {
        path_trace.contains(&self.number) || path_trace.len() + source_route > LONGEST_CHAIN
    }

    /// Connects to the quickest of the addresses that `next` returns, one at least.
    pub(super) async fn connect_to_one(
        &self,
        next: impl AsyncFnMut() -> Option<SocketAddr>,
        options: DialOptions,
        settings: &UpstreamSettings,
    ) -> Result<Upstream, DialError> {
        let means = Rc::new((options, settings.clone()));
        let connect = move |address| {
            let means = Rc::clone(&means);
            async move { connect(address, &means.0, &[], &means.1).await }
        };
        Box::pin(race(next, &self.fd_pool, connect))
            .await
            .map(|(upstream, _)| upstream)
            .map_err(|error| error.unwrap_or(DialError::NoSuchName))
    }

    /// Whether this is one of the machine's own addresses.
    pub fn is_own(&self, address: IpAddr) -> bool {
        let kind = self.routes.kind_of(RouteQuery::about(address));
        matches!(kind, Ok(RouteKind::Own))
    }

    /// Checks an address, and returns the one to connect to: an IPv4-mapped one would become an IPv4 connection past the
    /// routes and filters of IPv6. With `via_gateway` another converter may have the route that this machine has not.
    pub(super) fn check(
        &self,
        address: SocketAddr,
        source: Option<SocketAddr>,
        via_gateway: bool,
        config: &Config,
    ) -> Result<SocketAddr, DialError> {
        let address = canonical(address);
        if let Some(why) = targets::forbidden(address, &config.targets) {
            return Err(DialError::Forbidden(why));
        }
        let query = RouteQuery {
            to: address.ip(),
            from: sockets::own_source(address, &config.upstream).filter(|_| source.is_none()),
            mark: config.upstream.mark,
        };
        match self.routes.kind_of(query)? {
            RouteKind::Unicast => {}
            RouteKind::Own if own_is_allowed(address, config) => {}
            RouteKind::Own => return Err(DialError::Forbidden(Forbidden::Own)),
            RouteKind::Group => return Err(DialError::Forbidden(Forbidden::Special)),
            // Of a source that is not this machine's the kernel tells nothing, and a rule may have a route for it alone:
            // connect(2) will say.
            RouteKind::Unreachable if source.is_some() || via_gateway => {}
            RouteKind::Denied if source.is_some() => {}
            RouteKind::Denied => return Err(DialError::Forbidden(Forbidden::Denied)),
            RouteKind::Unreachable => return Err(DialError::Unreachable(IcmpError::NETWORK)),
        }
        self.check_embedded(query).map(|()| address)
    }

    /// The same for the IPv4 address that an IPv6 one carries, which a translator or relay may bring back to this machine.
    /// Where this machine itself has no route to it the translator has.
    fn check_embedded(&self, query: RouteQuery) -> Result<(), DialError> {
        let Some(inner) = targets::embedded_ipv4(query.to) else {
            return Ok(());
        };
        let inner = RouteQuery {
            to: inner.into(),
            from: None,
            ..query
        };
        match self.routes.kind_of(inner)? {
            RouteKind::Own => Err(DialError::Forbidden(Forbidden::Own)),
            RouteKind::Group => Err(DialError::Forbidden(Forbidden::Special)),
            RouteKind::Denied => Err(DialError::Forbidden(Forbidden::Denied)),
            RouteKind::Unicast | RouteKind::Unreachable => Ok(()),
        }
    }
}

/// Whether the machine's own address may be reached; never at one of our listeners, since that would go round in
/// circles.
fn own_is_allowed(address: SocketAddr, config: &Config) -> bool {
    let listens = |ip: IpAddr| ip.is_unspecified() || ip == address.ip();
    let mut listeners = config.listen.iter().map(|listen| listen.address);
    let is_listener = listeners.any(|each| each.port() == address.port() && listens(each.ip()));
    !is_listener && targets::own_is_allowed(address.ip(), &config.targets)
}

pub(super) async fn connect(
    address: SocketAddr,
    options: &DialOptions,
    early: &[u8],
    settings: &UpstreamSettings,
) -> Result<Upstream, DialError> {
    let attempt = Attempt::begin(address, options, early, settings)?;
    attempt.end().await
}

/// Sends the SYN. The client's own address and port may be those of the connection that another process of this converter
/// began with the client's SYN in the moment of a hand-over: that process lets it go soon, at the latest in
/// `early_syn.timeout`.
async fn begin_once_free(
    address: SocketAddr,
    options: &DialOptions,
    early: &[u8],
    config: &Config,
) -> io::Result<Attempt> {
    let until = Instant::now() + config.early_syn.timeout;
    let may_be_taken = options.early_syn && options.source.is_some();
    loop {
        match Attempt::begin(address, options, early, &config.upstream) {
            Err(error) if may_be_taken && is_taken(&error) && Instant::now() < until => sleep(TAKEN_POLL).await,
            begun => return begun,
        }
    }
}

/// Whether there is a connection of these addresses and ports (`__inet_check_established()` in the kernel's
/// `net/ipv4/inet_hashtables.c`).
fn is_taken(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EADDRNOTAVAIL)
}

/// A connection that is not established yet, and belongs to no thread.
#[derive(Debug)]
pub enum PendingConnect {
    /// To the server.
    Direct(Attempt),
    /// To the next converter, which is to connect to the server.
    ViaGateway(PendingRequest),
}

impl PendingConnect {
    /// Resets it, so that the server does not take it for a used one.
    pub fn give_up(self) {
        match self {
            Self::Direct(attempt) => sockets::reset_on_close(&attempt.socket),
            Self::ViaGateway(pending) => pending.give_up(),
        }
    }
}

/// A SYN that was sent to a server.
#[derive(Debug)]
pub struct Attempt {
    socket: Socket,
    /// The server's.
    pub address: SocketAddr,
    icmp: Option<IcmpWatch>,
    /// The early bytes that the SYN did not take, if this connection was to take them.
    unsent: Option<Vec<u8>>,
}

impl Attempt {
    /// Sends the SYN: with the client's `early` bytes, where the settings allow that and this machine has a cookie of the
    /// server (RFC 7413).
    pub fn begin(
        address: SocketAddr,
        options: &DialOptions,
        early: &[u8],
        settings: &UpstreamSettings,
    ) -> io::Result<Self> {
        let mptcp = options.mptcp || settings.mptcp;
        let socket = sockets::to_server(address, mptcp, settings, options.source)?;
        let icmp = options.icmp.then(|| IcmpWatch::on(&socket, address));
        // Without data the kernel would hold the SYN back, and a server that speaks first would wait for ever.
        let fast = settings.fast_open && !early.is_empty();
        if fast {
            sockets::open_fast(socket.as_fd());
        }
        let sent = sockets::connect_with(&socket, address, if fast { early } else { &[] })?;
        Ok(Self {
            socket,
            address,
            icmp,
            unsent: fast.then(|| early[sent..].to_vec()),
        })
    }

    /// Waits for the server's answer without a timeout of its own.
    pub async fn end(self) -> Result<Upstream, DialError> {
        let stream = TcpStream::from_std(self.socket.into())?;
        // One that failed takes no writes (epoll(7): EPOLLERR and EPOLLHUP).
        let failed = stream.ready(Interest::WRITABLE).await?.is_write_closed();
        if let Some(error) = failed.then(|| stream.take_error()).transpose()?.flatten() {
            let unreachable = self.icmp.and_then(|_| IcmpWatch::error(&stream));
            return Err(unreachable.map_or_else(|| error.into(), DialError::Unreachable));
        }
        if let Some(icmp) = self.icmp {
            icmp.off(&stream);
        }
        sockets::send_at_once(&stream);
        let stream = ResetOnDrop::new(stream);
        if let Some(unsent) = &self.unsent {
            stream.send(unsent, None).await?;
        }
        Ok(Upstream {
            stream,
            address: self.address,
            early: Vec::new(),
            early_sent: self.unsent.is_some(),
            size: None,
            hop: None,
            kept: None,
        })
    }
}
