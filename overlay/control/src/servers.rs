//! How far servers are that this node may be next to: what connections to them tell, else how long it takes to connect to
//! the one that the operator names for it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use ipnet::IpNet;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tracing::warn;
use tributary_forbidden::{Verdict, verdict};

use crate::egresses::{self, Egresses};
use crate::meter::Peers;
use crate::name::Name;
use crate::standing::{Background, Standing};
use crate::values::Delay;
use crate::window::{Reading, Window};

/// What is known of the servers of each network.
pub type Readings = BTreeMap<IpNet, Reading>;

/// A server is connected to once in as many looks at the connections that stand.
const PROBED_EVERY: u32 = 5;
/// After this time the kernel sends a second SYN, and nobody knows which of the two is answered (RFC 6298 section 2).
const LONGEST: Duration = Duration::from_secs(1);

/// The networks whose servers a node may be next to, among others that it does not measure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// With the server to connect to, if one is named.
    measured: BTreeMap<IpNet, Option<SocketAddr>>,
    /// Of all lines.
    networks: BTreeSet<IpNet>,
    /// How long their prefixes are, the longest first; whether for IPv4.
    lengths: BTreeSet<(bool, Reverse<u8>)>,
    /// Who is in the networks and no server.
    nodes: BTreeSet<IpAddr>,
    /// The servers that are named and may not be connected to.
    refused: BTreeSet<SocketAddr>,
}

impl Wanted {
    /// Those of the lines in which `own` is one of several nodes. Where lines name different servers to connect to, it is
    /// the one with the least address, the same for all nodes.
    ///
    /// Whoever may publish lines has all nodes connect to what they name, and hears whether it answers. So it is held to the
    /// list that converters go by, with the networks that the node's operator `allow`s.
    pub fn of<'a>(
        own: &Name,
        egresses: impl IntoIterator<Item = &'a Egresses>,
        peers: &Peers,
        allow: &[IpNet],
    ) -> Self {
        let mut wanted = Self::default();
        let may_be_probed =
            |probe: &SocketAddr| verdict(probe.ip().to_canonical(), allow) == Verdict::Reached;
        for egress in egresses.into_iter().flat_map(Egresses::iter) {
            wanted.networks.insert(egress.to);
            let length = Reverse(egress.to.prefix_len());
            wanted.lengths.insert((egress.to.addr().is_ipv4(), length));
            let fits =
                wanted.measured.len() < egresses::MOST || wanted.measured.contains_key(&egress.to);
            if egress.is_candidate(own) && fits {
                let probe = wanted.measured.entry(egress.to).or_default();
                let named = egress.probe.filter(may_be_probed);
                wanted
                    .refused
                    .extend(egress.probe.filter(|_| named.is_none()));
                *probe = (*probe).into_iter().chain(named).min();
            }
        }
        for node in peers.values() {
            let converter = node.converter.map(|converter| converter.ip());
            wanted
                .nodes
                .extend(converter.into_iter().chain([node.address.ip()]));
        }
        wanted
    }

    /// The servers that are named and may not be connected to.
    pub fn refused(&self) -> &BTreeSet<SocketAddr> {
        &self.refused
    }

    /// The measured network that tells how far this server is. None is one of all addresses: its servers are anywhere.
    fn network_of(&self, server: IpAddr) -> Option<IpNet> {
        if self.nodes.contains(&server) {
            return None;
        }
        let lengths = self
            .lengths
            .iter()
            .filter(|(ipv4, _)| *ipv4 == server.is_ipv4());
        let above_0 = lengths.filter(|(_, Reverse(length))| *length > 0);
        let mut covering = above_0
            .filter_map(|(_, Reverse(length))| Some(IpNet::new(server, *length).ok()?.trunc()));
        let longest = covering.find(|to| self.networks.contains(to));
        longest.filter(|to| self.measured.contains_key(to))
    }
}

