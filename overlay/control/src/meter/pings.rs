//! The pings of peers: which are asked, which answers count, and what is known by them.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::time::Instant;

use tokio::net::UdpSocket;

use super::{Datagram, Peers, Readings};
use crate::name::Name;
use crate::peer_sample::PeerSample;
use crate::schema::{Delay, Node};
use crate::window::{Reading, Window};

/// With a sample of peers, in one of so many turns another peer is pinged.
const RETRY_SILENT_EVERY: u64 = 60;
/// After so many turns without any answer it was the node's own network that failed.
const CUT_OFF_AFTER: u32 = 3;

#[derive(Default)]
pub struct Pings {
    /// None: all peers.
    sample: Option<PeerSample>,
    /// The peers of the sample whose readings are published.
    counted: BTreeSet<Name>,
    peers: BTreeMap<Name, Peer>,
    turns: u64,
    /// Turns since the last answer, this one included.
    unanswered: u32,
    open: BTreeMap<u64, (Name, Instant)>,
    /// `SipHash` with a random key makes unguessable numbers.
    unguessable: RandomState,
    count: u64,
}

struct Peer {
    node: Node,
    window: Window,
    /// The turn of the last ping.
    asked: u64,
}

impl Pings {
    pub fn new(sample: Option<PeerSample>) -> Self {
        Self {
            sample,
            ..Self::default()
        }
    }

