//! The values in etcd: JSON, `{"format": 1, "value": ...}`. What a newer program wrote, or nobody should, is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::num::NonZero;

use ipnet::IpNet;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::egresses::{Egress, Egresses};
use crate::health::Health;
use crate::name::Name;

/// The format that this program writes, and the only one that it reads.
pub const FORMAT: u32 = 1;
/// The largest size class that tables tell apart: 30 rounds are 16 TB.
pub const MOST_ROUNDS: u8 = 30;
/// Bytes of the largest value. etcd takes requests of 1.5 MiB, the key and what a transaction compares included, unless its
/// operator says another number (`--max-request-bytes`).
pub const LARGEST: usize = 1 << 20;
/// Bytes of all lines of a report.
const LONGEST_REPORT: usize = 64 << 10;
/// The longest round-trip time in microseconds that overlay-paths takes.
const LONGEST: u32 = 4_000_000;

/// A round-trip time of 1 to 4,000,000 microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "i64")]
pub struct Delay(u32);

impl Delay {
    /// As many microseconds, at least 1 and at most 4 s.
    pub fn of_microseconds(count: u128) -> Self {
        Self(u32::try_from(count).unwrap_or(LONGEST).clamp(1, LONGEST))
    }

    /// How many microseconds it is.
    pub fn microseconds(self) -> u32 {
        self.0
    }
}

impl TryFrom<i64> for Delay {
    type Error = String;

    fn try_from(count: i64) -> Result<Self, String> {
        let accepted = u32::try_from(count)
            .ok()
            .filter(|count| (1..=LONGEST).contains(count));
        accepted.map(Self).ok_or_else(|| {
            format!("{count} is no round-trip time: accepted: microseconds from 1 to {LONGEST}")
        })
    }
}

/// A node that is alive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Where its agent answers pings (UDP).
    pub address: SocketAddr,
    /// Where its converter listens, by RFC 8803, and answers; chains pass no node without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub converter: Option<SocketAddr>,
}

/// What the converter of an ingress goes by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InUse {
    /// The version of the table that its routes were made of; null before there was one.
    pub version: Option<i64>,
    /// When that was computed, in seconds since 1970, by the controller's clock.
    pub made: Option<u64>,
}

/// What a node measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Delays {
    /// Round-trip times in microseconds, by peer.
    pub round_trip_us: BTreeMap<Name, Delay>,
    /// Whether it measures only some of its peers: of others it is not known whether they would answer.
    #[serde(default, skip_serializing_if = "is_false")]
    pub only_some: bool,
    /// Who did not answer, if it measures only some.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub silent: BTreeSet<Name>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's way")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// What a node measured to servers that it may be next to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerDelays {
    /// Round-trip times in microseconds, by the network of the egresses that the servers are in.
    pub round_trip_us: BTreeMap<IpNet, Delay>,
}

/// A chain, for transfers of at least so many rounds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chain {
    /// From how many rounds on, 1 to [`MOST_ROUNDS`].
    pub rounds: u8,
    /// The nodes between the ingress and the egress, in order.
    pub through: Vec<Name>,
}

/// A way to servers that several nodes may be next to, for transfers of at least so many rounds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exit {
    /// From how many rounds on, 1 to [`MOST_ROUNDS`].
    pub rounds: u8,
    /// The egress; it may be the ingress itself.
    pub node: Name,
    /// The nodes between the ingress and the egress, in order.
    pub through: Vec<Name>,
}

/// The best ways to the servers of one line of an ingress's egresses, by the delays of its nodes to them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exits {
    /// The servers' network.
    pub to: IpNet,
    /// Their port, if the line is for that alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<NonZero<u16>>,
    /// By ascending rounds, the first one for 1.
    pub best: Vec<Exit>,
}

/// What an ingress needs to know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Where clients come in.
    pub ingress: Name,
    /// etcd's revision by which it was computed: higher is newer.
    pub version: i64,
    /// When, in seconds since 1970, by the controller's clock.
    pub made: u64,
    /// For each egress the best chains, by ascending rounds, the first one for 1.
    pub chains: BTreeMap<Name, Vec<Chain>>,
    /// For the lines of its egresses that name several nodes, if the way from one of them to the servers is measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exits: Vec<Exits>,
}

impl Table {
    /// The best ways to the servers of this line; none if nobody measured how far they are.
    pub fn exits_of(&self, line: &Egress) -> &[Exit] {
        let own = |exits: &&Exits| (exits.to, exits.port) == (line.to, line.port);
        let found = self.exits.iter().find(own);
        found.map_or(&[], |exits| &exits.best)
    }
}

