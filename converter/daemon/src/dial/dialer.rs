//! Connections to servers: names resolved, every address checked before a packet leaves, the quickest one taken.

use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

use tokio::time::timeout;

use super::attempt::{Attempt, PendingDial};
use super::error::DialError;
use super::names::Names;
use super::next_hop::{HopAnswer, HopError, NextHop, PendingRequest};
use super::next_hops::NextHops;
use super::order;
use super::race::race;
use super::server::{DialOptions, Server};
use super::target::Target;

use crate::bytes::stream::Stream;
use crate::config::{Config, Downstream, Gateway, WhenAway};
use crate::kernel::route::{self, Routes};
use crate::kernel::sockets::{self, IcmpError};
use crate::policy::targets::{self, Forbidden};

/// Converters that a request may have passed before this one.
const LONGEST_CHAIN: usize = 15;

/// Connects to servers for one thread.
pub struct Dialer {
    names: Names,
    routes: Rc<Routes>,
    next_hops: Arc<NextHops>,
    number: u64,
}

impl Dialer {
    /// Asks `names` for addresses, `routes` what they are to this machine, and `next_hops` which way leads there. `number`
    /// is this converter's own, for [`Gateway::loop_check`].
    pub fn new(names: Names, routes: Rc<Routes>, next_hops: Arc<NextHops>, number: u64) -> Self {
        Self {
            names,
            routes,
            next_hops,
            number,
        }
    }

    /// A connection to `target`. `early` came from the client already. `config` says what is allowed and how long it may
    /// take.
    pub async fn dial(
        &self,
        target: &Target,
        options: DialOptions,
        early: &[u8],
        config: &Config,
    ) -> Result<Server, DialError> {
        let attempt = async {
            let allowed = self.allowed(target, config).await?;
            connect_to_one(allowed, options, early, &config.downstream).await
        };
        timeout(config.timeouts.connect, attempt)
            .await
            .unwrap_or(Err(DialError::TimedOut))
    }

    /// Begins a connection to `server`, from the address `source` if there is one, and waits for nothing: to the next
    /// converter, where `via_gateway` has it so, there is one on this way, and it is not known to be away.
    pub fn begin(
        &self,
        server: SocketAddr,
        source: Option<SocketAddr>,
        via_gateway: bool,
        config: &Config,
    ) -> Result<PendingDial, DialError> {
        self.check(server, config)?;
        if let Some((hop, gateway)) = self.next_hop(server, config).filter(|_| via_gateway) {
            if hop.is_worth_a_try() {
                let passed = self.passed(&[], gateway);
                let asking = hop.begin(server, &passed, &[], gateway, &config.downstream);
                return asking
                    .map(PendingDial::ByGateway)
                    .map_err(|error| match error {
                        HopError::Away(_) => DialError::GatewayAway,
                        HopError::Server(error) => error,
                    });
            }
            if gateway.when_away == WhenAway::Refuse {
                return Err(DialError::GatewayAway);
            }
        }
        let options = DialOptions {
            source,
            ..DialOptions::default()
        };
        Attempt::begin(server, &options, &[], &config.downstream).map(PendingDial::Direct)
    }

    /// A connection that was begun already. `early` came from the client since, and goes to the next converter behind
    /// the request if that is the way.
    pub async fn go_on(
        &self,
        begun: PendingDial,
        options: DialOptions,
        early: &[u8],
        config: &Config,
    ) -> Result<Server, DialError> {
        match begun {
            PendingDial::Direct(attempt) => {
                let address = attempt.address;
                timeout(config.timeouts.connect, attempt.end())
                    .await
                    .unwrap_or(Err(DialError::TimedOut))
                    .map(|connected| Server::direct(connected, address))
            }
            PendingDial::ByGateway(asking) => {
                Box::pin(self.go_on_by_gateway(asking, options, early, config)).await
            }
        }
    }

    async fn go_on_by_gateway(
        &self,
        asking: PendingRequest,
        options: DialOptions,
        early: &[u8],
        config: &Config,
    ) -> Result<Server, DialError> {
        let target = Target::Address(asking.server);
        if let Some((hop, gateway)) = self.next_hop(asking.server, config) {
            let passed = self.passed(&options.passed, gateway);
            let end = hop.end_begun(asking, &passed, early, gateway);
            match timeout(config.timeouts.connect, end).await {
                Ok(Ok(HopAnswer::Connected(server))) => return Ok(server),
                Ok(Ok(HopAnswer::Cookie)) => {}
                Ok(Err(HopError::Away(why))) => hop.is_away(gateway, &why),
                Ok(Err(HopError::Server(error))) => return Err(error),
                Err(_) => return Err(DialError::TimedOut),
            }
        }
        self.dial_by_gateway(&target, options, early, config).await
    }

