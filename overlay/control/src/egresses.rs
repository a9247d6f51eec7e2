//! The egress of each server network: a file that an operator writes for an ingress.
//!
//! A line has the servers' network, or `default` for all that no other line covers; `port` and the servers' port, if it is
//! for one port only; the node, or several with `|` between, of which the nearest is chosen; the rounds of a transfer, if
//! not [`DEFAULT_ROUNDS`]; and `probe` and a server of the network, if several nodes may measure their delay by connecting
//! to it. `#` begins a comment.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZero;
use std::path::Path;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use overlay_paths::MAX_ROUNDS;
use serde::{Deserialize, Serialize};

use crate::codec::encode_bounded;
use crate::name::Name;
use tributary_program::{Exit, Failure, read_text};

/// At most so many lines, since they are published as one value.
pub(crate) const MAX_EGRESSES: usize = 4096;
/// At most so many nodes per line, since each is compared for each line and ingress.
const MAX_CANDIDATES: usize = 8;
/// Transfers of up to 465 kB.
const DEFAULT_ROUNDS: u8 = 5;

/// A line of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Egress {
    /// The servers' network.
    pub to: IpNet,
    /// The servers' port; without one, all ports that have no line of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<NonZero<u16>>,
    /// The node, or the first of several.
    pub node: Name,
    /// The other nodes, in order. If there are any the egress is chosen by measurement.
    #[serde(default, rename = "or", skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<Name>,
    /// The rounds of a transfer, 1 to [`MAX_ROUNDS`].
    pub rounds: u8,
    /// The server to which the nodes may connect to measure their delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<SocketAddr>,
}

impl Egress {
    /// The beginning of the line.
    pub fn servers(&self) -> impl fmt::Display {
        let port = self.port.map(|port| format!(" port {port}"));
        format!("{}{}", self.to, port.unwrap_or_default())
    }

    /// All nodes of the line, in order.
    pub fn candidates(&self) -> impl Iterator<Item = &Name> {
        [&self.node].into_iter().chain(&self.others)
    }

    /// Whether it is one of several nodes of the line.
    pub fn is_candidate(&self, node: &Name) -> bool {
        !self.others.is_empty() && self.candidates().any(|each| each == node)
    }
}

/// A network and a port.
type Servers = (IpNet, Option<NonZero<u16>>);

/// The egresses of an ingress, with each network and port once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Egress>")]
pub struct Egresses(Vec<Egress>);

impl Egresses {
    /// Reads the file; exits with 66 if that fails, with 65 if a line is wrong.
    pub fn load(path: &Path) -> Result<Self, Failure> {
        let text = read_text(path)?;
        Self::parse(&text).map_err(|wrong| Failure::new(Exit::BadData, format!("{}:{wrong}", path.display())))
    }

    /// Parses the file's text. The error begins with the number of the first wrong line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (mut all, mut known) = (Self(Vec::new()), BTreeSet::new());
        for (number, line) in (1..).zip(text.lines()) {
            let refused = |what| format!("{number}: {what}");
            let meant = line.split('#').next().unwrap_or_default();
            let words: Vec<&str> = meant.split_whitespace().collect();
            for egress in read(&words).map_err(refused)? {
                check(&egress).map_err(refused)?;
                all.add(egress, &mut known).map_err(refused)?;
            }
        }
        match encode_bounded(&all) {
            Ok(_) => Ok(all),
            Err(refusal) => Err(format!(
                " published they would be {refusal}: fewer lines, or shorter names"
            )),
        }
    }

    /// Fails for a line too many, or one for the servers of another.
    fn add(&mut self, egress: Egress, known: &mut BTreeSet<Servers>) -> Result<(), String> {
        if self.0.len() == MAX_EGRESSES {
            return Err(format!("accepted: at most {MAX_EGRESSES} networks"));
        }
        if !known.insert((egress.to, egress.port)) {
            let servers = egress.servers();
            return Err(format!("{servers} again: accepted: each network once for a port"));
        }
        self.0.push(egress);
        Ok(())
    }

    /// All lines, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Egress> {
        self.0.iter()
    }

    /// The line with the longest prefix for `server`; of two with the same prefix the one for `port`.
    pub fn towards(&self, server: IpAddr, port: Option<NonZero<u16>>) -> Option<&Egress> {
        let covers = |egress: &&Egress| egress.to.contains(&server) && (egress.port.is_none() || egress.port == port);
        let covering = self.iter().filter(covers);
        covering.max_by_key(|egress| (egress.to.prefix_len(), egress.port))
    }
}

impl TryFrom<Vec<Egress>> for Egresses {
    type Error = String;

