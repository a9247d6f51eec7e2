//! Round-trip times of existing TCP connections, from the kernel (`sock_diag(7)`).

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP};
use netlink_packet_sock_diag::inet::nlas::{Nla, TcpInfo};
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, InetResponse, SocketId, StateFlags};
use netlink_sys::Socket;
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use tokio::task::{JoinHandle, spawn_blocking};
use tracing::warn;

use crate::schema::Delay;
use crate::threshold::Threshold;

/// The largest datagram that the kernel sends.
const MAX_REPLY_BYTES: usize = 32 << 10;
/// The kernel aligns its messages to multiples of this.
const ALIGNMENT: usize = 4;
/// The pause after a query, as a multiple of its duration: with very many connections, queries take a twentieth of a
/// processor at most.
const REST_FACTOR: u32 = 19;
/// The pause after a query that failed.
const REOPEN_AFTER: Duration = Duration::from_secs(60);

/// Queries the kernel on a thread of its own: with 100,000 connections a query takes half a second, in which the event loop
/// could neither answer pings nor keep the lease alive.
pub struct BackgroundQuery<T> {
    state: State<T>,
    /// The failure that was logged: while it lasts it is logged once.
    logged: Option<String>,
}

enum State<T> {
    /// The next query is allowed from this moment on.
    Idle(KernelRtt, Instant),
    Pending(JoinHandle<Answer<T>>),
    /// The kernel has refused. It is asked again from this moment on.
    Unavailable(Instant),
}

/// The socket, the reply, and the duration of the query.
type Answer<T> = (KernelRtt, io::Result<T>, Duration);

impl<T: Default + Send + 'static> BackgroundQuery<T> {
    /// Logs if the kernel has no `sock_diag`.
    pub fn open() -> Self {
        let mut query = Self {
            state: State::Unavailable(Instant::now()),
            logged: None,
        };
        query.reopen();
        query
    }

    fn reopen(&mut self) {
        match KernelRtt::open() {
            Ok(kernel) => self.state = State::Idle(kernel, Instant::now()),
            Err(error) => self.refused(&error),
        }
    }

    fn refused(&mut self, error: &io::Error) {
        let what = error.to_string();
        if self.logged.as_ref() != Some(&what) {
            warn!("the kernel does not tell of connections: {what}; delays are measured without it");
            self.logged = Some(what);
        }
        self.state = State::Unavailable(Instant::now() + REOPEN_AFTER);
    }

    /// Returns the reply to the previous query once, otherwise a default value, and starts the next query if one is
    /// allowed. After a failure that is a minute later, by a socket of its own.
    pub async fn ask(&mut self, question: impl FnOnce(&mut KernelRtt) -> io::Result<T> + Send + 'static) -> T {
        let reply = match &mut self.state {
            State::Pending(asked) if asked.is_finished() => match asked.await {
                Ok((kernel, answer, took)) => {
                    self.state = State::Idle(kernel, Instant::now() + REST_FACTOR * took);
                    answer.inspect(|_| self.logged = None)
                }
                Err(error) => Err(io::Error::other(error)),
            },
            _ => Ok(T::default()),
        };
        let reply = reply.unwrap_or_else(|error| {
            self.refused(&error);
            T::default()
        });
        let now = Instant::now();
        if matches!(self.state, State::Unavailable(until) if until <= now) {
            self.reopen();
        }
        self.state = match std::mem::replace(&mut self.state, State::Unavailable(now)) {
            State::Idle(kernel, until) if until <= Instant::now() => {
                State::Pending(spawn_blocking(|| answer(kernel, question)))
            }
            as_before => as_before,
        };
        reply
    }
}

fn answer<T>(mut kernel: KernelRtt, question: impl FnOnce(&mut KernelRtt) -> io::Result<T>) -> Answer<T> {
    let begun = Instant::now();
    let reply = question(&mut kernel);
    (kernel, reply, begun.elapsed())
}

/// A socket of `sock_diag`, and the contents of the last reply.
pub struct KernelRtt {
    kernel: Socket,
    /// Acknowledged bytes by connection (its cookie).
    acknowledged: BTreeMap<[u8; 8], u64>,
    has_queried: bool,
}

impl KernelRtt {
    /// For this network namespace; fails if the kernel has no `sock_diag`.
    pub fn open() -> io::Result<Self> {
        Ok(Self {
            kernel: Socket::new(NETLINK_SOCK_DIAG)?,
            acknowledged: BTreeMap::new(),
            has_queried: false,
        })
    }

