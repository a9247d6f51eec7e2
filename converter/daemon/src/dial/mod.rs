//! Connections to servers: names resolved, every address checked before a packet leaves, the quickest one taken.

mod gateway;
mod names;
mod order;
mod race;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

use socket2::Socket;
use tokio::net::TcpStream;
use tokio::time::timeout;

pub use gateway::GatewayState;
use gateway::{Asked, Asking, GatewayError};
pub use names::Names;
use race::race;

use crate::config::{Config, Downstream, Gateway, WhenAway};
use crate::route::{self, Routes};
use crate::sockets::{self, IcmpError, IcmpWatch};
use crate::streams::Stream;
use crate::targets::{self, Forbidden};

/// Where a client wants to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// An address.
    Address(SocketAddr),
    /// A name, and a port.
    Name(String, u16),
}

impl Target {
    /// A host as a client wrote it: an address or a name.
    pub fn named(host: String, port: u16) -> Self {
        match host.parse() {
            Ok(address) => Self::Address(SocketAddr::new(address, port)),
            Err(_) => Self::Name(host, port),
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Name(name, port) => write!(f, "{name}:{port}"),
        }
    }
}

/// What one connection asks of its way to the server, beside the configuration.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wishes {
    /// MPTCP, whatever the configuration says.
    pub mptcp: bool,
    /// This source address, which is the client's.
    pub source: Option<SocketAddr>,
    /// To know which ICMP error ended the attempt: without it a port unreachable looks like a reset.
    pub icmp: bool,
}

/// Why there is no connection.
#[derive(Debug)]
pub enum DialError {
    /// It is not allowed; no packet left.
    Forbidden(Forbidden),
    /// Nobody has this name.
    NoSuchName,
    /// The name servers did not answer, or not usefully.
    NamesFailed,
    /// The server answered with a reset.
    Reset,
    /// A router or the server's host sent an ICMP error, or there is no route.
    Unreachable(IcmpError),
    /// Nobody answered in time.
    TimedOut,
    /// This machine has no descriptors, ports or memory left.
    Exhausted(io::Error),
    /// The gateway is away, and nothing else may be tried.
    GatewayAway,
    /// The system refused.
    System(io::Error),
}

impl DialError {
    /// For logs and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Forbidden(why) => why.name(),
            Self::NoSuchName => "no-such-name",
            Self::NamesFailed => "names-failed",
            Self::Reset => "refused-by-server",
            Self::Unreachable(_) => "unreachable",
            Self::TimedOut => "timed-out",
            Self::Exhausted(_) => "exhausted",
            Self::GatewayAway => "gateway-away",
            Self::System(_) => "system",
        }
    }
}

impl From<io::Error> for DialError {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::ECONNREFUSED | libc::ECONNRESET) => Self::Reset,
            Some(libc::ENETUNREACH) => Self::Unreachable(IcmpError::NETWORK),
            Some(libc::EHOSTUNREACH) => Self::Unreachable(IcmpError::HOST),
            Some(libc::ETIMEDOUT) => Self::TimedOut,
            Some(
                libc::EMFILE
                | libc::ENFILE
                | libc::EADDRNOTAVAIL
                | libc::ENOMEM
                | libc::ENOBUFS
                | libc::EAGAIN,
            ) => Self::Exhausted(error),
            _ => Self::System(error),
        }
    }
}

/// A server's side of a session.
#[derive(Debug)]
pub struct Server {
    /// The connection, or the one to the gateway.
    pub stream: Stream,
    /// The server's address and port.
    pub address: SocketAddr,
    /// What the server said already.
    pub early: Vec<u8>,
    /// Whether the bytes that the client had sent before are on their way.
    pub early_sent: bool,
}

impl Server {
    fn direct(stream: TcpStream, address: SocketAddr) -> Self {
        Self {
            stream: Stream::new(stream),
            address,
            early: Vec::new(),
            early_sent: false,
        }
    }
}

/// Connects to servers for one thread.
pub struct Dialer {
    names: Names,
    routes: Rc<Routes>,
    gateway: Arc<GatewayState>,
}

