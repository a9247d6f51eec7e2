//! Names to addresses: /etc/hosts, then the name servers, each answer kept for its time to live.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt as _;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use hickory_resolver::config::{NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts};
use hickory_resolver::name_server::TokioConnectionProvider;
use hickory_resolver::proto::ProtoErrorKind;
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{Name, RData, RecordType};
use hickory_resolver::proto::xfer::Protocol;
use hickory_resolver::{ResolveError, TokioResolver};
use parking_lot::Mutex;
use tributary_sys::device_number;

use super::{DialError, resolv_conf};

/// Of one name server, which is asked twice at most.
const TIMEOUT: Duration = Duration::from_secs(2);
const ROUNDS: usize = 2;
const CACHED_NAMES: usize = 1024;

/// One thread's resolver.
pub struct Names {
    /// Those of the configuration; without any those of /etc/resolv.conf.
    configured: Option<Arc<Vec<SocketAddr>>>,
    files: Arc<SystemFiles>,
    resolvers: RefCell<Rc<Resolvers>>,
}

/// The name servers in their order, each with what it has answered.
struct Resolvers {
    of: Arc<Vec<SocketAddr>>,
    each: Vec<TokioResolver>,
}

impl Names {
    /// Asks `servers`, or those of /etc/resolv.conf if there are none.
    pub fn new(servers: &[IpAddr], files: &Arc<SystemFiles>) -> Self {
        let configured: Vec<_> = servers.iter().map(|each| (*each, 53).into()).collect();
        let configured = (!configured.is_empty()).then(|| Arc::new(configured));
        let first = configured.clone().unwrap_or_else(|| files.servers());
        Self {
            configured,
            files: Arc::clone(files),
            resolvers: RefCell::new(Rc::new(Resolvers::new(first))),
        }
    }

    /// The addresses of `name` in /etc/hosts, which are all of them, if it is there.
    pub fn in_hosts(&self, name: &str) -> Option<Vec<IpAddr>> {
        self.files.hosts().of(name).map(<[IpAddr]>::to_vec)
    }

    /// Asks the name servers for both families at the same time.
    pub fn ask(&self, name: &str) -> Answers {
        let Ok(mut name) = Name::from_ascii(name) else {
            return Answers::default();
        };
        // A client's names are whole: there is no search list.
        name.set_fqdn(true);
        let resolvers = self.resolvers();
        let ask = |family| -> Option<Asking> { Some(Box::pin(Rc::clone(&resolvers).ask(name.clone(), family))) };
        Answers {
            six: ask(RecordType::AAAA),
            four: ask(RecordType::A),
        }
    }

    /// Those that go by the files as they are.
    fn resolvers(&self) -> Rc<Resolvers> {
        let now = self.configured.clone();
        let now = now.unwrap_or_else(|| self.files.servers());
        let mut resolvers = self.resolvers.borrow_mut();
        if !Arc::ptr_eq(&resolvers.of, &now) {
            *resolvers = Rc::new(Resolvers::new(now));
        }
        Rc::clone(&resolvers)
    }
}

impl Resolvers {
    fn new(of: Arc<Vec<SocketAddr>>) -> Self {
        let each = of.iter().map(|server| resolver(*server)).collect();
        Self { of, each }
    }

    /// The addresses of one family that the first server tells that knows; the next one is asked where one is silent or
    /// fails (resolv.conf(5)). None: there is no such name, or it has no such addresses.
    async fn ask(self: Rc<Self>, name: Name, family: RecordType) -> Answer {
        for _ in 0..ROUNDS {
            for resolver in &self.each {
                match resolver.lookup(name.clone(), family).await {
                    Ok(found) => {
                        return Ok(found.iter().filter_map(RData::ip_addr).collect());
                    }
                    Err(error) if says_none(&error) => return Ok(Vec::new()),
                    Err(error) => tracing::debug!("name server: {error}"),
                }
            }
        }
        Err(DialError::NamesFailed)
    }
}

/// Whether a name server says that there is no such name, or no such address of it; a failure of its own is no answer.
fn says_none(error: &ResolveError) -> bool {
    let Some(proto) = error.proto() else {
        return false;
    };
    matches!(
        proto.kind(),
        ProtoErrorKind::NoRecordsFound {
            response_code: ResponseCode::NXDomain | ResponseCode::NoError,
            ..
        }
    )
}

fn resolver(server: SocketAddr) -> TokioResolver {
    let mut config = ResolverConfig::new();
    for protocol in [Protocol::Udp, Protocol::Tcp] {
        config.add_name_server(NameServerConfig::new(server, protocol));
    }
    let mut options = ResolverOpts::default();
    options.timeout = TIMEOUT;
    options.attempts = 0;
    options.cache_size = CACHED_NAMES;
    options.use_hosts_file = ResolveHosts::Never;
    TokioResolver::builder_with_config(config, TokioConnectionProvider::default())
        .with_options(options)
        .build()
}

/// The addresses of one family, or why nobody knows.
pub type Answer = Result<Vec<IpAddr>, DialError>;
type Asking = Pin<Box<dyn Future<Output = Answer>>>;

/// The answers for both families, as they come.
#[derive(Default)]
pub struct Answers {
    six: Option<Asking>,
    four: Option<Asking>,
}