    /// The round-trip times to those of `ends` with a connection without queues on which something was acknowledged since
    /// the last query; the minimum of several.
    pub fn delays(&mut self, ends: &BTreeSet<SocketAddr>) -> io::Result<BTreeMap<SocketAddr, Delay>> {
        let kinds: BTreeSet<(bool, u16)> = ends.iter().map(|end| (end.is_ipv4(), end.port())).collect();
        self.collect(kinds, false, |_, far| ends.contains(&far).then_some(far))
    }

    /// The round-trip times by the `place` that a connection's own and remote address map to, whatever the ports.
    /// Connections that are new since the last query count as well: a short transfer begins and ends between a few queries,
    /// and everything acknowledged on it is recent.
    pub fn delays_to<Place: Ord>(
        &mut self,
        place: impl Fn(SocketAddr, SocketAddr) -> Option<Place>,
    ) -> io::Result<BTreeMap<Place, Delay>> {
        let new_ones_count = std::mem::replace(&mut self.has_queried, true);
        let any_port = 0;
        let kinds = [true, false].map(|ipv4| (ipv4, any_port));
        self.collect(kinds, new_ones_count, place)
    }

    fn collect<Place: Ord>(
        &mut self,
        kinds: impl IntoIterator<Item = (bool, u16)>,
        new_ones_count: bool,
        place: impl Fn(SocketAddr, SocketAddr) -> Option<Place>,
    ) -> io::Result<BTreeMap<Place, Delay>> {
        let before = std::mem::take(&mut self.acknowledged);
        let mut found: BTreeMap<Place, Delay> = BTreeMap::new();
        for (ipv4, port) in kinds {
            connections(&self.kernel, ipv4, port, |id, info| {
                let own = SocketAddr::new(id.source_address, id.source_port);
                let far = SocketAddr::new(id.destination_address, id.destination_port);
                let Some(place) = place(own, far) else {
                    return;
                };
                self.acknowledged.insert(id.cookie, info.bytes_acked);
                let fresh = match before.get(&id.cookie) {
                    Some(&bytes) => bytes < info.bytes_acked,
                    None => new_ones_count,
                };
                if let Some(delay) = unqueued(info.rtt, info.min_rtt).filter(|_| fresh) {
                    let least = found.entry(place).or_insert(delay);
                    *least = delay.min(*least);
                }
            })?;
        }
        Ok(found)
    }
}

/// A connection's delay from its smoothed and its minimum round-trip time, both in microseconds.
///
/// The smoothed one includes queues, also the connection's own, and acknowledgements that the peer delays by up to 40 ms.
/// The minimum covers the last five minutes and misses that a path became longer. Only where both agree is the delay known.
fn unqueued(smoothed: u32, least: u32) -> Option<Delay> {
    let [smoothed, least] = [smoothed, least].map(|us| Delay::of_microseconds(us.into()));
    (!Threshold::DEFAULT.exceeded(least, smoothed)).then_some(least)
}

/// Calls `take` with each connection to this port (0: any) that can carry data, and its `TCP_INFO`.
fn connections(kernel: &Socket, ipv4: bool, port: u16, mut take: impl FnMut(SocketId, TcpInfo)) -> io::Result<()> {
    let (family, any) = if ipv4 {
        (AF_INET, SocketId::new_v4())
    } else {
        (AF_INET6, SocketId::new_v6())
    };
    let request = InetRequest {
        family,
        protocol: IPPROTO_TCP,
        extensions: ExtensionFlags::INFO,
        states: StateFlags::ESTABLISHED | StateFlags::FIN_WAIT1 | StateFlags::CLOSE_WAIT,
        socket_id: SocketId {
            destination_port: port,
            ..any
        },
    };
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    let mut question = NetlinkMessage::new(header, SockDiagMessage::InetRequest(request).into());
    question.finalize();
    let mut bytes = vec![0; question.buffer_len()];
    question.serialize(&mut bytes);
    kernel.send(&bytes, 0)?;
    let mut answer = Vec::with_capacity(MAX_REPLY_BYTES);
    loop {
        answer.clear();
        kernel.recv(&mut answer, 0)?;
        let mut rest = &answer[..];
        while !rest.is_empty() {
            let message = NetlinkMessage::<SockDiagMessage>::deserialize(rest).map_err(io::Error::other)?;
            match message.payload {
                NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(each)) => {
                    if let Some((id, info)) = described(*each) {
                        take(id, info);
                    }
                }
                NetlinkPayload::Error(error) => return Err(error.to_io()),
                NetlinkPayload::Done(_) => return Ok(()),
                _ => {}
            }
            let length = (message.header.length as usize).next_multiple_of(ALIGNMENT);
            rest = rest.get(length..).unwrap_or_default();
        }
    }
}