    pub fn set(&mut self, peers: &Peers) {
        self.peers
            .retain(|name, peer| peers.get(name).map(|node| node.address) == Some(peer.node.address));
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

    pub fn converters(&self) -> BTreeSet<SocketAddr> {
        self.peers.values().filter_map(|peer| peer.node.converter).collect()
    }

    /// The next requests by their numbers; open ones count as lost. Peers whose round-trip time the kernel knows are not
    /// pinged.
    pub fn ask(&mut self, kernel_rtts: &BTreeMap<SocketAddr, Delay>) -> Vec<(u64, SocketAddr)> {
        for (name, _) in std::mem::take(&mut self.open).into_values() {
            if let Some(peer) = self.peers.get_mut(&name) {
                peer.window.missed();
            }
        }
        self.unanswered = self.unanswered.saturating_add(1);
        let converters = self.converters();
        if kernel_rtts.keys().any(|end| converters.contains(end)) {
            self.answered();
        }
        let now = Instant::now();
        let wanted = self.take_turn();
        let mut asked = Vec::with_capacity(self.peers.len());
        for (name, peer) in &mut self.peers {
            let converter = peer.node.converter;
            if let Some(&delay) = converter.and_then(|converter| kernel_rtts.get(&converter)) {
                peer.window.heard(delay);
                peer.asked = self.turns;
                continue;
            }
            if wanted.as_ref().is_some_and(|sample| !sample.contains(name)) {
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

    /// The peers to ping in this turn; None for all. Now and then a peer that was not pinged for long starts again from
    /// nothing: it may be nearer now, or answer again.
    fn take_turn(&mut self) -> Option<BTreeSet<Name>> {
        let sample = self.sample.as_ref()?;
        self.turns += 1;
        let quiet = self.peers.values_mut().min_by_key(|peer| peer.asked);
        let is_due = |peer: &&mut Peer| self.turns % RETRY_SILENT_EVERY == 0 && peer.asked + 1 < self.turns;
        if let Some(peer) = quiet.filter(is_due) {
            peer.window = Window::default();
        }
        let readings = self.all_readings();
        self.counted = sample.counted(&readings, &self.counted);
        Some(sample.asked(&readings, &self.counted))
    }

    pub fn sent(&mut self, number: u64, now: Instant) {
        if let Some((_, when)) = self.open.get_mut(&number) {
            *when = now;
        }
    }

    pub async fn received(&mut self, bytes: &[u8], from: SocketAddr, socket: &UdpSocket) {
        match Datagram::decode(bytes) {
            // A lost reply is asked for again.
            Some(Datagram::Request(number)) => drop(socket.send_to(&Datagram::Reply(number).encode(), from).await),
            Some(Datagram::Reply(number)) => self.heard(number, from, Instant::now()),
            None => {}
        }
    }

    fn heard(&mut self, number: u64, from: SocketAddr, now: Instant) {
        let Some((name, sent)) = self.open.get(&number) else {
            return;
        };
        let Some(peer) = self.peers.get_mut(name).filter(|peer| peer.node.address == from) else {
            return;
        };
        peer.window
            .heard(Delay::of_microseconds(now.duration_since(*sent).as_micros()));
        self.open.remove(&number);
        self.answered();
    }

    /// The first answer after the node's own network failed: what was missed meanwhile says nothing about the peers. Of a
    /// sample's silent peers few would be asked again.
    fn answered(&mut self) {
        if self.unanswered > CUT_OFF_AFTER {
            for peer in self.peers.values_mut() {
                if peer.window.reading() == Reading::Silent {
                    peer.window = Window::default();
                }
            }
        }
        self.unanswered = 0;
    }

    pub fn readings(&self) -> Readings {
        let mut readings = self.all_readings();
        readings.retain(|name, reading| {
            self.sample.is_none() || *reading == Reading::Silent || self.counted.contains(name)
        });
        readings
    }

    fn all_readings(&self) -> Readings {
        let each = self.peers.iter();
        each.map(|(name, peer)| (name.clone(), peer.window.reading())).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    /// With its converter at the next port.
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
    fn an_answer_counts_once_from_the_peer_itself_and_in_its_turn() {
        let (mut pings, name) = pings(1);
        for _ in 0..3 {
            let asked = pings.ask(&BTreeMap::new());
            let [(number, _)] = asked[..] else { panic!("{asked:?}") };
            let start = Instant::now();
            pings.sent(number, start);
            pings.heard(number.wrapping_add(1), address(1), start);
            pings.heard(number, address(2), start);
            for milliseconds in [10, 1] {
                pings.heard(number, address(1), start + Duration::from_millis(milliseconds));
            }
        }
        assert_eq!(pings.readings()[&name], Reading::Known(Delay::of_microseconds(10_000)));
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
        // Its converter no longer answers: the measurements stay.
        let without = Node {
            converter: None,
            ..node(1)
        };
        pings.set(&Peers::from([(name.clone(), without)]));
        assert_eq!(pings.converters(), BTreeSet::new());
        assert_eq!(pings.readings()[&name], Reading::Known(delay));
    }

    /// A node that asks six of 20 peers, n10 to n29.
    fn many() -> Pings {
        let each = (10..30).map(|port| (format!("n{port}").parse().unwrap(), node(port)));
        let mut pings = Pings::new(Some(PeerSample {
            own: "n30".parse().unwrap(),
            count: 6,
        }));
        pings.set(&each.collect());
        pings
    }

    /// One turn: port NN answers after NN ms if it `answers`. Returns the ports that were asked.
    fn turn(pings: &mut Pings, answers: impl Fn(u16) -> bool) -> BTreeSet<u16> {
        let asked = pings.ask(&BTreeMap::new());
        let ports = asked.iter().map(|(_, address)| address.port()).collect();
        for (number, from) in asked.into_iter().filter(|(_, from)| answers(from.port())) {
            let start = Instant::now();
            pings.sent(number, start);
            let delay = Duration::from_millis(from.port().into());
            pings.heard(number, from, start + delay);
        }
        ports
    }

    fn silent(pings: &Pings) -> Vec<String> {
        let readings = pings.readings().into_iter();
        let silent = readings.filter(|(_, reading)| *reading == Reading::Silent);
        silent.map(|(name, _)| name.to_string()).collect()
    }

    #[test]
    fn of_many_a_few_are_asked_and_told_of_and_who_is_silent() {
        let mut pings = many();
        let mut last = BTreeSet::new();
        for count in 0..40 {
            last = turn(&mut pings, |port| port != 12);
            assert_eq!(last.len(), 6, "{count}");
        }
        assert_eq!(silent(&pings), ["n12"]);
        let readings = pings.readings();
        let known = readings.values().filter(|reading| matches!(reading, Reading::Known(_)));
        assert_eq!(known.count() + usize::from(last.contains(&12)), 6);
        let nearest = [10, 11, 13].iter().filter(|port| last.contains(port)).count();
        assert_eq!(nearest, 3, "{last:?}");
    }

    #[test]
    fn what_nobody_answered_makes_no_peer_silent_for_long() {
        let mut pings = many();
        for (turns, is_cut_off) in [(40, false), (90, true), (40, false)] {
            for _ in 0..turns {
                turn(&mut pings, |port| !is_cut_off && port != 12);
            }
        }
        assert_eq!(silent(&pings), ["n12"]);
    }
}
