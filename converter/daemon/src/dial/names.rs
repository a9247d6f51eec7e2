//! Names to addresses: /etc/hosts, then the name servers, each answer kept for its time to live.

use std::cell::RefCell;
use std::fs;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use hickory_resolver::ResolveError;
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    LookupIpStrategy, NameServerConfigGroup, ResolverConfig, ResolverOpts,
};
use hickory_resolver::name_server::TokioConnectionProvider;
use hickory_resolver::proto::ProtoErrorKind;
use tokio::time::timeout;

use super::DialError;
use super::race::ATTEMPT_DELAY;

/// How long an answer with IPv4 addresses waits for one with IPv6 addresses (RFC 8305 section 3). The other way round
/// it is `ATTEMPT_DELAY`: an IPv4 address would not be tried sooner.
const RESOLUTION_DELAY: Duration = Duration::from_millis(50);
const CACHED_NAMES: usize = 1024;

/// The system's, as resolv.conf(5) and hosts(5) have it.
const FILES: [&str; 2] = ["/etc/resolv.conf", "/etc/hosts"];

/// One thread's resolver, for as long as nobody changes [`FILES`]; then it begins anew.
pub struct Names {
    servers: Vec<IpAddr>,
    resolvers: RefCell<Rc<Resolvers>>,
}

/// The two families are asked for apart, so that neither waits for the other for long.
struct Resolvers {
    six: TokioResolver,
    four: TokioResolver,
    /// When each of the files was changed last, that is there.
    read: [Option<SystemTime>; 2],
}

impl Resolvers {
    fn new(servers: &[IpAddr], read: [Option<SystemTime>; 2]) -> Self {
        let servers = if servers.is_empty() {
            system_servers()
        } else {
            group(servers)
        };
        // Without a search list: a client's names are whole.
        let config = ResolverConfig::from_parts(None, Vec::new(), servers);
        Self {
            six: resolver(config.clone(), LookupIpStrategy::Ipv6Only),
            four: resolver(config, LookupIpStrategy::Ipv4Only),
            read,
        }
    }
}

impl Names {
    /// Asks `servers`, or those of /etc/resolv.conf if there are none. A machine without either knows /etc/hosts only.
    pub fn new(servers: &[IpAddr]) -> Self {
        Self {
            servers: servers.to_vec(),
            resolvers: RefCell::new(Rc::new(Resolvers::new(servers, changed()))),
        }
    }

    /// Those that go by the files as they are.
    fn resolvers(&self) -> Rc<Resolvers> {
        let changed = changed();
        let mut resolvers = self.resolvers.borrow_mut();
        if resolvers.read != changed {
            *resolvers = Rc::new(Resolvers::new(&self.servers, changed));
        }
        Rc::clone(&resolvers)
    }

    /// The addresses of `name`, at least one.
    pub async fn resolve(&self, name: &str) -> Result<Vec<IpAddr>, DialError> {
        let resolvers = self.resolvers();
        let six = resolvers.six.lookup_ip(name);
        let four = resolvers.four.lookup_ip(name);
        tokio::pin!(six, four);
        let answers = tokio::select! {
            first = &mut six => and_late(first, four, ATTEMPT_DELAY).await,
            first = &mut four => and_late(first, six, RESOLUTION_DELAY).await,
        };
        let found: Vec<IpAddr> = answers
            .iter()
            .flatten()
            .flat_map(|answer| answer.iter())
            .collect();
        if found.is_empty() {
            Err(why(&answers))
        } else {
            Ok(found)
        }
    }
}

/// Both answers; only the first, if that is a good one and the other does not come within `delay`.
async fn and_late<T>(
    first: Result<T, ResolveError>,
    other: impl Future<Output = Result<T, ResolveError>>,
    delay: Duration,
) -> Vec<Result<T, ResolveError>> {
    let late = if first.is_ok() {
        timeout(delay, other).await.ok()
    } else {
        Some(other.await)
    };
    std::iter::once(first).chain(late).collect()
}

fn why<T>(answers: &[Result<T, ResolveError>]) -> DialError {
    let nobody = |error: &ResolveError| {
        error
            .proto()
            .is_some_and(|proto| matches!(proto.kind(), ProtoErrorKind::NoRecordsFound { .. }))
    };
    let all_said_so = answers
        .iter()
        .all(|answer| answer.as_ref().err().is_none_or(nobody));
    if all_said_so {
        DialError::NoSuchName
    } else {
        DialError::NamesFailed
    }
}

/// When each of the files was changed last.
fn changed() -> [Option<SystemTime>; 2] {
    FILES.map(|file| fs::metadata(file).and_then(|about| about.modified()).ok())
}

/// No server where the file is not there or cannot be read: whoever asks for a name is told that names failed.
fn system_servers() -> NameServerConfigGroup {
    hickory_resolver::system_conf::read_system_conf().map_or_else(
        |_| NameServerConfigGroup::new(),
        |(config, _)| config.name_servers().to_vec().into(),
    )
}

fn group(servers: &[IpAddr]) -> NameServerConfigGroup {
    NameServerConfigGroup::from_ips_clear(servers, 53, true)
}

fn resolver(config: ResolverConfig, family: LookupIpStrategy) -> TokioResolver {
    let mut options = ResolverOpts::default();
    options.ip_strategy = family;
    options.timeout = Duration::from_secs(2);
    options.attempts = 2;
    options.cache_size = CACHED_NAMES;
    TokioResolver::builder_with_config(config, TokioConnectionProvider::default())
        .with_options(options)
        .build()
}