/// Look once an `every` at the connections to the servers of `wanted`, and connect to one server at most, until nobody wants
/// any. `listening` is the port of the node's converter: who comes in there is no server.
pub async fn measure(
    every: Duration,
    listening: Option<u16>,
    mut wanted: watch::Receiver<Wanted>,
    readings: watch::Sender<Readings>,
) {
    let mut ways = Ways::default();
    let mut kernel = None;
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while wanted.has_changed().is_ok() {
        ticks.tick().await;
        let now = wanted.borrow_and_update().clone();
        ways.set(&now.measured);
        if now.measured.is_empty() {
            kernel = None;
        } else {
            let kernel = kernel.get_or_insert_with(|| Background::open(untold));
            let told = kernel
                .ask(move |kernel| look(kernel, &now, listening), untold)
                .await;
            if let Some((network, server)) = ways.look(&told) {
                ways.connected(network, time_to(server).await);
            }
        }
        let known = ways.readings();
        readings.send_if_modified(|before| std::mem::replace(before, known) != *before);
    }
}

/// What connections tell now.
fn look(
    kernel: &mut Standing,
    wanted: &Wanted,
    listening: Option<u16>,
) -> io::Result<BTreeMap<IpNet, Delay>> {
    kernel.delays_to(|own, far| {
        let outgoing = Some(own.port()) != listening;
        outgoing.then(|| wanted.network_of(far.ip()))?
    })
}

fn untold(error: &io::Error) {
    warn!("the kernel does not tell of connections to servers: {error}");
}

/// From the SYN to its acknowledgement; None without one. Nothing is sent to the server.
async fn time_to(server: SocketAddr) -> Option<Delay> {
    let start = Instant::now();
    let _connected = timeout(LONGEST, TcpStream::connect(server))
        .await
        .ok()?
        .ok()?;
    Some(Delay::of_microseconds(start.elapsed().as_micros()))
}

/// What was heard of each network.
#[derive(Default)]
struct Ways(BTreeMap<IpNet, Way>);

struct Way {
    probe: Option<SocketAddr>,
    window: Window,
    /// Looks since it was heard of, or connected to.
    silent_for: u32,
}

impl Ways {
    fn set(&mut self, measured: &BTreeMap<IpNet, Option<SocketAddr>>) {
        self.0
            .retain(|network, way| measured.get(network) == Some(&way.probe));
        for (&network, &probe) in measured {
            self.0.entry(network).or_insert_with(|| Way {
                probe,
                window: Window::default(),
                silent_for: PROBED_EVERY,
            });
        }
    }

    /// Take what connections `told`; of the other networks returns the one whose turn it is, and its server.
    fn look(&mut self, told: &BTreeMap<IpNet, Delay>) -> Option<(IpNet, SocketAddr)> {
        for (network, way) in &mut self.0 {
            if let Some(&delay) = told.get(network) {
                way.window.heard(delay);
                way.silent_for = 0;
            } else {
                way.silent_for = way.silent_for.saturating_add(1);
            }
        }
        let due = self
            .0
            .iter_mut()
            .filter(|(_, way)| way.silent_for > PROBED_EVERY);
        let probed = due.filter_map(|(&network, way)| Some((network, way.probe?, way)));
        let (network, server, way) = probed.max_by_key(|(_, _, way)| way.silent_for)?;
        way.silent_for = 0;
        Some((network, server))
    }

    fn connected(&mut self, network: IpNet, delay: Option<Delay>) {
        if let Some(way) = self.0.get_mut(&network) {
            match delay {
                Some(delay) => way.window.heard(delay),
                None => way.window.missed(),
            }
        }
    }