    /// Checks published lines as strictly as those of a file.
    fn try_from(all: Vec<Egress>) -> Result<Self, String> {
        if all.len() > MAX_EGRESSES {
            return Err(format!("accepted: at most {MAX_EGRESSES} networks"));
        }
        let (mut found, mut known) = (Self(Vec::new()), BTreeSet::new());
        for egress in all {
            check(&egress).map_err(|what| format!("{}: {what}", egress.servers()))?;
            found.add(egress, &mut known)?;
        }
        Ok(found)
    }
}

fn check(egress: &Egress) -> Result<(), String> {
    let network = egress.to;
    if network != network.trunc() {
        return Err(format!("accepted: {}", network.trunc()));
    }
    check_nodes(egress)?;
    if !(1..=MAX_ROUNDS).contains(&egress.rounds) {
        return Err(no_rounds(&egress.rounds.to_string()));
    }
    let Some(probe) = egress.probe else {
        return Ok(());
    };
    if probe.port() == 0 || probe.ip().is_unspecified() {
        return Err(no_server(&probe.to_string()));
    }
    if egress.others.is_empty() {
        return Err(format!(
            "probe {probe}: accepted: where there are several nodes to choose from: london|paris"
        ));
    }
    if !network.contains(&probe.ip()) {
        return Err(format!("probe {probe}: accepted: a server of {network}"));
    }
    Ok(())
}

fn check_nodes(egress: &Egress) -> Result<(), String> {
    let nodes: Vec<&str> = egress.candidates().map(Name::as_str).collect();
    let text = nodes.join("|");
    let mut known = BTreeSet::new();
    if let Some(node) = nodes.iter().find(|node| !known.insert(**node)) {
        return Err(format!("{text}: {node} twice: accepted: each node once"));
    }
    if nodes.len() > MAX_CANDIDATES {
        return Err(format!("{text}: accepted: at most {MAX_CANDIDATES} nodes"));
    }
    Ok(())
}

/// The egresses of a line: none, one, or one each for IPv4 and IPv6.
fn read(words: &[&str]) -> Result<Vec<Egress>, String> {
    let (network, port, behind) = match *words {
        [] => return Ok(Vec::new()),
        [network, "port", port, ref behind @ ..] => (network, Some(read_port(port)?), behind),
        [network, ref behind @ ..] => (network, None, behind),
    };
    let (behind, probe) = match *behind {
        [ref before @ .., "probe", server] => {
            let server: SocketAddr = server.parse().map_err(|_| no_server(server))?;
            (before, Some(server))
        }
        _ => (behind, None),
    };
    let (nodes, rounds) = match *behind {
        [nodes] => (nodes, DEFAULT_ROUNDS),
        [nodes, rounds] => (nodes, rounds.parse().map_err(|_| no_rounds(rounds))?),
        _ => {
            let line = words.join(" ");
            return Err(format!(
                "{line}: accepted: a network, a port if it is for one alone, a node, and how many rounds: \
                192.0.2.0/24 port 443 london 5; or several nodes, and a server that they may probe: \
                192.0.2.0/24 london|paris 5 probe 192.0.2.1:443"
            ));
        }
    };
    let nodes: Result<Vec<Name>, String> = nodes.split('|').map(str::parse).collect();
    let mut others = nodes?;
    let node = others.remove(0);
    let networks = networks(network)?;
    let of_one = networks.len() == 1;
    let each = networks.into_iter().map(|to| Egress {
        to,
        port,
        node: node.clone(),
        others: others.clone(),
        rounds,
        probe: probe.filter(|probe| of_one || to.contains(&probe.ip())),
    });
    Ok(each.collect())
}

fn no_server(text: &str) -> String {
    format!("{text}: accepted: a server's address and port: 192.0.2.1:443")
}

fn networks(text: &str) -> Result<Vec<IpNet>, String> {
    if text == "default" {
        return Ok(vec![Ipv4Net::default().into(), Ipv6Net::default().into()]);
    }
    let network: IpNet = text
        .parse()
        .map_err(|_| format!("{text}: accepted: a network with its prefix length, such as 192.0.2.0/24, or default"))?;
    Ok(vec![network.trunc()])
}

fn read_port(text: &str) -> Result<NonZero<u16>, String> {
    let port = text.parse();
    port.map_err(|_| format!("{text}: accepted: a port from 1 to 65535"))
}

