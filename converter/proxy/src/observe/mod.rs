//! What is known of the connections: those that are open, and what became of the others.

pub mod log;
pub mod metrics;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use ipnet::IpNet;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::upstream::{ExpectedSize, Upstream};
use log::AccessLog;
use metrics::{Metrics, OK};
use tributary_sys::Multipath;

/// What became of one request, or of one connection of an application that has no requests.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Summary<'a> {
    /// The server, as the client named it.
    pub target: &'a str,
    /// The server's address and port, if there was a connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<SocketAddr>,
    /// By which size the way of this connection was chosen, if it was known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<ExpectedSize>,
    /// `ok`, or why not.
    pub outcome: &'a str,
    /// The status of the HTTP response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// When it began.
    #[serde(skip)]
    pub since: Instant,
}

impl<'a> Summary<'a> {
    /// Of a request that began at `since`, and knows of no target yet.
    pub fn new(outcome: &'a str, since: Instant) -> Self {
        Self {
            target: "",
            server: None,
            size: None,
            outcome,
            status: None,
            since,
        }
    }

    /// Of a connection to this server, before its relay.
    pub fn of(upstream: &Upstream, target: &'a str, since: Instant) -> Self {
        Self {
            target,
            server: Some(upstream.address),
            size: upstream.size,
            ..Self::new(OK, since)
        }
    }

    /// The same, whose relay ended so.
    #[must_use]
    pub fn ended(self, by: RelayResult) -> Self {
        Self {
            outcome: by.name(),
            ..self
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayResult {
    /// Both sides ended their direction.
    Completed,
    /// The client did not take the answer to its request.
    ClientGone,
    ClientReset,
    ServerReset,
    IdleTimeout,
}

impl RelayResult {
    /// For logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Completed => OK,
            Self::ClientGone => "client-gone",
            Self::ClientReset => "client-reset",
            Self::ServerReset => "server-reset",
            Self::IdleTimeout => "idle-timeout",
        }
    }
}

#[derive(Debug, Serialize)]
pub struct Line<'a> {
    /// Seconds since 1970 at its end.
    pub time: f64,
    pub listener: &'a str,
    /// The client's address and port.
    pub client: SocketAddr,
    /// The server, and what became of it.
    #[serde(flatten)]
    pub summary: &'a Summary<'a>,
    /// Its length in time.
    pub seconds: f64,
    /// From the client to the server.
    pub up_bytes: u64,
    /// From the server to the client.
    pub down_bytes: u64,
    /// The client's paths; none with plain TCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paths: Option<Vec<PathLine>>,
}

#[derive(Clone, Debug, Serialize)]
pub struct PathLine {
    /// Its label in the configuration.
    pub path: String,
    /// The client's address on it.
    pub client: IpAddr,
    /// From the client.
    pub up_bytes: u64,
    /// To the client.
    pub down_bytes: u64,
    pub retransmissions: u32,
}

/// Seconds since 1970.
pub fn now() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64())
}

/// The path label of addresses that no configured path has.
pub const OTHER_PATH: &str = "other";

/// Connections that are looked up while the lock is held.
const AT_A_TIME: usize = 256;

/// The statistics of an open connection. One thread updates them, others read.
#[derive(Debug)]
pub struct ConnectionStats {
    id: u64,
    listener: Arc<str>,
    client: SocketAddr,
    pub since: Instant,
    target: Mutex<String>,
    /// Bytes that reached the server.
    pub up: AtomicU64,
    /// Bytes that reached the client.
    pub down: AtomicU64,
}

impl ConnectionStats {
    pub fn set_target(&self, target: &str) {
        let mut held = self.target.lock();
        if *held != target {
            target.clone_into(&mut held);
        }
    }

    /// The server, as the client named it; empty before that.
    pub fn target(&self) -> String {
        self.target.lock().clone()
    }

    fn moved(&self) -> u64 {
        self.up.load(Ordering::Relaxed) + self.down.load(Ordering::Relaxed)
    }

    fn snapshot(&self) -> ConnectionStatus {
        ConnectionStatus {
            id: self.id,
            listener: self.listener.to_string(),
            client: self.client,
            target: self.target(),
            seconds: self.since.elapsed().as_secs_f64(),
            up_bytes: self.up.load(Ordering::Relaxed),
            down_bytes: self.down.load(Ordering::Relaxed),
        }
    }
}

/// An open connection for `status` and `top`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ConnectionStatus {
    /// Counted from the start of the process.
    pub id: u64,
    pub listener: String,
    /// The client's address and port.
    pub client: SocketAddr,
    /// The server, as the client named it; empty while it has not.
    pub target: String,
    /// Since it was accepted.
    pub seconds: f64,
    /// From the client to the server.
    pub up_bytes: u64,
    /// From the server to the client.
    pub down_bytes: u64,
}

