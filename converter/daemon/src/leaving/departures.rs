//! The kernel's part, and the connections that it carries on.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt;
use std::future::pending;
use std::io;
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::net::netdevice::name_to_index;
use tokio::net::TcpStream;
use tokio::time::sleep;
use tributary_transplant::{Connection, Limits, Seen, Translator, Unfit, at_rest};

use super::departure::Departure;
use super::slow_start;
use super::stays::Stays;
use crate::bytes::context::RelayContext;
use crate::bytes::flow::Flow;
use crate::bytes::relay::{Ended, Relayed, relay_until};
use crate::config::Leaving;
use crate::kernel::route::{Question, Routes};
use crate::kernel::sockets::canonical;

/// So often is it tried to leave a connection.
const TRIES: u32 = 8;
/// How often a connection that was left is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// Without any segment when both ends have ended: the last of them may have to be sent again.
const CLOSED: Duration = Duration::from_secs(5);

/// All that the kernel carries on, for as long as this is there.
pub struct Departures {
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
struct Way {
    devices: [u32; 2],
    changes: u64,
}

impl fmt::Debug for Departures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Departures")
            .field("devices", &self.devices)
            .finish_non_exhaustive()
    }
}

/// Both sockets of a session, the client's first, and their mark.
struct Pair<'a> {
    sockets: [&'a TcpStream; 2],
    marks: [Option<u32>; 2],
}

impl Pair<'_> {
    /// An error if there is something in the way that will not pass, before either end has to pause for nothing.
    fn may_be_left(&self) -> Result<(), Stays> {
        let [client, server] = self.sockets;
        for socket in [client, server] {
            match at_rest(socket) {
                Err(for_good) if !for_good.may_pass() => return Err(for_good.into()),
                _ => {}
            }
        }
        let is_ipv4 = |socket: &TcpStream| socket.peer_addr().map(|end| canonical(end).is_ipv4());
        if is_ipv4(client)? != is_ipv4(server)? {
            return Err(Unfit::Versions.into());
        }
        Ok(())
    }
}