/// What the elected controller did last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// Its name.
    pub controller: Name,
    /// When it last computed, in seconds since 1970, by its clock.
    pub computed: u64,
    /// What it refused then, and why: values of nodes, or all new tables. A line each.
    pub refused: Vec<String>,
}

impl Report {
    /// What `controller` refused when it `computed`; of very many lines the first ones, and how many more there are.
    pub fn new(controller: Name, computed: u64, mut refused: Vec<String>) -> Self {
        let mut bytes = 0;
        let fit = refused.iter().take_while(|line| {
            bytes += line.len();
            bytes <= LONGEST_REPORT
        });
        let fit = fit.count();
        let more = refused.len() - fit;
        if more > 0 {
            refused.truncate(fit);
            refused.push(format!("and {more} more"));
        }
        Self {
            controller,
            computed,
            refused,
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Envelope<T> {
    format: u32,
    value: T,
}

/// A value as etcd holds it.
///
/// # Panics
/// With a map whose keys are no text; no value here has one.
pub fn encode(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(&Envelope {
        format: FORMAT,
        value,
    })
    .expect("keys are text")
}

/// The same; why not, if etcd would not take it.
pub fn encode_bounded(value: &impl Serialize) -> Result<Vec<u8>, String> {
    let bytes = encode(value);
    let length = bytes.len();
    if length > LARGEST {
        return Err(format!("{length} bytes: accepted: at most {LARGEST}"));
    }
    Ok(bytes)
}

/// Where a node's agent is.
pub fn decode_node(bytes: &[u8]) -> Result<Node, String> {
    decode(bytes)
}

/// What the converter of an ingress goes by.
pub fn decode_in_use(bytes: &[u8]) -> Result<InUse, String> {
    decode(bytes)
}

/// Which nodes are next to which servers, as an ingress has it.
pub fn decode_egresses(bytes: &[u8]) -> Result<Egresses, String> {
    decode(bytes)
}

/// What `owner` measured.
pub fn decode_delays(owner: &Name, bytes: &[u8]) -> Result<Delays, String> {
    let delays: Delays = decode(bytes)?;
    if delays.round_trip_us.contains_key(owner) {
        return Err(format!(
            "{owner} to itself: accepted: round-trip times to others"
        ));
    }
    Ok(delays)
}

/// What a node measured to servers.
pub fn decode_server_delays(bytes: &[u8]) -> Result<ServerDelays, String> {
    decode(bytes)
}

/// How a node fares.
pub fn decode_health(bytes: &[u8]) -> Result<Health, String> {
    decode(bytes)
}

/// The table of `ingress`.
pub fn decode_table(ingress: &Name, bytes: &[u8]) -> Result<Table, String> {
    let table: Table = decode(bytes)?;
    if table.ingress != *ingress {
        return Err(format!(
            "it is for {}: accepted: for {ingress}",
            table.ingress
        ));
    }
    for (egress, chains) in &table.chains {
        check(ingress, egress, chains).map_err(|what| format!("to {egress}: {what}"))?;
    }
    for exits in &table.exits {
        check_exits(ingress, &exits.best).map_err(|what| format!("to {}: {what}", exits.to))?;
    }
    Ok(table)
}

/// What the controller reports.
pub fn decode_report(bytes: &[u8]) -> Result<Report, String> {
    decode(bytes)
}

fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let envelope: Envelope<serde_json::Value> =
        serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if envelope.format != FORMAT {
        return Err(format!(
            "format {}: accepted: {FORMAT}; another version of this program wrote it",
            envelope.format
        ));
    }
    serde_json::from_value(envelope.value).map_err(|error| error.to_string())
}

fn check(ingress: &Name, egress: &Name, chains: &[Chain]) -> Result<(), String> {
    if ingress == egress {
        return Err("it is the ingress: accepted: chains to others".into());
    }
    ascending(chains.iter().map(|chain| chain.rounds))?;
    chains
        .iter()
        .try_for_each(|chain| once(ingress, egress, &chain.through))
}

fn check_exits(ingress: &Name, exits: &[Exit]) -> Result<(), String> {
    ascending(exits.iter().map(|exit| exit.rounds))?;
    exits.iter().try_for_each(|exit| {
        if exit.node == *ingress && exit.through.is_empty() {
            return Ok(());
        }
        once(ingress, &exit.node, &exit.through)
    })
}

/// Whether there is something for every number of rounds.
fn ascending(rounds: impl Iterator<Item = u8> + Clone) -> Result<(), String> {
    if rounds.clone().next() != Some(1) {
        return Err("no chain for 1 round: accepted: chains for every number of rounds".into());
    }
    if !rounds.clone().is_sorted_by(|one, next| one < next) {
        return Err("rounds do not ascend".into());
    }
    match rounds.last().filter(|&last| last > MOST_ROUNDS) {
        Some(last) => Err(format!("{last} rounds: accepted: 1 to {MOST_ROUNDS}")),
        None => Ok(()),
    }
}

fn once(ingress: &Name, egress: &Name, through: &[Name]) -> Result<(), String> {
    let mut seen = BTreeSet::from([ingress, egress]);
    if ingress == egress {
        return Err(format!(
            "{ingress} twice in a chain: accepted: each node once"
        ));
    }
    match through.iter().find(|node| !seen.insert(node)) {
        Some(again) => Err(format!(
            "{again} twice in a chain: accepted: each node once"
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    fn chain(rounds: u8, through: &[&str]) -> Chain {
        Chain {
            rounds,
            through: through.iter().map(|each| name(each)).collect(),
        }
    }

    fn table(egress: &str, chains: Vec<Chain>) -> Table {
        let chains = BTreeMap::from([(name(egress), chains)]);
        Table {
            ingress: name("A"),
            version: 7,
            made: 1_800_000_000,
            chains,
            exits: Vec::new(),
        }
    }

    fn exits(rounds: u8, node: &str, through: &[&str]) -> Exits {
        let Chain { rounds, through } = chain(rounds, through);
        Exits {
            to: "10.0.0.0/8".parse().unwrap(),
            port: None,
            best: vec![Exit {
                rounds,
                node: name(node),
                through,
            }],
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for converter in [None, Some("[2001:db8::1]:5124".parse().unwrap())] {
            let node = Node {
                address: "[2001:db8::1]:5460".parse().unwrap(),
                converter,
            };
            assert_eq!(decode_node(&encode(&node)), Ok(node));
        }
        for (line, value) in [
            (
                "10.0.0.0/8 B 3",
                r#"[{"to":"10.0.0.0/8","node":"B","rounds":3}]"#,
            ),
            (
                "10.0.0.0/8 B|C probe 10.0.0.1:443",
                r#"[{"to":"10.0.0.0/8","node":"B","or":["C"],"rounds":5,"probe":"10.0.0.1:443"}]"#,
            ),
        ] {
            let egresses = Egresses::parse(line).unwrap();
            let written = encode(&egresses);
            assert_eq!(
                written,
                format!(r#"{{"format":1,"value":{value}}}"#).as_bytes()
            );
            assert_eq!(decode_egresses(&written), Ok(egresses));
        }
        let delay = Delay::of_microseconds(1500);
        let delays = Delays {
            round_trip_us: BTreeMap::from([(name("B"), delay)]),
            ..Delays::default()
        };
        assert_eq!(
            encode(&delays),
            br#"{"format":1,"value":{"round_trip_us":{"B":1500}}}"#
        );
        assert_eq!(
            decode_delays(&name("A"), &encode(&delays)),
            Ok(delays.clone())
        );
        let some = Delays {
            only_some: true,
            silent: BTreeSet::from([name("C")]),
            ..delays
        };
        assert_eq!(
            encode(&some),
            br#"{"format":1,"value":{"round_trip_us":{"B":1500},"only_some":true,"silent":["C"]}}"#
        );
        assert_eq!(decode_delays(&name("A"), &encode(&some)), Ok(some));
        let servers = ServerDelays {
            round_trip_us: BTreeMap::from([("10.0.0.0/8".parse().unwrap(), delay)]),
        };
        assert_eq!(
            encode(&servers),
            br#"{"format":1,"value":{"round_trip_us":{"10.0.0.0/8":1500}}}"#
        );
        assert_eq!(decode_server_delays(&encode(&servers)), Ok(servers));
        let mut table = table("B", vec![chain(1, &[]), chain(4, &["C", "D"])]);
        assert_eq!(decode_table(&name("A"), &encode(&table)), Ok(table.clone()));
        table.exits = vec![exits(1, "B", &["C"]), exits(1, "A", &[])];
        assert_eq!(decode_table(&name("A"), &encode(&table)), Ok(table));
        let refused = vec!["x".into()];
        let report = Report {
            controller: name("c1"),
            computed: 1,
            refused,
        };
        assert_eq!(decode_report(&encode(&report)), Ok(report));
    }

    #[test]
    fn delays_that_are_none_are_refused() {
        let cases = [
            (
                "-1",
                "-1 is no round-trip time: accepted: microseconds from 1 to 4000000",
            ),
            ("0", "0 is no round-trip time"),
            ("4000001", "4000001 is no round-trip time"),
            (
                "9223372036854775807",
                "9223372036854775807 is no round-trip time",
            ),
            ("null", "invalid type: null"),
            ("1.5", "invalid type: floating point"),
            ("\"1\"", "invalid type: string"),
        ];
        for (delay, what) in cases {
            let text = format!(r#"{{"format":1,"value":{{"round_trip_us":{{"B":{delay}}}}}}}"#);
            let refusal = decode_delays(&name("A"), text.as_bytes()).unwrap_err();
            assert!(refusal.starts_with(what), "{refusal}");
        }
    }

    #[test]
    fn what_nobody_should_write_is_refused() {
        let cases = [
            ("", "EOF"),
            ("{}", "missing field `format`"),
            (r#"{"format":1}"#, "missing field `value`"),
            (
                r#"{"format":2,"value":{"anew":1}}"#,
                "format 2: accepted: 1",
            ),
            (
                r#"{"format":1,"value":{}}"#,
                "missing field `round_trip_us`",
            ),
            (
                r#"{"format":1,"value":{"round_trip_us":{"A":5}}}"#,
                "A to itself",
            ),
            (
                r#"{"format":1,"value":{"round_trip_us":{"a/b":5}}}"#,
                "\"a/b\" is no name",
            ),
            (
                r#"{"format":1,"value":{"round_trip_us":{},"x":1}}"#,
                "unknown field `x`",
            ),
        ];
        for (text, what) in cases {
            let refusal = decode_delays(&name("A"), text.as_bytes()).unwrap_err();
            assert!(refusal.starts_with(what), "{text}: {refusal}");
        }
    }

    #[test]
    fn of_a_long_report_the_first_lines_are_told_and_how_many_more_there_are() {
        let told = |count: usize| {
            let refused = vec!["x".repeat(LONGEST_REPORT / 4); count];
            Report::new(name("c"), 1, refused).refused
        };
        assert_eq!(told(4).len(), 4);
        assert_eq!(told(7).len(), 5);
        assert_eq!(told(7)[4], "and 3 more");
    }

    #[test]
    fn a_value_that_etcd_would_not_take_is_refused() {
        assert!(encode_bounded(&"x".repeat(LARGEST / 2)).is_ok());
        let refusal = encode_bounded(&"x".repeat(LARGEST)).unwrap_err();
        assert!(
            refusal.ends_with(" bytes: accepted: at most 1048576"),
            "{refusal}"
        );
    }

    #[test]
    fn tables_that_lead_nowhere_are_refused() {
        let cases = [
            (table("A", vec![chain(1, &[])]), "to A: it is the ingress"),
            (table("B", vec![]), "to B: no chain for 1 round"),
            (
                table("B", vec![chain(2, &[])]),
                "to B: no chain for 1 round",
            ),
            (
                table("B", vec![chain(1, &[]), chain(1, &["C"])]),
                "to B: rounds do not ascend",
            ),
            (
                table("B", vec![chain(1, &[]), chain(31, &["C"])]),
                "to B: 31 rounds",
            ),
            (table("B", vec![chain(1, &["C", "C"])]), "to B: C twice"),
            (table("B", vec![chain(1, &["A"])]), "to B: A twice"),
            (table("B", vec![chain(1, &["B"])]), "to B: B twice"),
        ];
        for (table, what) in cases {
            let refusal = decode_table(&name("A"), &encode(&table)).unwrap_err();
            assert!(refusal.starts_with(what), "{refusal}");
        }
        for (rounds, node, through, what) in [
            (2, "B", "C", "to 10.0.0.0/8: no chain for 1 round"),
            (1, "B", "B", "to 10.0.0.0/8: B twice"),
            (1, "A", "C", "to 10.0.0.0/8: A twice"),
        ] {
            let mut table = table("B", vec![chain(1, &[])]);
            table.exits = vec![exits(rounds, node, &[through])];
            let refusal = decode_table(&name("A"), &encode(&table)).unwrap_err();
            assert!(refusal.starts_with(what), "{refusal}");
        }
        let other = decode_table(&name("B"), &encode(&table("C", vec![chain(1, &[])])));
        assert_eq!(other, Err("it is for A: accepted: for B".into()));
    }
}
