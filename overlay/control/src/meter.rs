//! Measures round-trip times to peers: from the kernel where there is a connection to the peer's converter, otherwise by
//! pings (UDP). Also answers peers' pings.
//!
//! A datagram has 16 bytes: a magic of seven, a type, and an unguessable number of eight, which the reply repeats. A reply
//! is as long as its request, so that nobody can amplify traffic by it.

mod pings;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tokio::net::UdpSocket;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use pings::Pings;

use crate::kernel_rtt::BackgroundQuery;
use crate::name::Name;
use crate::peer_sample::PeerSample;
use crate::schema::Node;
use crate::window::Reading;

/// The addresses of the other agents and their converters.
pub type Peers = BTreeMap<Name, Node>;
pub type Readings = BTreeMap<Name, Reading>;

/// Before a turn so many datagrams are read that have come: more than a socket's buffer has room for (`rmem_default`).
const MAX_READ_BEFORE_TURN: u32 = 1024;

const MAGIC: &[u8; 7] = b"TRIBRTT";
const SIZE: usize = 16;
const REQUEST: u8 = 1;
const REPLY: u8 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Datagram {
    Request(u64),
    Reply(u64),
}

impl Datagram {
    fn encode(self) -> [u8; SIZE] {
        let (kind, number) = match self {
            Self::Request(number) => (REQUEST, number),
            Self::Reply(number) => (REPLY, number),
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
            REQUEST if magic == MAGIC => Some(Self::Request(number)),
            REPLY if magic == MAGIC => Some(Self::Reply(number)),
            _ => None,
        }
    }
}

/// Pings all `peers`, or a `sample` of them, once an `every` except those whose round-trip time the kernel knows; answers
/// pings, and publishes `readings`. Ends when the sender of `peers` is dropped.
///
/// A reply that takes longer than `every` counts as lost.
pub async fn measure(
    socket: UdpSocket,
    every: Duration,
    sample: Option<PeerSample>,
    mut peers: watch::Receiver<Peers>,
    readings: watch::Sender<Readings>,
) {
    let mut pings = Pings::new(sample);
    let mut kernel = BackgroundQuery::open();
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // One byte more, to recognise datagrams that are too long.
    let mut bytes = [0; SIZE + 1];
    loop {
        tokio::select! {
            // Turns before datagrams, which may never end.
            biased;
            changed = peers.changed() => match changed {
                Ok(()) => pings.set(&peers.borrow_and_update()),
                Err(_) => return,
            },
            _ = ticks.tick() => {
                // Replies count however late this task runs.
                for _ in 0..MAX_READ_BEFORE_TURN {
                    let Ok((length, from)) = socket.try_recv_from(&mut bytes) else {
                        break;
                    };
                    pings.received(&bytes[..length], from, &socket).await;
                }
                let converters = pings.converters();
                let kernel_rtts = kernel.ask(move |kernel| kernel.delays(&converters)).await;
                let asked = pings.ask(&kernel_rtts);
                readings.send_if_modified(|before| std::mem::replace(before, pings.readings()) != *before);
                for (number, address) in asked {
                    pings.sent(number, Instant::now());
                    // A request that cannot be sent counts as unanswered.
                    let _ = socket.send_to(&Datagram::Request(number).encode(), address).await;
                }
            }
            Ok((length, from)) = socket.recv_from(&mut bytes) => pings.received(&bytes[..length], from, &socket).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_are_read_as_written_and_nothing_else_is() {
        for datagram in [
            Datagram::Request(0),
            Datagram::Reply(u64::MAX),
            Datagram::Request(1 << 40),
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

    /// Its sender runs on the same thread, and sends more than is read meanwhile.
    #[tokio::test]
    async fn a_flood_of_datagrams_stops_no_measurement() {
        let bind = || async { UdpSocket::bind("127.0.0.1:0").await.unwrap() };
        let (own, peer, flood) = (bind().await, bind().await, bind().await);
        let own_address = own.local_addr().unwrap();
        let node = Node {
            address: peer.local_addr().unwrap(),
            converter: None,
        };
        let (peers_sender, peers) = watch::channel(Peers::from([("B".parse().unwrap(), node)]));
        let (readings_sender, mut readings) = watch::channel(Readings::new());
        tokio::spawn(measure(own, Duration::from_millis(10), None, peers, readings_sender));
        peers_sender.send_modify(|_| {});
        let flooding = tokio::spawn(async move {
            loop {
                for _ in 0..200 {
                    let _ = flood.try_send_to(&[0; SIZE], own_address);
                }
                tokio::task::yield_now().await;
            }
        });
        let silent = |readings: &Readings| readings.values().any(|reading| *reading == Reading::Silent);
        let found = tokio::time::timeout(Duration::from_secs(20), readings.wait_for(silent)).await;
        flooding.abort();
        found.expect("in time").expect("it measures");
    }
}
