//! Offloads connections to the kernel and watches them until they are over.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::time::sleep;
use tributary_offload::{
    Connection, Incompatible, Limits, NotQuiescent, OffloadError, Seen, Translator, check_quiescent,
};
use tributary_sys::{canonical, device_number};

use super::Pair;
use super::attempt::{OffloadAttempt, slow_start_is_over};
use crate::config::{Offload, Timeouts};
use crate::kernel::route::{RouteQuery, Routes};
use crate::observe::RelayResult;
use crate::observe::metrics::Metrics;

/// How often a connection is tried.
const TRIES: u32 = 8;
/// How often an offloaded connection is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// Without any segment when both ends have ended: the last of them may have to be sent again.
const CLOSED: Duration = Duration::from_secs(5);

/// The program in the kernel. Dropping it ends all offloaded connections.
pub struct Offloader {
    devices: BTreeSet<u32>,
    after: u64,
    translator: Translator,
    routes: Mutex<Watched>,
}

/// Routes, and how often they have changed so far.
struct Watched {
    routes: Routes,
    changes: u64,
}

/// The devices that lead to both ends, the client's first, after so many changes of routes.
#[derive(Clone, Copy)]
pub struct Path {
    devices: [u32; 2],
    changes: u64,
}

impl Pair<'_> {
    /// Bytes that have passed so far, from each of them.
    fn passed(&self) -> [u64; 2] {
        self.counters.map(|counter| counter.load(Ordering::Relaxed))
    }

    /// Returns a permanent reason against it, before either end has to pause for nothing.
    fn may_be_offloaded(&self) -> Result<(), NotOffloaded> {
        let [client, server] = self.sockets;
        for socket in [client, server] {
            match check_quiescent(socket) {
                Err(for_good) if !for_good.may_pass() => return Err(for_good.into()),
                _ => {}
            }
        }
        let is_ipv4 = |socket: &TcpStream| socket.peer_addr().map(|end| canonical(end).is_ipv4());
        if is_ipv4(client)? != is_ipv4(server)? {
            return Err(OffloadError::Incompatible(Incompatible::Versions).into());
        }
        Ok(())
    }
}

impl Offloader {
    /// Loads the program and attaches it to the devices, which takes `CAP_BPF`, `CAP_NET_ADMIN` and `CAP_PERFMON`.
    pub fn load(settings: &Offload) -> io::Result<Self> {
        let routes = Routes::open()?;
        let mut translator = Translator::load()?;
        let mut devices = BTreeSet::new();
        for name in &settings.devices {
            devices.insert(number(name)?);
            translator.attach(name)?;
        }
        Ok(Self {
            devices,
            after: settings.after as u64,
            translator,
            routes: Mutex::new(Watched { routes, changes: 0 }),
        })
    }

    /// Ready when the kernel has taken over; never if that is not possible. `flushed`: whether the relay has written all that
    /// it read.
    pub async fn offload(&self, pair: &Pair<'_>, flushed: &Cell<bool>, metrics: &Metrics) -> (Connection, Path) {
        let mut refusal = NotOffloaded::never_quiescent();
        for _ in 0..TRIES {
            match self.try_offload(pair, flushed).await {
                Ok(Some(connection)) => {
                    metrics.count_offload(None);
                    return connection;
                }
                Ok(None) => {}
                Err(for_good) => {
                    refusal = for_good;
                    break;
                }
            }
        }
        tracing::debug!("a connection is not offloaded: {}", refusal.why);
        metrics.count_offload(Some(refusal.name));
        pending().await
    }

    /// Returns `None` if it may be tried again, and an error if not.
    async fn try_offload(
        &self,
        pair: &Pair<'_>,
        flushed: &Cell<bool>,
    ) -> Result<Option<(Connection, Path)>, NotOffloaded> {
        let passed = || -> u64 { pair.passed().iter().sum() };
        slow_start_is_over(pair.sockets, passed, flushed, self.after).await?;
        let path = self.devices_of(pair)?;
        pair.may_be_offloaded()?;
        let attempt = OffloadAttempt::begin(pair.sockets, flushed)?;
        let Ok(state) = attempt.checkpoint(passed).await else {
            attempt.give_up()?;
            return Ok(None);
        };
        let sockets = pair.sockets.map(|socket| socket.as_fd());
        match Connection::take_over(&self.translator, sockets, &state, path.devices) {
            Ok(connection) => Ok(Some((connection, path))),
            Err(for_good) => {
                let resumed = attempt.resume(&state);
                attempt.give_up().and(resumed)?;
                Err(for_good.into())
            }
        }
    }

    /// The devices that lead to both ends; an error if one of them is not in the settings.
    fn devices_of(&self, pair: &Pair<'_>) -> Result<Path, NotOffloaded> {
        let mut watched = self.routes.lock();
        // Read before the query, so that a later change is not missed.
        let changes = watched.changes();
        let mut devices = [0; 2];
        for ((device, socket), mark) in devices.iter_mut().zip(pair.sockets).zip(pair.marks) {
            let end = canonical(socket.peer_addr()?);
            let query = RouteQuery {
                mark,
                ..RouteQuery::about(end.ip())
            };
            let found = watched.routes.device_of(query)?;
            let known = found.filter(|device| self.devices.contains(device));
            *device = known.ok_or_else(|| NotOffloaded::elsewhere(end))?;
        }
        Ok(Path { devices, changes })
    }

