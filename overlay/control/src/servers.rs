//! Measures round-trip times to the servers for which this node is a candidate egress: from its connections to them,
//! otherwise by connecting to the server that the operator names as the probe.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use ipnet::IpNet;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tributary_forbidden::{Verdict, verdict};

use crate::egresses::{self, Egresses};
use crate::kernel_rtt::{BackgroundQuery, KernelRtt};
use crate::meter::Peers;
use crate::name::Name;
use crate::schema::Delay;
use crate::window::{Reading, Window};

pub type Readings = BTreeMap<IpNet, Reading>;

/// A server is probed in one of so many turns.
const PROBE_INTERVAL: u32 = 5;
/// Without a probe, the delay of the last connections counts for so many turns.
const FORGET_AFTER: u32 = 60;
/// After this time the kernel repeats the SYN, and it is not known which of the two is answered (RFC 6298 section 2).
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerTargets {
    /// With the probe, if one is named.
    measured: BTreeMap<IpNet, Option<SocketAddr>>,
    /// Of all lines.
    networks: BTreeSet<IpNet>,
    /// The lengths of all prefixes, the longest first; true for IPv4.
    lengths: BTreeSet<(bool, Reverse<u8>)>,
    /// Addresses of nodes: they are not servers.
    nodes: BTreeSet<IpAddr>,
    /// Named probes that are forbidden.
    refused: BTreeSet<SocketAddr>,
}

impl ServerTargets {
    /// The networks of the lines in which `own` is a candidate. If lines name different probes for a network, the least
    /// address counts, for all nodes the same.
    ///
    /// Whoever may publish lines could make all nodes connect to any address, and learn whether it answers. So probes are
    /// subject to the converters' list of forbidden targets, with the operator's exceptions in `allow`.
    pub fn of<'a>(
        own: &Name,
        egresses: impl IntoIterator<Item = &'a Egresses>,
        peers: &Peers,
        allow: &[IpNet],
    ) -> Self {
        let mut wanted = Self::default();
        let may_be_probed = |probe: &SocketAddr| verdict(probe.ip().to_canonical(), allow) == Verdict::Reached;
        for egress in egresses.into_iter().flat_map(Egresses::iter) {
            wanted.networks.insert(egress.to);
            let length = Reverse(egress.to.prefix_len());
            wanted.lengths.insert((egress.to.addr().is_ipv4(), length));
            let fits = wanted.measured.len() < egresses::MAX_EGRESSES || wanted.measured.contains_key(&egress.to);
            if egress.is_candidate(own) && fits {
                let probe = wanted.measured.entry(egress.to).or_default();
                let named = egress.probe.filter(may_be_probed);
                wanted.refused.extend(egress.probe.filter(|_| named.is_none()));
                *probe = (*probe).into_iter().chain(named).min();
            }
        }
        for node in peers.values() {
            let converter = node.converter.map(|converter| converter.ip());
            wanted.nodes.extend(converter.into_iter().chain([node.address.ip()]));
        }
        wanted
    }

    pub fn refused(&self) -> &BTreeSet<SocketAddr> {
        &self.refused
    }

    /// The measured network whose delay a connection to this server shows. A network of all addresses is none: its servers
    /// are anywhere.
    fn network_of(&self, server: IpAddr) -> Option<IpNet> {
        if self.nodes.contains(&server) {
            return None;
        }
        let lengths = self.lengths.iter().filter(|(ipv4, _)| *ipv4 == server.is_ipv4());
        let above_0 = lengths.filter(|(_, Reverse(length))| *length > 0);
        let mut covering = above_0.filter_map(|(_, Reverse(length))| Some(IpNet::new(server, *length).ok()?.trunc()));
        let longest = covering.find(|to| self.networks.contains(to));
        longest.filter(|to| self.measured.contains_key(to))
    }
}

/// Once an `every`, reads the round-trip times of connections to the servers of `wanted`, and probes one server at most.
/// Ends when the sender of `wanted` is dropped. `listening` is the port of the node's converter, whose clients are not
/// servers.
pub async fn measure(
    every: Duration,
    listening: Option<u16>,
    mut wanted: watch::Receiver<ServerTargets>,
    readings: watch::Sender<Readings>,
) {
    let mut windows = NetworkWindows::default();
    let mut kernel = None;
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while wanted.has_changed().is_ok() {
        ticks.tick().await;
        let now = wanted.borrow_and_update().clone();
        windows.set(&now.measured);
        if now.measured.is_empty() {
            kernel = None;
        } else {
            let kernel = kernel.get_or_insert_with(BackgroundQuery::open);
            let collect = move |kernel: &mut KernelRtt| collect(kernel, &now, listening);
            let kernel_rtts = kernel.ask(collect).await;
            if let Some((network, server)) = windows.collect(&kernel_rtts) {
                windows.connected(network, time_to(server).await);
            }
        }
        let known = windows.readings();
        readings.send_if_modified(|before| std::mem::replace(before, known) != *before);
    }
}

fn collect(
    kernel: &mut KernelRtt,
    wanted: &ServerTargets,
    listening: Option<u16>,
) -> io::Result<BTreeMap<IpNet, Delay>> {
    kernel.delays_to(|own, far| {
        let outgoing = Some(own.port()) != listening;
        outgoing.then(|| wanted.network_of(far.ip()))?
    })
}

/// From SYN to SYN-ACK; None without one. No data is sent.
async fn time_to(server: SocketAddr) -> Option<Delay> {
    let start = Instant::now();
    let _connected = timeout(PROBE_TIMEOUT, TcpStream::connect(server)).await.ok()?.ok()?;
    Some(Delay::of_microseconds(start.elapsed().as_micros()))
}