    fn readings(&self) -> Readings {
        let each = self.0.iter();
        each.map(|(&network, way)| (network, way.window.reading()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::values::Node;

    fn network(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    fn wanted(own: &str, egresses: &[&str]) -> Wanted {
        let egresses: Vec<Egresses> = egresses
            .iter()
            .map(|text| Egresses::parse(text).unwrap())
            .collect();
        let node = Node {
            address: "10.1.0.9:5460".parse().unwrap(),
            converter: Some("10.1.0.8:5124".parse().unwrap()),
        };
        let peers = Peers::from([("n".parse().unwrap(), node)]);
        Wanted::of(
            &own.parse().unwrap(),
            &egresses,
            &peers,
            &[network("10.0.0.0/8")],
        )
    }

    #[test]
    fn a_node_measures_the_networks_of_the_lines_that_name_it_among_others() {
        let first = "10.0.0.0/8 a|b probe 10.0.0.2:80\n10.1.0.0/16 a\n10.2.0.0/16 b|c\n";
        let second = "10.0.0.0/8 port 22 b|a probe 10.0.0.1:22\n2001:db8::/32 a|c\n";
        let found = wanted("a", &[first, second]);
        let expected = [
            (network("10.0.0.0/8"), Some("10.0.0.1:22".parse().unwrap())),
            (network("2001:db8::/32"), None),
        ];
        assert_eq!(found.measured, BTreeMap::from(expected));
        assert_eq!(wanted("d", &[first]).measured, BTreeMap::new());
    }

    #[test]
    fn no_node_connects_to_what_no_converter_would() {
        for (line, probed) in [
            ("127.0.0.0/8 a|b probe 127.0.0.1:22", false),
            ("169.254.0.0/16 a|b probe 169.254.169.254:80", false),
            ("192.168.0.0/16 a|b probe 192.168.0.1:80", false),
            ("::/0 a|b probe [::ffff:127.0.0.1]:80", false),
            ("64:ff9b::/96 a|b probe [64:ff9b::7f00:1]:80", false),
            ("10.0.0.0/8 a|b probe 10.0.0.1:80", true),
            ("198.51.100.0/24 a|b probe 198.51.100.1:80", true),
        ] {
            let found = wanted("a", &[line]);
            assert_eq!(found.refused.is_empty(), probed, "{line}");
            assert_eq!(
                found.measured.values().all(Option::is_some),
                probed,
                "{line}"
            );
        }
    }

    #[test]
    fn a_server_tells_of_the_longest_prefix_alone_and_nodes_are_none() {
        let lines =
            "10.0.0.0/8 a|b\n10.1.0.0/16 a|b\n10.2.0.0/16 b\ndefault a|b\n2001:db8::/32 b|a";
        let found = wanted("a", &[lines]);
        for (server, expected) in [
            ("10.3.0.1", Some("10.0.0.0/8")),
            ("10.1.0.1", Some("10.1.0.0/16")),
            ("10.1.0.9", None),
            ("10.1.0.8", None),
            ("10.2.0.1", None),
            ("192.0.2.1", None),
            ("2001:db8::1", Some("2001:db8::/32")),
        ] {
            let told = found.network_of(server.parse().unwrap());
            assert_eq!(told, expected.map(network), "{server}");
        }
    }

    #[test]
    fn servers_are_connected_to_in_turn_where_no_connection_tells() {
        let [one, two, three] = ["10.0.0.0/8", "10.1.0.0/16", "10.2.0.0/16"].map(network);
        let server = |text: &str| Some(text.parse().unwrap());
        let mut ways = Ways::default();
        let first = server("10.0.0.1:80");
        ways.set(&BTreeMap::from([
            (one, first),
            (two, server("10.1.0.1:80")),
            (three, None),
        ]));
        let told = BTreeMap::from([(three, Delay::of_microseconds(7))]);
        let looks = |ways: &mut Ways, count: usize| -> Vec<Option<IpNet>> {
            let each = (0..count).map(|_| ways.look(&told).map(|(network, _)| network));
            each.collect()
        };
        let turn = [Some(two), Some(one), None, None, None, None];
        assert_eq!(looks(&mut ways, 12), [turn, turn].concat());
        for _ in 0..3 {
            ways.connected(one, None);
            ways.connected(two, Some(Delay::of_microseconds(5)));
        }
        let known = |us| Reading::Known(Delay::of_microseconds(us));
        let expected = [(one, Reading::Silent), (two, known(5)), (three, known(7))];
        assert_eq!(ways.readings(), BTreeMap::from(expected));
        // Another server begins anew; what is no longer wanted goes.
        ways.set(&BTreeMap::from([
            (one, first),
            (two, server("10.1.0.2:80")),
        ]));
        let expected = [(one, Reading::Silent), (two, Reading::Unknown)];
        assert_eq!(ways.readings(), BTreeMap::from(expected));
    }

    #[tokio::test]
    async fn a_server_that_is_named_is_connected_to_and_a_port_that_refuses_says_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let open = listener.local_addr().unwrap();
        assert!(time_to(open).await.unwrap().microseconds() < 500_000);
        drop(listener);
        assert_eq!(time_to(open).await, None);
    }
}
