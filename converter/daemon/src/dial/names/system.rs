//! The system's files on names, read again when they have changed, for all threads.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::net::netdevice::name_to_index;
use socket2::{Domain, Socket, Type};

use super::hosts::Hosts;
use super::resolv_conf;

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
    let conf = resolv_conf::parse(file, number);
    if !conf.ignored.is_empty() {
        let ignored = conf.ignored.join("; ");
        tracing::warn!("{RESOLV_CONF}: ignored: {ignored}");
    }
    conf.servers
}

/// The number of the interface of this name.
fn number(interface: &str) -> Option<u32> {
    let asks = Socket::new(Domain::UNIX, Type::DGRAM, None).ok()?;
    name_to_index(&asks, interface).ok()
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
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
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