fn described(each: InetResponse) -> Option<(SocketId, TcpInfo)> {
    let info = each.nlas.into_iter().find_map(|attribute| match attribute {
        Nla::TcpInfo(info) => Some(info),
        _ => None,
    });
    Some((each.header.socket_id, info?))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// Data in both directions, so that no acknowledgement is delayed.
    fn exchange(one: &TcpStream, other: &TcpStream) {
        for (mut from, mut to) in [(one, other), (other, one)] {
            from.write_all(b"x").unwrap();
            to.read_exact(&mut [0]).unwrap();
        }
    }

    #[test]
    fn a_connection_tells_the_delay_when_something_was_acknowledged_since_the_last_time() {
        for host in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(host).unwrap();
            let end = listener.local_addr().unwrap();
            let near = TcpStream::connect(end).unwrap();
            let (far, _) = listener.accept().unwrap();
            let ends = BTreeSet::from([end]);
            let mut standing = KernelRtt::open().unwrap();
            assert_eq!(standing.delays(&ends).unwrap(), BTreeMap::new());
            exchange(&near, &far);
            let found = standing.delays(&ends).unwrap();
            assert!(found[&end].microseconds() < 20_000, "{found:?}");
            assert_eq!(standing.delays(&ends).unwrap(), BTreeMap::new(), "nothing since");
            exchange(&near, &far);
            assert_eq!(standing.delays(&BTreeSet::new()).unwrap(), BTreeMap::new());
            assert!(standing.acknowledged.is_empty(), "of nobody's peer nothing is kept");
        }
    }

    #[test]
    fn a_connection_that_was_not_there_the_last_time_tells_where_it_leads() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let end = listener.local_addr().unwrap();
        let mut standing = KernelRtt::open().unwrap();
        let mut delays = || standing.delays_to(|_, far| (far == end).then_some(7)).unwrap();
        let connected = || {
            let near = TcpStream::connect(end).unwrap();
            let (far, _) = listener.accept().unwrap();
            exchange(&near, &far);
            (near, far)
        };
        let _old = connected();
        assert_eq!(delays(), BTreeMap::new(), "nobody knows how old it is");
        let _new = connected();
        assert_eq!(delays().into_keys().collect::<Vec<_>>(), [7]);
        assert_eq!(delays(), BTreeMap::new(), "nothing since");
    }

    /// The event loop's thread is not blocked by a slow query.
    #[tokio::test]
    async fn a_kernel_that_takes_long_holds_nobody_up_and_is_left_alone_for_longer() {
        let mut kernel = BackgroundQuery::open();
        let busy = Duration::from_millis(200);
        let question = move |_: &mut KernelRtt| {
            std::thread::sleep(busy);
            Ok(1)
        };
        let begun = Instant::now();
        assert_eq!(kernel.ask(question).await, 0);
        let mut reply = 0;
        while reply == 0 {
            let before = Instant::now();
            reply = kernel.ask(question).await;
            assert!(before.elapsed() < busy / 2);
            tokio::time::sleep(busy / 20).await;
        }
        assert!(begun.elapsed() >= busy);
        assert!(matches!(kernel.state, State::Idle(..)));
        while begun.elapsed() < 4 * busy {
            assert_eq!(kernel.ask(question).await, 0);
            assert!(matches!(kernel.state, State::Idle(..)));
            tokio::time::sleep(busy / 4).await;
        }
    }

    #[tokio::test]
    async fn a_kernel_that_failed_is_asked_again_after_a_minute() {
        let mut kernel = BackgroundQuery::open();
        while !matches!(kernel.state, State::Unavailable(_)) {
            let failed = kernel.ask(|_| Err(io::Error::other("interrupted")));
            assert_eq!(failed.await, 0);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(kernel.ask(|_| Ok(7)).await, 0);
        let again = Instant::now() + REOPEN_AFTER;
        assert!(matches!(kernel.state, State::Unavailable(until) if until <= again));
        kernel.state = State::Unavailable(Instant::now());
        let mut reply = 0;
        for _ in 0..1000 {
            reply = kernel.ask(|_| Ok(7)).await;
            if reply != 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!((reply, kernel.logged), (7, None));
    }

    #[test]
    fn what_queues_or_late_acknowledgements_disturb_says_nothing() {
        let delay = |us: u128| Some(Delay::of_microseconds(us));
        for (smoothed, least, expected) in [
            (10_500, 10_000, delay(10_000)),
            (12_000, 10_000, delay(10_000)),
            (12_001, 10_000, None),
            (50_000, 10_000, None),
            (109_000, 100_000, delay(100_000)),
            (111_000, 100_000, None),
        ] {
            assert_eq!(unqueued(smoothed, least), expected, "{smoothed} {least}");
        }
    }
}