    /// A connection to `target` by way of the next converter (RFC 8803), where there is one on that way; when that is
    /// away, as the configuration says. `early` came from the client already, and travels with the request.
    pub async fn dial_by_gateway(
        &self,
        target: &Target,
        options: DialOptions,
        early: &[u8],
        config: &Config,
    ) -> Result<Server, DialError> {
        let attempt = async {
            let mut last = DialError::NoSuchName;
            let mut direct = Vec::new();
            for server in self.allowed(target, config).await? {
                let Some((hop, gateway)) = self.next_hop(server, config) else {
                    direct.push(server);
                    continue;
                };
                let passed = self.passed(&options.passed, gateway);
                let asked = hop.ask(server, &passed, early, gateway, &config.downstream);
                match Box::pin(asked).await {
                    Some(Ok(server)) => return Ok(server),
                    Some(Err(error)) => last = error,
                    None if gateway.when_away == WhenAway::Direct => direct.push(server),
                    None => last = DialError::GatewayAway,
                }
            }
            if direct.is_empty() {
                return Err(last);
            }
            connect_to_one(direct, options, early, &config.downstream).await
        };
        timeout(config.timeouts.connect, attempt)
            .await
            .unwrap_or(Err(DialError::TimedOut))
    }

    /// The next converter on the way to `server`, if one is configured and the way leads there.
    fn next_hop<'a>(
        &'a self,
        server: SocketAddr,
        config: &'a Config,
    ) -> Option<(&'a NextHop, &'a Gateway)> {
        let gateway = config.gateway.as_ref()?;
        Some((self.next_hops.towards(server.ip())?, gateway))
    }

    /// The converters that a request has passed when it leaves this one, if the next one is to know.
    fn passed(&self, before: &[u64], gateway: &Gateway) -> Vec<u64> {
        if gateway.loop_check {
            [before, &[self.number]].concat()
        } else {
            Vec::new()
        }
    }

    /// Whether a request that has passed these converters goes round in circles: it was here before, or has passed more
    /// than any chain has.
    pub fn is_loop(&self, passed: &[u64]) -> bool {
        passed.contains(&self.number) || passed.len() > LONGEST_CHAIN
    }

    /// The addresses to try, one at least. Those that are checked are those that are tried: nobody asks for the name a
    /// second time.
    async fn allowed(
        &self,
        target: &Target,
        config: &Config,
    ) -> Result<Vec<SocketAddr>, DialError> {
        let (name, port) = match target {
            Target::Address(address) => {
                let address = sockets::canonical(*address);
                return self.check(address, config).map(|()| vec![address]);
            }
            Target::Name(name, port) => (name, *port),
        };
        let mut allowed = Vec::new();
        let mut refused = DialError::NoSuchName;
        for address in order::alternating(Box::pin(self.names.resolve(name)).await?) {
            let address = SocketAddr::new(address, port);
            match self.check(address, config) {
                Ok(()) => allowed.push(address),
                Err(why) => refused = why,
            }
        }
        if allowed.is_empty() {
            Err(refused)
        } else {
            Ok(allowed)
        }
    }

    /// Whether this is one of the machine's own addresses.
    pub fn is_own(&self, address: IpAddr) -> bool {
        matches!(self.routes.kind_of(address), Ok(route::RouteKind::Own))
    }

    fn check(&self, address: SocketAddr, config: &Config) -> Result<(), DialError> {
        if let Some(why) = targets::forbidden(address, &config.targets) {
            return Err(DialError::Forbidden(why));
        }
        match self.routes.kind_of(address.ip())? {
            route::RouteKind::Unicast => Ok(()),
            route::RouteKind::Own if own_is_allowed(address, config) => Ok(()),
            route::RouteKind::Own => Err(DialError::Forbidden(Forbidden::Own)),
            route::RouteKind::Group => Err(DialError::Forbidden(Forbidden::Special)),
            route::RouteKind::Unreachable => Err(DialError::Unreachable(IcmpError::NETWORK)),
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

/// A connection to the quickest of `addresses`, one at least. `early` may travel in the SYN to one alone: no two servers
/// shall do what it asks for.
async fn connect_to_one(
    addresses: Vec<SocketAddr>,
    options: DialOptions,
    early: &[u8],
    settings: &Downstream,
) -> Result<Server, DialError> {
    if let [address] = addresses[..] {
        let connected = connect(address, &options, early, settings).await?;
        return Ok(Server::direct(connected, address));
    }
    let means = Rc::new((options, settings.clone()));
    let connect = move |address| {
        let means = Rc::clone(&means);
        async move { connect(address, &means.0, &[], &means.1).await }
    };
    Box::pin(race(addresses, connect))
        .await
        .map(|(connected, address)| Server::direct(connected, address))
}

async fn connect(
    address: SocketAddr,
    options: &DialOptions,
    early: &[u8],
    settings: &Downstream,
) -> Result<(Stream, bool), DialError> {
    let attempt = Attempt::begin(address, options, early, settings)?;
    attempt.end().await
}
