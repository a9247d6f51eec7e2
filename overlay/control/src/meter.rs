//! Round-trip times: what connections to its peers' converters tell an agent, and what it asks the peers themselves by
//! datagrams (UDP), and how it answers theirs.
//!
//! A datagram has 16 bytes: seven of a magic, a kind, and eight that nobody can guess and that the answer repeats. An
//! answer is as long as what it answers, so that nobody makes more traffic of it.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::net::UdpSocket;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};
use tracing::warn;

use crate::few::Few;
use crate::name::Name;
use crate::standing::Background;
use crate::values::{Delay, Node};
use crate::window::{Reading, Window};

/// Where the agents and the converters of all others are.
pub type Peers = BTreeMap<Name, Node>;
/// What is known of each.
pub type Readings = BTreeMap<Name, Reading>;

/// Where a few are asked, one that is not is asked again once in as many turns.
const ANEW_EVERY: u64 = 60;

const MAGIC: &[u8; 7] = b"TRIBRTT";
const SIZE: usize = 16;
const ASK: u8 = 1;
const ANSWER: u8 = 2;

/// A datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Datagram {
    Ask(u64),
    Answer(u64),
}

impl Datagram {
    fn encode(self) -> [u8; SIZE] {
        let (kind, number) = match self {
            Self::Ask(number) => (ASK, number),
            Self::Answer(number) => (ANSWER, number),
        };
        let mut bytes = [0; SIZE];
        bytes[..7].copy_from_slice(MAGIC);
        bytes[7] = kind;
        bytes[8..].copy_from_slice(&number.to_be_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (magic, rest) = bytes.split_first_chunk::<7>()?;
        let (&kind, number) = rest.split_first()?;
        let number = u64::from_be_bytes(number.try_into().ok()?);
        match kind {
            ASK if magic == MAGIC => Some(Self::Ask(number)),
            ANSWER if magic == MAGIC => Some(Self::Answer(number)),
            _ => None,
        }
    }
}

/// Ask all `peers`, or a `few` of them, once an `every`, but for those to which a connection tells it; answer whoever asks,
/// and tell what is known, until nobody has `peers` any more.
///
/// An answer that takes longer than `every` counts as lost.
pub async fn measure(
    socket: UdpSocket,
    every: Duration,
    few: Option<Few>,
    mut peers: watch::Receiver<Peers>,
    readings: watch::Sender<Readings>,
) {
    let mut pings = Pings {
        few,
        ..Pings::default()
    };
    let mut kernel = Background::open(untold);
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // One byte more shows which are too long.
    let mut bytes = [0; SIZE + 1];
    loop {
        tokio::select! {
            // Answers that are here count, however late we look.
            biased;
            changed = peers.changed() => match changed {
                Ok(()) => pings.set(&peers.borrow_and_update()),
                Err(_) => return,
            },
            Ok((length, from)) = socket.recv_from(&mut bytes) => match Datagram::decode(&bytes[..length]) {
                // Whom it does not reach asks again.
                Some(Datagram::Ask(number)) => drop(socket.send_to(&Datagram::Answer(number).encode(), from).await),
                Some(Datagram::Answer(number)) => pings.heard(number, from, Instant::now()),
                None => {}
            },
            _ = ticks.tick() => {
                let converters = pings.converters();
                let told = kernel.ask(move |kernel| kernel.delays(&converters), untold).await;
                let asked = pings.ask(&told);
                readings.send_if_modified(|before| std::mem::replace(before, pings.readings()) != *before);
                for (number, address) in asked {
                    pings.sent(number, Instant::now());
                    // One that does not leave is one without an answer.
                    let _ = socket.send_to(&Datagram::Ask(number).encode(), address).await;
                }
            }
        }
    }
}

fn untold(error: &io::Error) {
    warn!("the kernel does not tell of connections: {error}; all delays are measured by pings");
}

/// What was asked, and what was heard.
#[derive(Default)]
struct Pings {
    /// None for all of them.
    few: Option<Few>,
    /// Those that count, of a few.
    counted: BTreeSet<Name>,
    peers: BTreeMap<Name, Peer>,
    /// How often they were asked.
    turns: u64,
    /// The questions without an answer yet.
    open: BTreeMap<u64, (Name, Instant)>,
    /// `SipHash` with a key of our own makes numbers that nobody can guess.
    unguessable: RandomState,
    count: u64,
}

struct Peer {
    node: Node,
    window: Window,
    /// The turn in which it was last asked.
    asked: u64,
}

impl Pings {
    fn set(&mut self, peers: &Peers) {
        self.peers.retain(|name, peer| {
            peers.get(name).map(|node| node.address) == Some(peer.node.address)
        });
        for (name, node) in peers {
            let new = || Peer {
                node: node.clone(),
                window: Window::default(),
                asked: 0,
            };
            let peer = self.peers.entry(name.clone()).or_insert_with(new);
            peer.node.converter = node.converter;
        }
    }