impl Dialer {
    /// Asks `names` for addresses, and `routes` what they are to this machine; `gateway` is what is known of that.
    pub fn new(names: Names, routes: Rc<Routes>, gateway: Arc<GatewayState>) -> Self {
        Self {
            names,
            routes,
            gateway,
        }
    }

    /// A connection to `target`. `config` says what is allowed and how long it may take.
    pub async fn dial(
        &self,
        target: &Target,
        wishes: Wishes,
        config: &Config,
    ) -> Result<Server, DialError> {
        let attempt = async {
            let allowed = self.allowed(target, config).await?;
            if let [address] = allowed[..] {
                return Ok(Server::direct(
                    connect(address, wishes, &config.downstream).await?,
                    address,
                ));
            }
            let downstream = Rc::new(config.downstream.clone());
            let connect = move |address| {
                let downstream = Rc::clone(&downstream);
                async move { connect(address, wishes, &downstream).await }
            };
            Box::pin(race(allowed, connect))
                .await
                .map(|(stream, address)| Server::direct(stream, address))
        };
        timeout(config.timeouts.connect, attempt)
            .await
            .unwrap_or(Err(DialError::TimedOut))
    }

    /// Begins a connection to `server`, from the address `source` if there is one, and waits for nothing: to the gateway,
    /// where `via_gateway` has it so and it is not known to be away.
    pub fn begin(
        &self,
        server: SocketAddr,
        source: Option<SocketAddr>,
        via_gateway: bool,
        config: &Config,
    ) -> Result<Begun, DialError> {
        self.check(server, config)?;
        if let Some(gateway) = config.gateway.as_ref().filter(|_| via_gateway) {
            if self.gateway.is_worth_a_try() {
                let asking = self.gateway.begin(server, &[], gateway, &config.downstream);
                return asking.map(Begun::ByGateway).map_err(|error| match error {
                    GatewayError::Away(_) => DialError::GatewayAway,
                    GatewayError::Server(error) => error,
                });
            }
            if gateway.when_away == WhenAway::Refuse {
                return Err(DialError::GatewayAway);
            }
        }
        let wishes = Wishes {
            source,
            ..Wishes::default()
        };
        Attempt::begin(server, wishes, &config.downstream).map(Begun::Direct)
    }

    /// The same for a connection that was begun already. `early` came from the client since, and goes to the gateway
    /// behind the request if that is the way.
    pub async fn go_on(
        &self,
        begun: Begun,
        early: &[u8],
        config: &Config,
    ) -> Result<Server, DialError> {
        match begun {
            Begun::Direct(attempt) => {
                let address = attempt.address;
                timeout(config.timeouts.connect, attempt.end())
                    .await
                    .unwrap_or(Err(DialError::TimedOut))
                    .map(|stream| Server::direct(stream, address))
            }
            Begun::ByGateway(asking) => {
                Box::pin(self.go_on_by_gateway(asking, early, config)).await
            }
        }
    }

    async fn go_on_by_gateway(
        &self,
        asking: Asking,
        early: &[u8],
        config: &Config,
    ) -> Result<Server, DialError> {
        let target = Target::Address(asking.server);
        if let Some(gateway) = &config.gateway {
            let end = self.gateway.end(asking, early, gateway);
            match timeout(config.timeouts.connect, end).await {
                Ok(Ok(Asked::Connected(server))) => return Ok(server),
                Ok(Ok(Asked::Cookie)) => {}
                Ok(Err(GatewayError::Away(why))) => self.gateway.is_away(gateway, &why),
                Ok(Err(GatewayError::Server(error))) => return Err(error),
                Err(_) => return Err(DialError::TimedOut),
            }
        }
        self.dial_by_gateway(&target, early, config).await
    }