impl Departures {
    /// None yet; the devices get their program. Raises what the kernel says: it needs `CAP_BPF`, `CAP_NET_ADMIN` and
    /// `CAP_PERFMON`.
    pub fn load(settings: &Leaving) -> io::Result<Self> {
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

    /// Relays until the end, by the kernel once slow start is over and if that can be. `mark` is that of the server's
    /// connection; `half` is called when the first direction of the relay ends, `left` with nothing when the kernel takes
    /// over, and otherwise with why the connection stays, when that is clear.
    pub async fn relay(
        &self,
        flows: [Flow<'_>; 2],
        context: &RelayContext<'_>,
        mark: Option<u32>,
        half: impl FnOnce(),
        left: impl Fn(Option<&'static str>),
    ) -> Ended {
        let pair = Pair {
            sockets: flows.each_ref().map(Flow::writer),
            marks: [None, mark],
        };
        let flushed = Cell::new(false);
        let leave = self.leave(&pair, context, &flushed, &left);
        match relay_until(flows, context, half, &flushed, leave).await {
            Relayed::Ended(ended) => ended,
            Relayed::Stopped((connection, way)) => {
                left(None);
                self.carried(&pair, way, &connection, context).await
            }
        }
    }

    /// Ready when the kernel has taken over; never, if that cannot be.
    async fn leave(
        &self,
        pair: &Pair<'_>,
        context: &RelayContext<'_>,
        flushed: &Cell<bool>,
        left: &impl Fn(Option<&'static str>),
    ) -> (Connection, Way) {
        let mut stays = Stays::never_at_rest();
        for _ in 0..TRIES {
            match self.try_to_leave(pair, context, flushed).await {
                Ok(Some(connection)) => return connection,
                Ok(None) => {}
                Err(for_good) => {
                    stays = for_good;
                    break;
                }
            }
        }
        tracing::debug!("a connection stays: {stays}");
        left(Some(stays.name));
        pending().await
    }

    /// `None` if it may be tried again, an error if not.
    async fn try_to_leave(
        &self,
        pair: &Pair<'_>,
        context: &RelayContext<'_>,
        flushed: &Cell<bool>,
    ) -> Result<Option<(Connection, Way)>, Stays> {
        let passed = || context.up.load(Ordering::Relaxed) + context.down.load(Ordering::Relaxed);
        slow_start::is_over(pair.sockets, passed, self.after).await?;
        let way = self.way_of(pair)?;
        pair.may_be_left()?;
        let departure = Departure::begin(pair.sockets, flushed)?;
        let Ok(frozen) = departure.freeze(passed).await else {
            departure.give_up()?;
            return Ok(None);
        };
        let sockets = pair.sockets.map(|socket| socket.as_fd());
        match Connection::take_over(&self.translator, sockets, &frozen, way.devices) {
            Ok(connection) => Ok(Some((connection, way))),
            Err(for_good) => {
                let heard = departure.hear(&frozen);
                departure.give_up().and(heard)?;
                Err(for_good.into())
            }
        }
    }

    /// The devices that go to both ends; an error if one of them is not ours.
    fn way_of(&self, pair: &Pair<'_>) -> Result<Way, Stays> {
        let mut watched = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        // Before the question: a change that comes behind it is seen later.
        let changes = watched.changes();
        let mut devices = [0; 2];
        for ((device, socket), mark) in devices.iter_mut().zip(pair.sockets).zip(pair.marks) {
            let end = canonical(socket.peer_addr()?);
            let question = Question {
                mark,
                ..Question::about(end.ip())
            };
            let found = watched.routes.device_of(question)?;
            let ours = found.filter(|device| self.devices.contains(device));
            *device = ours.ok_or_else(|| Stays::elsewhere(end))?;
        }
        Ok(Way { devices, changes })
    }

    /// Ready when the connection is over; until then its bytes are counted, and it goes where routes lead.
    async fn carried(
        &self,
        pair: &Pair<'_>,
        mut way: Way,
        connection: &Connection,
        context: &RelayContext<'_>,
    ) -> Ended {
        let mut limits = Limits {
            closed: CLOSED,
            idle: context.idle,
        };
        let counters = [context.up, context.down];
        let before = counters.map(|counter| counter.load(Ordering::Relaxed));
        loop {
            sleep(LOOK).await;
            self.follow_routes(pair, &mut way, connection);
            match look(connection, &limits) {
                Ok((seen, over)) => {
                    count(counters, before, &seen);
                    if over {
                        return ended(&seen);
                    }
                    if seen.iter().any(|direction| direction.fin) {
                        limits.idle = context.half_closed;
                    }
                }
                Err(error) => {
                    tracing::error!("a connection that was left cannot be looked at: {error}");
                    return Ended::Silent;
                }
            }
        }
    }

    /// Has the connection go by other devices, once its routes do. It stays on its way as long as they lead to none of ours:
    /// nothing could come back by that.
    fn follow_routes(&self, pair: &Pair<'_>, way: &mut Way, connection: &Connection) {
        if self.changes() == way.changes {
            return;
        }
        let moved = self.way_of(pair).and_then(|now| {
            if now.devices != way.devices {
                connection.lead(&self.translator, [now.devices[1], now.devices[0]])?;
            }
            Ok(now)
        });
        match moved {
            Ok(now) => *way = now,
            Err(why) => tracing::debug!("a connection that was left stays on its way: {why}"),
        }
    }

    fn changes(&self) -> u64 {
        let mut watched = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
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

/// What a connection came to of which the client's and the server's segments were seen so.
fn ended([client, server]: &[Seen; 2]) -> Ended {
    if client.reset {
        Ended::ClientReset
    } else if server.reset {
        Ended::ServerReset
    } else if client.fin && server.fin {
        Ended::Whole
    } else {
        Ended::Silent
    }
}

/// The number of a device. Raises [`io::ErrorKind::NotFound`] if there is none of this name.
fn number(device: &str) -> io::Result<u32> {
    let socket = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        None,
    )?;
    let number = name_to_index(&socket, device);
    number.map_err(|error| io::Error::new(error.kind(), format!("{device}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_was_left_ends_by_what_was_seen_of_it() {
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
            (fin, fin, Ended::Whole),
            (goes, goes, Ended::Silent),
            (fin, goes, Ended::Silent),
            (reset, fin, Ended::ClientReset),
            (fin, reset, Ended::ServerReset),
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
