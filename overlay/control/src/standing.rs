//! Round-trip times of the connections that stand anyway, as the kernel knows them (`sock_diag(7)`).

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use netlink_packet_core::{
    NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP};
use netlink_packet_sock_diag::inet::nlas::{Nla, TcpInfo};
use netlink_packet_sock_diag::inet::{
    ExtensionFlags, InetRequest, InetResponse, SocketId, StateFlags,
};
use netlink_sys::Socket;
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::threshold::Threshold;
use crate::values::Delay;

/// The kernel answers with no more at once.
const LONGEST_ANSWER: usize = 32 << 10;
/// Its messages begin at multiples of as many bytes.
const ALIGNMENT: usize = 4;
/// The smoothed round-trip time of a connection without queues is no farther from its least one.
const QUIET: Threshold = Threshold {
    percent: 10,
    least_us: 2000,
};

/// Behind each look the kernel is left alone for as many times as long as the look took: where many connections stand, that
/// takes a twentieth of a processor at most.
const REST: u32 = 19;

/// Has the kernel asked on a thread of its own: among 100,000 connections that takes half a second, in which the one that
/// answers pings and keeps the lease would do nothing.
pub enum Background<T> {
    /// It was asked last, and may be again from then on.
    Resting(Standing, Instant),
    /// It is asked now.
    Asking(JoinHandle<Answer<T>>),
    /// It does not tell.
    Refused,
}

/// The kernel, what it said, and how long that took.
type Answer<T> = (Standing, io::Result<T>, Duration);

impl<T: Default + Send + 'static> Background<T> {
    /// Nothing is asked yet. `refused` hears why if the kernel has no `sock_diag`.
    pub fn open(refused: impl FnOnce(&io::Error)) -> Self {
        match Standing::open() {
            Ok(kernel) => Self::Resting(kernel, Instant::now()),
            Err(error) => {
                refused(&error);
                Self::Refused
            }
        }
    }

    /// What the kernel has said to the question before, once; nothing where it has not. Asks this one next, if it may be
    /// asked now; at its refusal, which `refused` hears of, never again.
    pub async fn ask(
        &mut self,
        question: impl FnOnce(&mut Standing) -> io::Result<T> + Send + 'static,
        refused: impl FnOnce(&io::Error),
    ) -> T {
        let said = match self {
            Self::Asking(asked) if asked.is_finished() => match asked.await {
                Ok((kernel, answer, took)) => {
                    *self = Self::Resting(kernel, Instant::now() + REST * took);
                    answer
                }
                Err(error) => Err(io::Error::other(error)),
            },
            _ => Ok(T::default()),
        };
        let said = said.unwrap_or_else(|error| {
            refused(&error);
            *self = Self::Refused;
            T::default()
        });
        *self = match std::mem::replace(self, Self::Refused) {
            Self::Resting(kernel, until) if until <= Instant::now() => {
                Self::Asking(spawn_blocking(|| answer(kernel, question)))
            }
            as_before => as_before,
        };
        said
    }
}

fn answer<T>(
    mut kernel: Standing,
    question: impl FnOnce(&mut Standing) -> io::Result<T>,
) -> Answer<T> {
    let begun = Instant::now();
    let said = question(&mut kernel);
    (kernel, said, begun.elapsed())
}

/// The kernel, and what it said when it was last asked.
pub struct Standing {
    kernel: Socket,
    /// How many bytes had been acknowledged, by the connection's cookie.
    acknowledged: BTreeMap<[u8; 8], u64>,
    /// Whether it was asked at all.
    asked: bool,
}

impl Standing {
    /// Of this network namespace; an error if the kernel has no `sock_diag`.
    pub fn open() -> io::Result<Self> {
        Ok(Self {
            kernel: Socket::new(NETLINK_SOCK_DIAG)?,
            acknowledged: BTreeMap::new(),
            asked: false,
        })
    }

    /// The round-trip times to those of `ends` to which a quiet connection stands, on which something was acknowledged since
    /// the last time, the least if there are several.
    pub fn delays(
        &mut self,
        ends: &BTreeSet<SocketAddr>,
    ) -> io::Result<BTreeMap<SocketAddr, Delay>> {
        let kinds: BTreeSet<(bool, u16)> =
            ends.iter().map(|end| (end.is_ipv4(), end.port())).collect();
        self.look(kinds, false, |_, far| ends.contains(&far).then_some(far))
    }

