//! What an operator writes, as types with defaults.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use serde::Deserialize;

use super::gateway::Gateway;
use super::handoff::Handoff;
use super::listener::{Listen, ListenText};
use super::units;

/// The whole file. Every key has a default: an empty file is an HTTP proxy for this machine alone.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Threads that carry traffic; by default one for each processor.
    pub workers: Option<NonZeroUsize>,
    pub clients: Clients,
    pub targets: Targets,
    pub limits: Limits,
    pub timeouts: Timeouts,
    pub upstream: UpstreamSettings,
    pub http: Http,
    /// How many connections are begun when a SYN comes, for listeners with `early_syn`.
    pub early_syn: EarlySyn,
    /// Which connections of listeners with `offload` the kernel carries on.
    pub offload: Offload,
    /// The gateway that this converter, at a customer's premises, carries its traffic to (RFC 8803).
    pub gateway: Option<Gateway>,
    /// Who answers the requests of listeners of kind `handoff`.
    pub handoff: Option<Handoff>,
    pub names: Names,
    /// Labels of access paths, by the clients' networks, for metrics and logs.
    pub paths: BTreeMap<String, Vec<IpNet>>,
    pub metrics: Metrics,
    pub control: Control,
    pub log: Log,
    #[serde(skip)]
    pub listen: Vec<Listen>,
    /// Listeners as they are written, until all was checked.
    #[serde(rename = "listen", default = "ListenText::http_on_loopback")]
    pub(super) written: Vec<ListenText>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Clients {
    /// Their networks. Without any, only this machine may, and listeners must have loopback addresses.
    pub networks: Vec<IpNet>,
    /// Networks of which each client has several addresses, as home routers have inside of their tunnels.
    pub shared: Vec<SharedNetwork>,
}

/// A network in which all addresses of one prefix are one client.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct SharedNetwork {
    /// Where its clients are.
    pub network: IpNet,
    /// The length of each client's prefix in it.
    pub prefix: u8,
}

/// What may be reached. Loopback, link-local, private, multicast and reserved addresses and this machine's own are
/// refused unless `allow` has them.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Targets {
    /// Networks that may be reached although they would be refused.
    pub allow: Vec<IpNet>,
    /// Networks that may not be reached although they would be allowed; the stronger of the two.
    pub deny: Vec<IpNet>,
    /// Ports that are refused everywhere.
    pub deny_ports: BTreeSet<u16>,
}

impl Default for Targets {
    fn default() -> Self {
        Self {
            allow: Vec::new(),
            deny: Vec::new(),
            deny_ports: BTreeSet::from([25]),
        }
    }
}

/// How much the converter takes on. At a limit new work is refused and old work goes on.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Client connections in all; by default as many as the limit of open files leaves room for.
    pub connections: Option<usize>,
    /// Client connections of one client: an IPv4 address, an IPv6 /64, or what `clients.shared` says.
    pub connections_per_client: usize,
    /// Bytes that wait for a peer, in all: for slow readers, and of requests that are not whole or wait for their turn.
    #[serde(deserialize_with = "units::size")]
    pub buffered: usize,
    /// The same for one client; by default a quarter of `buffered`.
    #[serde(deserialize_with = "units::some_size")]
    pub buffered_per_client: Option<usize>,
    /// Bytes moved at a time, and held for one slow reader at most.
    #[serde(deserialize_with = "units::size")]
    pub buffer: usize,
    /// The head of an HTTP request or response.
    #[serde(deserialize_with = "units::size")]
    pub head: usize,
    /// Connections that wait to be accepted, on each listener (listen(2)).
    pub backlog: u16,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: None,
            connections_per_client: 4096,
            buffered: 256 << 20,
            buffered_per_client: None,
            buffer: 256 << 10,
            head: 64 << 10,
            backlog: 4096,
        }
    }
}