    /// The same by way of the gateway (RFC 8803); when that is away, as the configuration says. `early` came from the
    /// client already, and travels with the request.
    pub async fn dial_by_gateway(
        &self,
        target: &Target,
        early: &[u8],
        config: &Config,
    ) -> Result<Server, DialError> {
        let Some(gateway) = &config.gateway else {
            return self.dial(target, Wishes::default(), config).await;
        };
        if self.gateway.is_worth_a_try() {
            match timeout(
                config.timeouts.connect,
                Box::pin(self.ask_gateway(target, early, gateway, config)),
            )
            .await
            {
                Ok(Err(GatewayError::Away(why))) => self.gateway.is_away(gateway, &why),
                Ok(Err(GatewayError::Server(error))) => return Err(error),
                Ok(Ok(server)) => return Ok(server),
                Err(_) => return Err(DialError::TimedOut),
            }
        }
        match gateway.when_away {
            WhenAway::Direct => self.dial(target, Wishes::default(), config).await,
            WhenAway::Refuse => Err(DialError::GatewayAway),
        }
    }

    async fn ask_gateway(
        &self,
        target: &Target,
        early: &[u8],
        gateway: &Gateway,
        config: &Config,
    ) -> Result<Server, GatewayError> {
        let mut last = GatewayError::Server(DialError::NoSuchName);
        for address in self
            .allowed(target, config)
            .await
            .map_err(GatewayError::Server)?
        {
            match self
                .gateway
                .connect(address, early, gateway, &config.downstream)
                .await
            {
                Err(GatewayError::Server(error)) => last = GatewayError::Server(error),
                other => return other,
            }
        }
        Err(last)
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
        matches!(self.routes.kind_of(address), Ok(route::Kind::Own))
    }
    fn check(&self, address: SocketAddr, config: &Config) -> Result<(), DialError> {
        if let Some(why) = targets::forbidden(address, &config.targets) {
            return Err(DialError::Forbidden(why));
        }
        match self.routes.kind_of(address.ip())? {
            route::Kind::Unicast => Ok(()),
            route::Kind::Own if own_is_allowed(address, config) => Ok(()),
            route::Kind::Own => Err(DialError::Forbidden(Forbidden::Own)),
            route::Kind::Group => Err(DialError::Forbidden(Forbidden::Special)),
            route::Kind::Unreachable => Err(DialError::Unreachable(IcmpError::NETWORK)),
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

/// A connection on its way. It belongs to no thread yet.
#[derive(Debug)]
pub enum Begun {
    /// To the server.
    Direct(Attempt),
    /// To the gateway, which is to connect to the server.
    ByGateway(Asking),
}

impl Begun {
    /// Resets it: nobody will use it, and nothing shall look as if somebody had.
    pub fn give_up(self) {
        match self {
            Self::Direct(attempt) => sockets::reset_on_close(&attempt.socket),
            Self::ByGateway(asking) => asking.give_up(),
        }
    }
}

/// A SYN to a server that was sent.
#[derive(Debug)]
pub struct Attempt {
    socket: Socket,
    address: SocketAddr,
    icmp: Option<IcmpWatch>,
}

impl Attempt {
    /// Sends the SYN.
    pub fn begin(
        address: SocketAddr,
        wishes: Wishes,
        settings: &Downstream,
    ) -> Result<Self, DialError> {
        let mptcp = wishes.mptcp || settings.mptcp;
        let socket = sockets::to_server(address, mptcp, settings, wishes.source)?;
        let icmp = wishes.icmp.then(|| IcmpWatch::on(&socket, address));
        match socket.connect(&address.into()) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Self {
            socket,
            address,
            icmp,
        })
    }

    /// Waits for the server's answer, without a limit of its own in time: the caller's, or the kernel's.
    async fn end(self) -> Result<TcpStream, DialError> {
        let stream = TcpStream::from_std(self.socket.into())?;
        stream.writable().await?;
        if let Some(error) = stream.take_error()? {
            let unreachable = self.icmp.and_then(|icmp| icmp.error(&stream));
            return Err(unreachable.map_or_else(|| error.into(), DialError::Unreachable));
        }
        if let Some(icmp) = self.icmp {
            icmp.off(&stream);
        }
        sockets::send_at_once(&stream);
        Ok(stream)
    }
}

async fn connect(
    address: SocketAddr,
    wishes: Wishes,
    settings: &Downstream,
) -> Result<TcpStream, DialError> {
    Attempt::begin(address, wishes, settings)?.end().await
}