    /// Counts the bytes of an offloaded connection and follows its routes until it is over.
    pub async fn watch(
        &self,
        pair: &Pair<'_>,
        (connection, mut path): (Connection, Path),
        timeouts: &Timeouts,
    ) -> RelayResult {
        let mut limits = Limits {
            closed: CLOSED,
            idle: timeouts.idle,
        };
        let before = pair.passed();
        loop {
            sleep(LOOK).await;
            self.follow_routes(pair, &mut path, &connection);
            match look(&connection, &limits) {
                Ok((seen, over)) => {
                    count(pair.counters, before, &seen);
                    if over {
                        return ended(&seen);
                    }
                    if seen.iter().any(|direction| direction.fin) {
                        limits.idle = timeouts.half_closed;
                    }
                }
                Err(error) => {
                    tracing::error!("an offloaded connection cannot be looked at: {error}");
                    return RelayResult::IdleTimeout;
                }
            }
        }
    }

    /// Moves the connection to other devices once its routes have changed. It keeps its path if they lead to a device
    /// without the program: nothing could come back by that.
    fn follow_routes(&self, pair: &Pair<'_>, path: &mut Path, connection: &Connection) {
        if self.changes() == path.changes {
            return;
        }
        let moved = self.devices_of(pair).and_then(|now| {
            if now.devices != path.devices {
                connection.lead(&self.translator, [now.devices[1], now.devices[0]])?;
            }
            Ok(now)
        });
        match moved {
            Ok(now) => *path = now,
            Err(refusal) => tracing::debug!("an offloaded connection keeps its path: {}", refusal.why),
        }
    }

    fn changes(&self) -> u64 {
        let mut watched = self.routes.lock();
        watched.changes()
    }
}

impl Watched {
    /// How often routes have changed so far, or links, which takes routes along.
    fn changes(&mut self) -> u64 {
        self.changes += u64::from(self.routes.have_changed());
        self.changes
    }
}

/// What was seen of a connection, and whether it is over.
fn look(connection: &Connection, limits: &Limits) -> io::Result<([Seen; 2], bool)> {
    match connection.over(limits)? {
        Some(last) => Ok((last, true)),
        None => Ok((connection.seen()?, false)),
    }
}

fn count(counters: [&AtomicU64; 2], before: [u64; 2], seen: &[Seen; 2]) {
    for ((counter, before), seen) in counters.into_iter().zip(before).zip(seen) {
        counter.store(before + seen.bytes, Ordering::Relaxed);
    }
}

/// How a connection ended, by what was seen of the client's and the server's segments.
fn ended([client, server]: &[Seen; 2]) -> RelayResult {
    if client.reset {
        RelayResult::ClientReset
    } else if server.reset {
        RelayResult::ServerReset
    } else if client.fin && server.fin {
        RelayResult::Completed
    } else {
        RelayResult::IdleTimeout
    }
}

/// The number of a device. Raises [`io::ErrorKind::NotFound`] if there is none of this name.
fn number(device: &str) -> io::Result<u32> {
    device_number(device).map_err(|error| io::Error::new(error.kind(), format!("{device}: {error}")))
}

/// A permanent reason.
#[derive(Debug)]
pub struct NotOffloaded {
    /// For metrics.
    pub name: &'static str,
    why: String,
}

impl NotOffloaded {
    /// In no attempt did both connections become quiescent.
    pub fn never_quiescent() -> Self {
        Self::new("busy", "its ends did not pause")
    }

    /// The route to this end leads to a device that is not in the settings.
    pub fn elsewhere(end: SocketAddr) -> Self {
        Self::new("device", format!("{end} is not behind a device of offload.devices"))
    }

    fn new(name: &'static str, why: impl Into<String>) -> Self {
        Self { name, why: why.into() }
    }
}

impl From<io::Error> for NotOffloaded {
    fn from(error: io::Error) -> Self {
        NotQuiescent::from(error).into()
    }
}

impl From<NotQuiescent> for NotOffloaded {
    fn from(obstacle: NotQuiescent) -> Self {
        Self::new(obstacle.name(), obstacle.to_string())
    }
}

impl From<OffloadError> for NotOffloaded {
    fn from(error: OffloadError) -> Self {
        match error {
            OffloadError::Incompatible(why) => Self::new(why.name(), why.to_string()),
            OffloadError::Kernel(error) => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offloaded_connection_ends_by_what_was_seen_of_it() {
        let (goes, fin, reset) = (
            Seen::default(),
            Seen {
                fin: true,
                ..Seen::default()
            },
            Seen {
                reset: true,
                ..Seen::default()
            },
        );
        for (client, server, how) in [
            (fin, fin, RelayResult::Completed),
            (goes, goes, RelayResult::IdleTimeout),
            (fin, goes, RelayResult::IdleTimeout),
            (reset, fin, RelayResult::ClientReset),
            (fin, reset, RelayResult::ServerReset),
        ] {
            assert_eq!(ended(&[client, server]), how);
        }
    }

    #[test]
    fn a_device_that_is_not_there_is_named() {
        let error = number("nosuch0").expect_err("there is none");
        assert!(error.to_string().starts_with("nosuch0: "), "{error}");
    }
}