#[derive(Debug)]
pub struct ConnectionRegistry {
    next: AtomicU64,
    open: Mutex<BTreeMap<u64, Arc<ConnectionStats>>>,
    pub metrics: Metrics,
    /// Where lines go.
    pub log: AccessLog,
}

impl ConnectionRegistry {
    /// None yet.
    pub fn new(metrics: Metrics, log: AccessLog) -> Self {
        Self {
            next: AtomicU64::new(1),
            open: Mutex::default(),
            metrics,
            log,
        }
    }

    /// Registers an accepted connection until the guard is dropped.
    pub fn open(self: &Arc<Self>, listener: &Arc<str>, client: SocketAddr) -> ConnectionGuard {
        let stats = Arc::new(ConnectionStats {
            id: self.next.fetch_add(1, Ordering::Relaxed),
            listener: Arc::clone(listener),
            client,
            since: Instant::now(),
            target: Mutex::default(),
            up: AtomicU64::new(0),
            down: AtomicU64::new(0),
        });
        self.open.lock().insert(stats.id, Arc::clone(&stats));
        ConnectionGuard {
            registry: Arc::clone(self),
            stats,
        }
    }

    /// At most `most` open connections, those with the most bytes first.
    pub fn snapshot(&self, most: usize) -> Vec<ConnectionStatus> {
        let mut open = self.all();
        open.sort_by_cached_key(|stats| (Reverse(stats.moved()), stats.id));
        open.truncate(most);
        let mut seen: Vec<_> = open.iter().map(|stats| stats.snapshot()).collect();
        // They have moved more since.
        seen.sort_by_key(|each| (Reverse(each.up_bytes + each.down_bytes), each.id));
        seen
    }

    /// All that stay open meanwhile, some at a time: every accept waits for the lock.
    fn all(&self) -> Vec<Arc<ConnectionStats>> {
        let mut all: Vec<Arc<ConnectionStats>> = Vec::new();
        loop {
            let last = all.last().map_or(0, |stats| stats.id);
            let before = all.len();
            let open = self.open.lock();
            let next = open.range((Bound::Excluded(last), Bound::Unbounded));
            all.extend(next.take(AT_A_TIME).map(|(_, stats)| Arc::clone(stats)));
            drop(open);
            if all.len() < before + AT_A_TIME {
                return all;
            }
        }
    }

    /// Adds what the kernel knows of a client's connection at its end; `None` for plain TCP.
    pub fn add_multipath(
        &self,
        multipath: Option<&Multipath>,
        paths: &BTreeMap<String, Vec<IpNet>>,
    ) -> Option<Vec<PathLine>> {
        let Some(multipath) = multipath else {
            self.metrics.plain_tcp.inc();
            return None;
        };
        self.metrics.add_session(multipath);
        let lines: Vec<_> = multipath
            .subflows
            .iter()
            .map(|subflow| PathLine {
                path: label(subflow.remote, paths).to_owned(),
                client: subflow.remote,
                up_bytes: subflow.received,
                down_bytes: subflow.sent,
                retransmissions: subflow.retransmissions,
            })
            .collect();
        for line in &lines {
            self.metrics.add_path(line);
        }
        Some(lines)
    }
}

fn label(address: IpAddr, paths: &BTreeMap<String, Vec<IpNet>>) -> &str {
    let found = paths
        .iter()
        .find(|(_, nets)| nets.iter().any(|net| net.contains(&address)));
    found.map_or(OTHER_PATH, |(label, _)| label)
}

/// The account of an open connection.
#[derive(Debug)]
pub struct ConnectionGuard {
    registry: Arc<ConnectionRegistry>,
    /// The connection as it stands.
    pub stats: Arc<ConnectionStats>,
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.registry.open.lock().remove(&self.stats.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_moved_most_are_seen_first_of_however_many() {
        let registry = Arc::new(ConnectionRegistry::new(Metrics::default(), AccessLog::default()));
        let client = SocketAddr::from(([192, 0, 2, 1], 1));
        for count in [0, 1, AT_A_TIME - 1, AT_A_TIME, 2 * AT_A_TIME + 1] {
            let open: Vec<_> = (0..count)
                .map(|number| {
                    let account = registry.open(&"a".into(), client);
                    account.stats.up.store(number as u64, Ordering::Relaxed);
                    account
                })
                .collect();
            let moved = |most| -> Vec<_> { registry.snapshot(most).iter().map(|each| each.up_bytes).collect() };
            let expected: Vec<_> = (0..count as u64).rev().collect();
            assert_eq!(moved(usize::MAX), expected);
            assert_eq!(moved(3), expected[..count.min(3)]);
            drop(open);
        }
        assert_eq!(registry.snapshot(1), []);
    }
}