impl Answers {
    /// Waits for the next one; `None` when both have come. To drop the wait loses nothing.
    pub async fn next(&mut self) -> Option<Answer> {
        poll_fn(|cx| {
            for pending in [&mut self.six, &mut self.four] {
                let poll = pending.as_mut().map(|pending| pending.as_mut().poll(cx));
                if let Some(Poll::Ready(answer)) = poll {
                    *pending = None;
                    return Poll::Ready(Some(answer));
                }
            }
            if self.have_come() {
                Poll::Ready(None)
            } else {
                Poll::Pending
            }
        })
        .await
    }

    /// Whether both have come.
    pub fn have_come(&self) -> bool {
        self.six.is_none() && self.four.is_none()
    }

    /// Whether that with IPv6 addresses has not come.
    pub fn lack_six(&self) -> bool {
        self.six.is_some()
    }
}

const RESOLV_CONF: &str = "/etc/resolv.conf";

/// /etc/hosts and /etc/resolv.conf.
#[derive(Debug)]
pub struct SystemFiles {
    hosts: Watched<Hosts>,
    servers: Watched<Vec<SocketAddr>>,
}

impl Default for SystemFiles {
    fn default() -> Self {
        Self {
            hosts: Watched::new("/etc/hosts", Hosts::parse),
            servers: Watched::new(RESOLV_CONF, servers),
        }
    }
}

impl SystemFiles {
    /// hosts(5) as it is now; the same as before if it has not changed.
    pub fn hosts(&self) -> Arc<Hosts> {
        self.hosts.now()
    }

    /// The name servers of resolv.conf(5) as it is now; the same as before if it has not changed.
    pub fn servers(&self) -> Arc<Vec<SocketAddr>> {
        self.servers.now()
    }
}

fn servers(file: &[u8]) -> Vec<SocketAddr> {
    let conf = resolv_conf::parse(file, |name| device_number(name).ok());
    if !conf.ignored.is_empty() {
        let ignored = conf.ignored.join("; ");
        tracing::warn!("{RESOLV_CONF}: ignored: {ignored}");
    }
    conf.servers
}

/// Tells one state of a file from another: number of the inode, size, time of the last change.
type Stamp = (u64, u64, i64, i64);

/// A file's content. One that cannot be read is empty.
#[derive(Debug)]
struct Watched<T> {
    path: &'static str,
    parse: fn(&[u8]) -> T,
    read: Mutex<Option<(Option<Stamp>, Arc<T>)>>,
}

impl<T> Watched<T> {
    fn new(path: &'static str, parse: fn(&[u8]) -> T) -> Self {
        Self {
            path,
            parse,
            read: Mutex::default(),
        }
    }

    fn now(&self) -> Arc<T> {
        let stamp = fs::metadata(self.path)
            .ok()
            .map(|about| (about.ino(), about.size(), about.mtime(), about.mtime_nsec()));
        let mut read = self.read.lock();
        match &*read {
            Some((before, content)) if *before == stamp => Arc::clone(content),
            _ => {
                let file = fs::read(self.path).unwrap_or_default();
                let content = Arc::new((self.parse)(&file));
                *read = Some((stamp, Arc::clone(&content)));
                content
            }
        }
    }
}

/// The names of /etc/hosts with their addresses. Whoever is here is asked nowhere else for, in either family.
#[derive(Debug, Default)]
pub struct Hosts(HashMap<Box<str>, Vec<IpAddr>>);

impl Hosts {
    /// Reads the file; a line that is no address with names spoils nothing else.
    pub fn parse(file: &[u8]) -> Self {
        let mut hosts = Self::default();
        for line in file.split(|byte| *byte == b'\n') {
            let line = line.split(|byte| *byte == b'#').next().unwrap_or(line);
            hosts.add(std::str::from_utf8(line).unwrap_or_default());
        }
        hosts
    }

    fn add(&mut self, line: &str) {
        let mut words = line.trim_start_matches('\u{feff}').split_whitespace();
        let Some(Ok(address)) = words.next().map(str::parse) else {
            return;
        };
        for name in words {
            let addresses = self.0.entry(key(name).into()).or_default();
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
    }

    /// The addresses of `name`, if it is here.
    pub fn of(&self, name: &str) -> Option<&[IpAddr]> {
        self.0.get(key(name).as_str()).map(Vec::as_slice)
    }
}

fn key(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_cannot_be_read_spoils_itself_alone() {
        let file = b"\xef\xbb\xbf192.0.2.1 One one.test\r\n\
            # caf\xe9\n\
            192.0.2.2 two # caf\xe9\n\
            192.0.2.9 caf\xe9 three\n\
            not-an-address four\n\
            fe80::1%eth0 five\n\
            2001:db8::2\ttwo. a_b\n\
            0.0.0.0 blocked\n\
            192.0.2.2 two";
        let hosts = Hosts::parse(file);
        for (name, expected) in [
            ("one", Some(&["192.0.2.1"][..])),
            ("ONE.test.", Some(&["192.0.2.1"])),
            ("two", Some(&["192.0.2.2", "2001:db8::2"])),
            ("a_b", Some(&["2001:db8::2"])),
            ("blocked", Some(&["0.0.0.0"])),
            ("three", None),
            ("four", None),
            ("five", None),
            ("", None),
        ] {
            let expected: Option<Vec<IpAddr>> =
                expected.map(|all| all.iter().map(|each| each.parse().expect("one")).collect());
            assert_eq!(hosts.of(name), expected.as_deref(), "{name}");
        }
    }
}