fn no_rounds(text: &str) -> String {
    format!("{text}: accepted: rounds from 1 to {MAX_ROUNDS}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::cases;

    const TEXT: &str = "# where our servers are\n10.0.0.0/8 london\n10.1.2.3/16\tmilan 10 # large files\n\n\
        default oslo 1\n2001:db8::/32 london\n10.0.0.0/8 port 22 oslo 1\n10.1.0.0/16\tport 443 oslo\n";

    #[test]
    fn the_longest_prefix_counts_and_the_default_takes_the_rest() {
        let egresses = Egresses::parse(TEXT).unwrap();
        assert_eq!(egresses.iter().count(), 7);
        for (server, to, node, rounds) in [
            ("10.2.0.1", "10.0.0.0/8", "london", 5),
            ("10.1.0.1", "10.1.0.0/16", "milan", 10),
            ("192.0.2.1", "0.0.0.0/0", "oslo", 1),
            ("2001:db8::1", "2001:db8::/32", "london", 5),
            ("2001:db9::1", "::/0", "oslo", 1),
        ] {
            let expected = Egress {
                others: Vec::new(),
                probe: None,
                to: to.parse().unwrap(),
                port: None,
                node: node.parse().unwrap(),
                rounds,
            };
            for port in [None, NonZero::new(80)] {
                let found = egresses.towards(server.parse().unwrap(), port);
                assert_eq!(found, Some(&expected), "{server}");
            }
        }
        let few = Egresses::parse("10.0.0.0/8 london").unwrap();
        assert_eq!(few.towards("192.0.2.1".parse().unwrap(), None), None);
    }

    #[test]
    fn of_the_longest_prefix_a_line_for_the_port_counts_before_one_for_all() {
        let egresses = Egresses::parse(TEXT).unwrap();
        for (server, port, servers, rounds) in [
            ("10.2.0.1", 22, "10.0.0.0/8 port 22", 1),
            ("10.2.0.1", 443, "10.0.0.0/8", 5),
            ("10.1.0.1", 22, "10.1.0.0/16", 10),
            ("10.1.0.1", 443, "10.1.0.0/16 port 443", 5),
        ] {
            let found = egresses.towards(server.parse().unwrap(), NonZero::new(port));
            let found = found.map(|egress| (egress.servers().to_string(), egress.rounds));
            assert_eq!(found, Some((servers.into(), rounds)), "{server}:{port}");
        }
    }

    #[test]
    fn a_line_that_is_wrong_is_named() {
        for (text, what) in cases(
            r#"
            \n10.0.0.0/8 => 2: 10.0.0.0/8: accepted: a network, a port
            10.0.0.0/8 a 5 6 => 1: 10.0.0.0/8 a 5 6: accepted
            10.0.0.0/8 port 0 a => 1: 0: accepted: a port from 1
            10.0.0.0/8 port a 5 => 1: a: accepted: a port from 1
            10.0.0.0/8 port 443 => 1: 10.0.0.0/8 port 443: accepted: a network, a port
            10.0.0.0/33 a => 1: 10.0.0.0/33: accepted: a network with
            10.0.0.1 a => 1: 10.0.0.1: accepted: a network with
            10.0.0.0/8 a/b => 1: "a/b" is no name
            10.0.0.0/8 a 0 => 1: 0: accepted: rounds from 1 to 30
            10.0.0.0/8 a 31 => 1: 31: accepted: rounds
            10.0.0.0/8 a + => 1: +: accepted: rounds
            10.0.0.0/8 a|b| => 1: "" is no name
            10.0.0.0/8 a | b => 1: 10.0.0.0/8 a | b: accepted
            10.0.0.0/8 a|b|a => 1: a|b|a: a twice: accepted: each node once
            10.0.0.0/8 a|b|c|d|e|f|g|h|i => 1: a|b|c|d|e|f|g|h|i: accepted: at most 8 nodes
            10.0.0.0/8 a|b probe 10.0.0.1 => 1: 10.0.0.1: accepted: a server's address and port: 192.0.2.1:443
            10.0.0.0/8 a|b probe 10.0.0.1:0 => 1: 10.0.0.1:0: accepted
            10.0.0.0/8 a|b probe 11.0.0.1:443 => 1: probe 11.0.0.1:443: accepted: a server of 10.0.0.0/8
            10.0.0.0/8 a probe 10.0.0.1:443 => 1: probe 10.0.0.1:443: accepted: where there are several nodes
            10.0.0.0/8 probe 10.0.0.1:443 => 1: 10.0.0.0/8 probe 10
            10.0.0.0/8 a|b probe 10.0.0.1:1 5 => 1: 10.0.0.0/8 a|b probe
            10.0.0.0/8 a\n10.0.0.1/8 b => 2: 10.0.0.0/8 again: accepted: each network once
            ::/0 port 22 a\n::/0 a\n::/0 port 22 b => 3: ::/0 port 22 again: accepted: each network once
            default a\n::/0 b => 2: ::/0 again
            "#,
        ) {
            let text = text.replace(r"\n", "\n");
            let wrong = Egresses::parse(&text).unwrap_err();
            assert!(wrong.starts_with(what), "{text:?} gives {wrong:?}");
        }
    }

    #[test]
    fn several_nodes_with_or_without_rounds_and_a_server_to_probe() {
        let text = "10.0.0.0/8 a\n10.1.0.0/16 port 22 b|a,1 1\n2001:db8::/32 c|b|a probe [2001:db8::1]:443\n\
            default a|b 9 probe 192.0.2.1:80\n";
        let egresses = Egresses::parse(text).unwrap();
        let each: Vec<(String, String, u8, Option<String>)> = egresses
            .iter()
            .map(|egress| {
                let nodes: Vec<&str> = egress.candidates().map(Name::as_str).collect();
                let probe = egress.probe.map(|probe| probe.to_string());
                let servers = egress.servers().to_string();
                (servers, nodes.join(" "), egress.rounds, probe)
            })
            .collect();
        let line = |servers: &str, nodes: &str, rounds, probe: Option<&str>| {
            (servers.into(), nodes.into(), rounds, probe.map(Into::into))
        };
        assert_eq!(
            each,
            [
                line("10.0.0.0/8", "a", 5, None),
                line("10.1.0.0/16 port 22", "b a,1", 1, None),
                line("2001:db8::/32", "c b a", 5, Some("[2001:db8::1]:443")),
                line("0.0.0.0/0", "a b", 9, Some("192.0.2.1:80")),
                line("::/0", "a b", 9, None),
            ]
        );
        let [a, b] = ["a", "b"].map(|text| text.parse().unwrap());
        let which = |node| egresses.iter().filter(|each| each.is_candidate(node)).count();
        assert_eq!((which(&a), which(&b)), (3, 4));
    }

    #[test]
    fn what_somebody_else_published_is_held_to_the_same() {
        let taken = |json: &str| serde_json::from_str::<Egresses>(json).map_err(|e| e.to_string());
        let written = serde_json::to_string(&Egresses::parse(TEXT).unwrap()).unwrap();
        assert_eq!(taken(&written), Ok(Egresses::parse(TEXT).unwrap()));
        for (fields, what) in cases(
            r#"
            "rounds": 0 => 0: accepted: rounds from 1 to 30
            "or": ["b", "a"], "rounds": 5 => a|b|a: a twice
            "or": ["b", "c", "d", "e", "f", "g", "h", "i"], "rounds": 5 => a|b|c|d|e|f|g|h|i: accepted: at most 8 nodes
            "or": ["b"], "rounds": 5, "probe": "192.0.2.1:443" => probe 192.0.2.1:443: accepted: a server of 10.0.0.0/8
            "or": ["b"], "rounds": 5, "probe": "10.0.0.1:0" => 10.0.0.1:0: accepted: a server's address
            "rounds": 5, "probe": "10.0.0.1:443" => probe 10.0.0.1:443: accepted: where there are several nodes
            "#,
        ) {
            let refusal = taken(&format!(r#"[{{"to": "10.0.0.0/8", "node": "a", {fields}}}]"#)).unwrap_err();
            assert!(
                refusal.starts_with(&format!("10.0.0.0/8: {what}")),
                "{fields}: {refusal}"
            );
        }
        let untruncated = taken(r#"[{"to": "10.1.0.0/8", "node": "a", "rounds": 5}]"#).unwrap_err();
        assert!(
            untruncated.starts_with("10.1.0.0/8: accepted: 10.0.0.0/8"),
            "{untruncated}"
        );
        let line = |node: &str| format!(r#"{{"to": "10.0.0.0/8", "port": 22, "node": "{node}", "rounds": 5}}"#);
        let again = taken(&format!("[{}, {}]", line("a"), line("b"))).unwrap_err();
        assert!(again.starts_with("10.0.0.0/8 port 22 again"), "{again}");
        let line = r#"{"to": "10.0.0.0/8", "node": "a", "rounds": 5}"#;
        let refusal = taken(&format!("[{}]", vec![line; MAX_EGRESSES + 1].join(","))).unwrap_err();
        assert!(refusal.starts_with("accepted: at most 4096"), "{refusal}");
    }

    #[test]
    fn there_is_an_end_to_them() {
        use std::fmt::Write;
        let text = |count: usize| {
            (0..count).fold(String::new(), |mut text, number| {
                writeln!(text, "10.{}.{}.0/24 a", number / 256, number % 256).unwrap();
                text
            })
        };
        assert!(Egresses::parse(&text(MAX_EGRESSES)).is_ok());
        let wrong = Egresses::parse(&text(MAX_EGRESSES + 1)).unwrap_err();
        assert_eq!(wrong, "4097: accepted: at most 4096 networks");
    }
}