    /// The same for the `place` that a connection leads to, by its own end and the far one, whatever the ports. One that was
    /// not there the last time counts as well: a short transfer comes and goes between a few looks, and all that was
    /// acknowledged on it is new.
    pub fn delays_to<Place: Ord>(
        &mut self,
        place: impl Fn(SocketAddr, SocketAddr) -> Option<Place>,
    ) -> io::Result<BTreeMap<Place, Delay>> {
        let new_ones_count = std::mem::replace(&mut self.asked, true);
        let any_port = 0;
        let kinds = [true, false].map(|ipv4| (ipv4, any_port));
        self.look(kinds, new_ones_count, place)
    }

    fn look<Place: Ord>(
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
                if let Some(delay) = undisturbed(info.rtt, info.min_rtt).filter(|_| fresh) {
                    let least = found.entry(place).or_insert(delay);
                    *least = delay.min(*least);
                }
            })?;
        }
        Ok(found)
    }
}

/// A connection's delay by its smoothed and its least round-trip time, both in microseconds.
///
/// The smoothed one has queues in it, the connection's own among them, and acknowledgements that the far end delays by
/// up to 40 ms. The least one is that of the last five minutes, and knows nothing of a way that became longer. So only
/// where they agree does either say how far the peer is.
fn undisturbed(smoothed: u32, least: u32) -> Option<Delay> {
    let [smoothed, least] = [smoothed, least].map(|us| Delay::of_microseconds(us.into()));
    (!QUIET.exceeded(least, smoothed)).then_some(least)
}

/// Gives all connections to this port, or to any if it is 0, that can carry data, and what the kernel knows of each, to
/// `take`.
fn connections(
    kernel: &Socket,
    ipv4: bool,
    port: u16,
    mut take: impl FnMut(SocketId, TcpInfo),
) -> io::Result<()> {
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
    let mut answer = Vec::with_capacity(LONGEST_ANSWER);
    loop {
        answer.clear();
        kernel.recv(&mut answer, 0)?;
        let mut rest = &answer[..];
        while !rest.is_empty() {
            let message =
                NetlinkMessage::<SockDiagMessage>::deserialize(rest).map_err(io::Error::other)?;
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

    /// There and back again, which leaves nothing to be acknowledged late.
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
            let mut standing = Standing::open().unwrap();
            assert_eq!(standing.delays(&ends).unwrap(), BTreeMap::new());
            exchange(&near, &far);
            let found = standing.delays(&ends).unwrap();
            assert!(found[&end].microseconds() < 20_000, "{found:?}");
            assert_eq!(
                standing.delays(&ends).unwrap(),
                BTreeMap::new(),
                "nothing since"
            );
            exchange(&near, &far);
            assert_eq!(standing.delays(&BTreeSet::new()).unwrap(), BTreeMap::new());
            assert!(
                standing.acknowledged.is_empty(),
                "of nobody's peer nothing is kept"
            );
        }
    }

    #[test]
    fn a_connection_that_was_not_there_the_last_time_tells_where_it_leads() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let end = listener.local_addr().unwrap();
        let mut standing = Standing::open().unwrap();
        let mut told = || {
            standing
                .delays_to(|_, far| (far == end).then_some(7))
                .unwrap()
        };
        let connected = || {
            let near = TcpStream::connect(end).unwrap();
            let (far, _) = listener.accept().unwrap();
            exchange(&near, &far);
            (near, far)
        };
        let _old = connected();
        assert_eq!(told(), BTreeMap::new(), "nobody knows how old it is");
        let _new = connected();
        assert_eq!(told().into_keys().collect::<Vec<_>>(), [7]);
        assert_eq!(told(), BTreeMap::new(), "nothing since");
    }

    /// Whether the thread goes on meanwhile.
    #[tokio::test]
    async fn a_kernel_that_takes_long_holds_nobody_up_and_is_left_alone_for_longer() {
        let refused = |error: &io::Error| panic!("{error}");
        let mut kernel = Background::open(refused);
        let busy = Duration::from_millis(200);
        let question = move |_: &mut Standing| {
            std::thread::sleep(busy);
            Ok(1)
        };
        let begun = Instant::now();
        assert_eq!(kernel.ask(question, refused).await, 0);
        let mut said = 0;
        while said == 0 {
            let before = Instant::now();
            said = kernel.ask(question, refused).await;
            assert!(before.elapsed() < busy / 2);
            tokio::time::sleep(busy / 20).await;
        }
        assert!(begun.elapsed() >= busy);
        assert!(matches!(kernel, Background::Resting(..)));
        while begun.elapsed() < 4 * busy {
            assert_eq!(kernel.ask(question, refused).await, 0);
            assert!(matches!(kernel, Background::Resting(..)));
            tokio::time::sleep(busy / 4).await;
        }
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
            assert_eq!(undisturbed(smoothed, least), expected, "{smoothed} {least}");
        }
    }
}