    fn converters(&self) -> BTreeSet<SocketAddr> {
        self.peers
            .values()
            .filter_map(|peer| peer.node.converter)
            .collect()
    }

    /// The next questions, by their numbers; those still open are lost. Who is as far as was `told` of its converter is not
    /// asked.
    fn ask(&mut self, told: &BTreeMap<SocketAddr, Delay>) -> Vec<(u64, SocketAddr)> {
        for (name, _) in std::mem::take(&mut self.open).into_values() {
            if let Some(peer) = self.peers.get_mut(&name) {
                peer.window.missed();
            }
        }
        let now = Instant::now();
        let wanted = self.take_turn();
        let mut asked = Vec::with_capacity(self.peers.len());
        for (name, peer) in &mut self.peers {
            let converter = peer.node.converter;
            if let Some(&delay) = converter.and_then(|converter| told.get(&converter)) {
                peer.window.heard(delay);
                peer.asked = self.turns;
                continue;
            }
            if wanted.as_ref().is_some_and(|few| !few.contains(name)) {
                continue;
            }
            peer.asked = self.turns;
            self.count += 1;
            let number = self.unguessable.hash_one(self.count);
            self.open.insert(number, (name.clone(), now));
            asked.push((number, peer.node.address));
        }
        asked
    }

    /// Whom to ask this time; None for all. Once in a while one who has not been asked for long is asked as if for the first
    /// time: it may be nearer now, or answer again.
    fn take_turn(&mut self) -> Option<BTreeSet<Name>> {
        let few = self.few.as_ref()?;
        self.turns += 1;
        let quiet = self.peers.values_mut().min_by_key(|peer| peer.asked);
        let is_due = |peer: &&mut Peer| self.turns % ANEW_EVERY == 0 && peer.asked + 1 < self.turns;
        if let Some(peer) = quiet.filter(is_due) {
            peer.window = Window::default();
        }
        let readings = || {
            let each = self.peers.iter();
            each.map(|(name, peer)| (name, peer.window.reading()))
        };
        self.counted = few.counted(readings(), &self.counted);
        Some(few.asked(readings(), &self.counted))
    }

    fn sent(&mut self, number: u64, now: Instant) {
        if let Some((_, when)) = self.open.get_mut(&number) {
            *when = now;
        }
    }

    fn heard(&mut self, number: u64, from: SocketAddr, now: Instant) {
        let Some((name, sent)) = self.open.get(&number) else {
            return;
        };
        let Some(peer) = self
            .peers
            .get_mut(name)
            .filter(|peer| peer.node.address == from)
        else {
            return;
        };
        peer.window.heard(Delay::of_microseconds(
            now.duration_since(*sent).as_micros(),
        ));
        self.open.remove(&number);
    }