#[derive(Default)]
struct NetworkWindows(BTreeMap<IpNet, NetworkWindow>);

struct NetworkWindow {
    probe: Option<SocketAddr>,
    window: Window,
    /// Turns since the last sample or probe.
    silent_for: u32,
}

impl NetworkWindows {
    fn set(&mut self, measured: &BTreeMap<IpNet, Option<SocketAddr>>) {
        self.0
            .retain(|network, window| measured.get(network) == Some(&window.probe));
        for (&network, &probe) in measured {
            self.0.entry(network).or_insert_with(|| NetworkWindow {
                probe,
                window: Window::default(),
                silent_for: PROBE_INTERVAL,
            });
        }
    }

    /// Takes the round-trip times of connections; of the other networks returns the one to probe next, and its server.
    fn collect(&mut self, kernel_rtts: &BTreeMap<IpNet, Delay>) -> Option<(IpNet, SocketAddr)> {
        for (network, window) in &mut self.0 {
            if let Some(&delay) = kernel_rtts.get(network) {
                window.window.heard(delay);
                window.silent_for = 0;
            } else {
                window.silent_for = window.silent_for.saturating_add(1);
                if window.probe.is_none() && window.silent_for > FORGET_AFTER {
                    window.window.missed();
                }
            }
        }
        let due = self
            .0
            .iter_mut()
            .filter(|(_, window)| window.silent_for > PROBE_INTERVAL);
        let probed = due.filter_map(|(&network, window)| Some((network, window.probe?, window)));
        let (network, server, window) = probed.max_by_key(|(_, _, window)| window.silent_for)?;
        window.silent_for = 0;
        Some((network, server))
    }

    fn connected(&mut self, network: IpNet, delay: Option<Delay>) {
        if let Some(window) = self.0.get_mut(&network) {
            match delay {
                Some(delay) => window.window.heard(delay),
                None => window.window.missed(),
            }
        }
    }

    fn readings(&self) -> Readings {
        let each = self.0.iter();
        each.map(|(&network, window)| (network, window.window.reading()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::schema::Node;

    fn network(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    fn wanted(own: &str, egresses: &[&str]) -> ServerTargets {
        let egresses: Vec<Egresses> = egresses.iter().map(|text| Egresses::parse(text).unwrap()).collect();
        let node = Node {
            address: "10.1.0.9:5460".parse().unwrap(),
            converter: Some("10.1.0.8:5124".parse().unwrap()),
        };
        let peers = Peers::from([("n".parse().unwrap(), node)]);
        ServerTargets::of(&own.parse().unwrap(), &egresses, &peers, &[network("10.0.0.0/8")])
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
            assert_eq!(found.measured.values().all(Option::is_some), probed, "{line}");
        }
    }

    #[test]
    fn a_server_tells_of_the_longest_prefix_alone_and_nodes_are_none() {
        let lines = "10.0.0.0/8 a|b\n10.1.0.0/16 a|b\n10.2.0.0/16 b\ndefault a|b\n2001:db8::/32 b|a";
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
            let kernel_rtts = found.network_of(server.parse().unwrap());
            assert_eq!(kernel_rtts, expected.map(network), "{server}");
        }
    }

    #[test]
    fn servers_are_connected_to_in_turn_where_no_connection_tells() {
        let [one, two, three] = ["10.0.0.0/8", "10.1.0.0/16", "10.2.0.0/16"].map(network);
        let server = |text: &str| Some(text.parse().unwrap());
        let mut windows = NetworkWindows::default();
        let first = server("10.0.0.1:80");
        windows.set(&BTreeMap::from([
            (one, first),
            (two, server("10.1.0.1:80")),
            (three, None),
        ]));
        let kernel_rtts = BTreeMap::from([(three, Delay::of_microseconds(7))]);
        let looks = |windows: &mut NetworkWindows, count: usize| -> Vec<Option<IpNet>> {
            let each = (0..count).map(|_| windows.collect(&kernel_rtts).map(|(network, _)| network));
            each.collect()
        };
        let turn = [Some(two), Some(one), None, None, None, None];
        assert_eq!(looks(&mut windows, 12), [turn, turn].concat());
        for _ in 0..3 {
            windows.connected(one, None);
            windows.connected(two, Some(Delay::of_microseconds(5)));
        }
        let known = |us| Reading::Known(Delay::of_microseconds(us));
        let expected = [(one, Reading::Silent), (two, known(5)), (three, known(7))];
        assert_eq!(windows.readings(), BTreeMap::from(expected));
        // Another probe starts from nothing; networks that are not wanted any more are removed.
        windows.set(&BTreeMap::from([(one, first), (two, server("10.1.0.2:80"))]));
        let expected = [(one, Reading::Silent), (two, Reading::Unknown)];
        assert_eq!(windows.readings(), BTreeMap::from(expected));
    }

    #[test]
    fn where_nothing_is_probed_the_delay_of_old_connections_is_forgotten() {
        let to = network("10.0.0.0/8");
        let mut windows = NetworkWindows::default();
        windows.set(&BTreeMap::from([(to, None)]));
        let kernel_rtts = BTreeMap::from([(to, Delay::of_microseconds(7))]);
        for turn in 0..75 {
            let none = BTreeMap::new();
            let rtts = if turn < 5 { &kernel_rtts } else { &none };
            assert_eq!(windows.collect(rtts), None);
            if turn == 5 + FORGET_AFTER {
                let known = Reading::Known(Delay::of_microseconds(7));
                assert_eq!(windows.readings()[&to], known);
            }
        }
        assert_eq!(windows.readings()[&to], Reading::Silent);
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