impl Limits {
    /// Bytes that may wait for one client's peers.
    pub fn most_buffered_per_client(&self) -> usize {
        self.buffered_per_client.unwrap_or(self.buffered / 4)
    }
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Timeouts {
    /// For a request: an HTTP head, a Convert message, a SOCKS5 negotiation. From its first byte, or from the accept.
    #[serde(deserialize_with = "units::time")]
    pub request: Duration,
    /// For a connection to a server, in all, names included.
    #[serde(deserialize_with = "units::time")]
    pub connect: Duration,
    /// For any byte in either direction.
    #[serde(deserialize_with = "units::time")]
    pub idle: Duration,
    /// For any byte once one side has ended its direction.
    #[serde(deserialize_with = "units::time")]
    pub half_closed: Duration,
    /// For the connections that are open when the converter shuts down.
    #[serde(deserialize_with = "units::time")]
    pub drain: Duration,
    /// For the connections that are open when a successor takes over.
    #[serde(deserialize_with = "units::time")]
    pub hand_over: Duration,
    /// For the next client, until the process ends; for one that the service manager starts with its first client.
    #[serde(deserialize_with = "units::some_time")]
    pub unused: Option<Duration>,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            request: Duration::from_secs(10),
            connect: Duration::from_secs(10),
            idle: Duration::from_secs(600),
            half_closed: Duration::from_secs(120),
            drain: Duration::from_secs(30),
            hand_over: Duration::from_secs(3600),
            unused: None,
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
#[allow(clippy::struct_excessive_bools)] // each is a key of its own in the file, but the last one
pub struct UpstreamSettings {
    pub mptcp: bool,
    /// Whether what a client has sent already may travel in the SYN to a server that takes that (RFC 7413). A SYN that is
    /// sent twice may reach the server twice: only for what may be asked twice.
    pub fast_open: bool,
    /// The netfilter mark of its packets (`SO_MARK`, socket(7)).
    pub mark: Option<u32>,
    pub source4: Option<Ipv4Addr>,
    pub source6: Option<Ipv6Addr>,
    /// Whether to tell the server the client's address by a PROXY protocol header, version 2.
    pub proxy_protocol: bool,
    /// Which requests may go to a connection that another client has used, at listeners that read HTTP.
    pub reuse: Reuse,
    /// Whether windows of connections to servers are held to what connections that may be offloaded need: where any listener has
    /// `offload`.
    #[serde(skip)]
    pub may_offload: bool,
}

/// Which requests go to a connection that another client has used.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Reuse {
    Never,
    /// Those that may be sent again if the server ends the connection just then (RFC 9110 section 9.2.2).
    #[default]
    Safe,
    Always,
}

impl UpstreamSettings {
    /// Which requests may: where the server is told whose connection it is, none.
    pub fn reuse_by_others(&self) -> Reuse {
        if self.proxy_protocol { Reuse::Never } else { self.reuse }
    }
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Http {
    /// Whether Via names this converter (RFC 9110 section 7.6.3). Servers may compress less for those who send it: nginx does
    /// by its `gzip_proxied`.
    pub via: bool,
}

/// Connections to servers that are begun when a client's SYN comes, and whose client has not been accepted yet. Beyond
/// these limits they are begun when the client is.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct EarlySyn {
    /// In all.
    pub connections: usize,
    /// For one client.
    pub per_client: usize,
    /// To one address.
    pub per_server: usize,
    /// How long the client's handshake may take, until the server's side is given up.
    #[serde(deserialize_with = "units::time")]
    pub timeout: Duration,
}

impl Default for EarlySyn {
    fn default() -> Self {
        Self {
            connections: 1024,
            per_client: 64,
            per_server: 256,
            timeout: Duration::from_secs(3),
        }
    }
}

/// Which connections of listeners with `offload` are offloaded, and where.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Offload {
    /// The Ethernet devices by which clients and servers are reached. A connection that uses another one is not offloaded.
    pub devices: Vec<String>,
    /// Bytes that pass in both directions before a connection is offloaded: a short one would be over by then.
    #[serde(deserialize_with = "units::size")]
    pub after: usize,
}

impl Default for Offload {
    fn default() -> Self {
        Self {
            devices: Vec::new(),
            after: 1_000_000,
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Names {
    /// Name servers; by default those of /etc/resolv.conf.
    pub servers: Vec<IpAddr>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Metrics {
    /// Where they are served, over HTTP; nowhere by default.
    pub address: Option<SocketAddr>,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Control {
    pub socket: PathBuf,
}

impl Default for Control {
    fn default() -> Self {
        Self {
            socket: PathBuf::from("/run/tributary-converter/control.sock"),
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Log {
    /// A file, or `-` for standard output; none by default. A SIGHUP opens the file again.
    pub access: Option<PathBuf>,
    pub clients: LoggedClients,
}

/// How much of a client's address the log has.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum LoggedClients {
    /// All of it, and the port.
    #[default]
    Full,
    /// Its network of 24 bits, or 48 of IPv6; no port.
    Network,
    /// Nothing but the family.
    None,
}

impl LoggedClients {
    /// What the log has of this address.
    pub fn address(self, client: IpAddr) -> IpAddr {
        let bits = match (self, client) {
            (Self::Full, _) => return client,
            (Self::Network, IpAddr::V4(_)) => 24,
            (Self::Network, IpAddr::V6(_)) => 48,
            (Self::None, _) => 0,
        };
        IpNet::new_assert(client, bits).network()
    }

    /// The same of an address with its port.
    pub fn socket_address(self, client: SocketAddr) -> SocketAddr {
        let port = if self == Self::Full { client.port() } else { 0 };
        SocketAddr::new(self.address(client.ip()), port)
    }
}

impl Config {
    pub fn offloads(&self) -> bool {
        self.listen.iter().any(|listen| listen.offload)
    }

    /// Whether any listener has `early_syn`.
    pub fn forwards_syns_early(&self) -> bool {
        self.listen.iter().any(Listen::early_syn)
    }
}