    fn readings(&self) -> Readings {
        let each = self.peers.iter();
        let readings = each.map(|(name, peer)| (name.clone(), peer.window.reading()));
        let tells = |name: &Name, reading: Reading| {
            self.few.is_none() || reading == Reading::Silent || self.counted.contains(name)
        };
        readings
            .filter(|(name, reading)| tells(name, *reading))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    /// One whose converter is at the next port.
    fn node(port: u16) -> Node {
        Node {
            address: address(port),
            converter: Some(address(port + 1)),
        }
    }

    fn pings(port: u16) -> (Pings, Name) {
        let name: Name = "B".parse().unwrap();
        let mut pings = Pings::default();
        pings.set(&Peers::from([(name.clone(), node(port))]));
        (pings, name)
    }

    #[test]
    fn datagrams_are_read_as_written_and_nothing_else_is() {
        for datagram in [
            Datagram::Ask(0),
            Datagram::Answer(u64::MAX),
            Datagram::Ask(1 << 40),
        ] {
            let bytes = datagram.encode();
            assert_eq!(Datagram::decode(&bytes), Some(datagram));
            for length in 0..SIZE {
                assert_eq!(Datagram::decode(&bytes[..length]), None);
            }
            assert_eq!(Datagram::decode(&[&bytes[..], &[0]].concat()), None);
            for at in 0..8 {
                let mut wrong = bytes;
                wrong[at] ^= 0x80;
                assert_eq!(Datagram::decode(&wrong), None, "{at}");
            }
        }
    }

    #[test]
    fn an_answer_counts_once_from_the_peer_itself_and_in_its_turn() {
        let (mut pings, name) = pings(1);
        for _ in 0..3 {
            let asked = pings.ask(&BTreeMap::new());
            let [(number, _)] = asked[..] else {
                panic!("{asked:?}")
            };
            let start = Instant::now();
            pings.sent(number, start);
            pings.heard(number.wrapping_add(1), address(1), start);
            pings.heard(number, address(2), start);
            for milliseconds in [10, 1] {
                pings.heard(
                    number,
                    address(1),
                    start + Duration::from_millis(milliseconds),
                );
            }
        }
        assert_eq!(
            pings.readings()[&name],
            Reading::Known(Delay::of_microseconds(10_000))
        );
    }

    #[test]
    fn a_peer_that_moved_is_measured_anew() {
        let (mut pings, name) = pings(1);
        for _ in 0..4 {
            pings.ask(&BTreeMap::new());
        }
        assert_eq!(pings.readings()[&name], Reading::Silent);
        pings.set(&Peers::from([(name.clone(), node(2))]));
        assert_eq!(pings.readings()[&name], Reading::Unknown);
        pings.set(&Peers::new());
        assert!(pings.readings().is_empty());
    }

    #[test]
    fn a_peer_that_a_connection_tells_of_is_not_asked() {
        let (mut pings, name) = pings(1);
        assert_eq!(pings.converters(), BTreeSet::from([address(2)]));
        let delay = Delay::of_microseconds(7000);
        for _ in 0..3 {
            assert_eq!(pings.ask(&BTreeMap::from([(address(2), delay)])), []);
        }
        assert_eq!(pings.readings()[&name], Reading::Known(delay));
        assert_eq!(pings.ask(&BTreeMap::from([(address(3), delay)])).len(), 1);
        // Its converter falls silent: what was measured stays.
        let without = Node {
            converter: None,
            ..node(1)
        };
        pings.set(&Peers::from([(name.clone(), without)]));
        assert_eq!(pings.converters(), BTreeSet::new());
        assert_eq!(pings.readings()[&name], Reading::Known(delay));
    }

    #[test]
    fn of_many_a_few_are_asked_and_told_of_and_who_is_silent() {
        let names: Vec<Name> = (10..30)
            .map(|port| format!("n{port}").parse().unwrap())
            .collect();
        let peers = names
            .iter()
            .zip(10..)
            .map(|(name, port)| (name.clone(), node(port)));
        let mut pings = Pings {
            few: Some(Few {
                own: "n30".parse().unwrap(),
                count: 6,
            }),
            ..Pings::default()
        };
        pings.set(&peers.collect());
        // Port NN answers after NN ms, but 12.
        let mut last = BTreeSet::new();
        for turn in 0..40 {
            let asked = pings.ask(&BTreeMap::new());
            assert_eq!(asked.len(), 6, "{turn}");
            last = asked.iter().map(|(_, address)| address.port()).collect();
            for (number, from) in asked.into_iter().filter(|(_, from)| from.port() != 12) {
                let start = Instant::now();
                pings.sent(number, start);
                pings.heard(
                    number,
                    from,
                    start + Duration::from_millis(from.port().into()),
                );
            }
        }
        let readings = pings.readings();
        let silent: Vec<&Name> = readings
            .iter()
            .filter(|(_, reading)| **reading == Reading::Silent)
            .map(|(name, _)| name)
            .collect();
        assert_eq!(silent, [&names[2]]);
        let known = readings
            .values()
            .filter(|reading| matches!(reading, Reading::Known(_)));
        assert_eq!(known.count() + usize::from(last.contains(&12)), 6);
        let nearest = [10, 11, 13]
            .iter()
            .filter(|port| last.contains(port))
            .count();
        assert_eq!(nearest, 3, "{last:?}");
    }

    #[tokio::test]
    async fn two_meters_measure_each_other() {
        let [one, other] = [
            UdpSocket::bind(address(0)).await,
            UdpSocket::bind(address(0)).await,
        ]
        .map(Result::unwrap);
        let name: Name = "other".parse().unwrap();
        let node = Node {
            address: other.local_addr().unwrap(),
            converter: None,
        };
        let peers = Peers::from([(name.clone(), node)]);
        let (_mine, given) = watch::channel(Peers::new());
        let (told, _) = watch::channel(Readings::new());
        let every = Duration::from_millis(20);
        tokio::spawn(measure(other, every, None, given, told));
        let (set, given) = watch::channel(Peers::new());
        set.send(peers).unwrap();
        let (told, mut readings) = watch::channel(Readings::new());
        tokio::spawn(measure(one, every, None, given, told));
        let known = |all: &Readings| matches!(all.get(&name), Some(Reading::Known(_)));
        let waited = tokio::time::timeout(Duration::from_secs(10), readings.wait_for(known));
        assert!(waited.await.unwrap().is_ok());
    }
}
