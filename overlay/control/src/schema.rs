//! The types of etcd's values, each encoded by [`crate::codec`].

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::num::NonZero;

use ipnet::IpNet;
use overlay_paths::MAX_ROUNDS;
use serde::{Deserialize, Serialize};

use crate::codec::decode;
use crate::egresses::Egress;
use crate::name::Name;

/// The length of all lines of a report.
const MAX_REPORT_BYTES: usize = 64 << 10;
/// The longest round-trip time that overlay-paths accepts.
const MAX_DELAY_US: u32 = 4_000_000;

/// A round-trip time of 1 to 4,000,000 microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "i64")]
pub struct Delay(u32);

impl Delay {
    /// So many microseconds, but at least 1 and at most 4 s.
    pub fn of_microseconds(count: u128) -> Self {
        Self(u32::try_from(count).unwrap_or(MAX_DELAY_US).clamp(1, MAX_DELAY_US))
    }

    pub fn microseconds(self) -> u32 {
        self.0
    }
}

impl TryFrom<i64> for Delay {
    type Error = String;

    fn try_from(count: i64) -> Result<Self, String> {
        let accepted = u32::try_from(count)
            .ok()
            .filter(|count| (1..=MAX_DELAY_US).contains(count));
        accepted
            .map(Self)
            .ok_or_else(|| format!("{count} is no round-trip time: accepted: microseconds from 1 to {MAX_DELAY_US}"))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// The address at which its agent answers pings (UDP).
    pub address: SocketAddr,
    /// The address of its converter (RFC 8803), if that answers. Chains pass only nodes with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub converter: Option<SocketAddr>,
}

/// The table that the converter of an ingress uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InUse {
    /// The version of the table; null before the first one.
    pub version: Option<i64>,
    /// When the controller computed it: seconds since 1970, by its clock.
    pub made: Option<u64>,
}

/// The round-trip times that a node measured to its peers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Delays {
    /// Round-trip times in microseconds, by peer.
    pub round_trip_us: BTreeMap<Name, Delay>,
    /// Whether it measures only some of its peers: the others may or may not answer.
    #[serde(default, skip_serializing_if = "is_false")]
    pub only_some: bool,
    /// The peers that did not answer, if it measures only some.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub silent: BTreeSet<Name>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// The round-trip times that a node measured to servers for which it is a candidate egress.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerDelays {
    /// Round-trip times in microseconds, by the network of the egress line that covers the servers.
    pub round_trip_us: BTreeMap<IpNet, Delay>,
}

/// The best chain for transfers of at least so many rounds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chain {
    /// The fewest rounds that it is for, 1 to [`MAX_ROUNDS`].
    pub rounds: u8,
    /// The nodes between the ingress and the egress, in order.
    pub through: Vec<Name>,
}

/// The best of several candidate egresses, for transfers of at least so many rounds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EgressChoice {
    /// The fewest rounds that it is for, 1 to [`MAX_ROUNDS`].
    pub rounds: u8,
    /// The egress, which may be the ingress itself.
    pub node: Name,
    /// The nodes between the ingress and the egress, in order.
    pub through: Vec<Name>,
}

/// The best egresses for the servers of one line of an ingress's file of egresses, by the candidates' delays to them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EgressChoices {
    /// The servers' network.
    pub to: IpNet,
    /// The servers' port, if the line is for one port only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<NonZero<u16>>,
    /// By ascending rounds, the first one for 1 round.
    pub best: Vec<EgressChoice>,
}

/// What a controller publishes for an ingress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// The node that clients connect to.
    pub ingress: Name,
    /// The revision of etcd from which it was computed: higher is newer.
    pub version: i64,
    /// When it was computed: seconds since 1970, by the controller's clock.
    pub made: u64,
    /// The best chains to each egress, by ascending rounds, the first one for 1 round.
    pub chains: BTreeMap<Name, Vec<Chain>>,
    /// The egresses chosen for the lines that name several nodes, if one of these has measured its delay to the servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<EgressChoices>,
}

impl Table {
    /// The egresses chosen for this line; none if no node has measured its delay to the servers.
    pub fn choices_of(&self, line: &Egress) -> &[EgressChoice] {
        let own = |choices: &&EgressChoices| (choices.to, choices.port) == (line.to, line.port);
        let found = self.choices.iter().find(own);
        found.map_or(&[], |choices| &choices.best)
    }
}

/// The result of the elected controller's last computation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    pub controller: Name,
    /// When it computed: seconds since 1970, by its clock.
    pub computed: u64,
    /// A line for each node's value, or table, that it refused, with the reason.
    pub refused: Vec<String>,
}

impl Report {
    /// A report with as many lines of `refused` as fit, and the number of the others.
    pub fn new(controller: Name, computed: u64, mut refused: Vec<String>) -> Self {
        let mut bytes = 0;
        let fit = refused.iter().take_while(|line| {
            bytes += line.len();
            bytes <= MAX_REPORT_BYTES
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

/// Decodes the delays that `owner` measured.
pub fn decode_delays(owner: &Name, bytes: &[u8]) -> Result<Delays, String> {
    let delays: Delays = decode(bytes)?;
    if delays.round_trip_us.contains_key(owner) {
        return Err(format!("{owner} to itself: accepted: round-trip times to others"));
    }
    Ok(delays)
}

/// Decodes the table of `ingress`.
pub fn decode_table(ingress: &Name, bytes: &[u8]) -> Result<Table, String> {
    let table: Table = decode(bytes)?;
    if table.ingress != *ingress {
        return Err(format!("it is for {}: accepted: for {ingress}", table.ingress));
    }
    for (egress, chains) in &table.chains {
        check(ingress, egress, chains).map_err(|what| format!("to {egress}: {what}"))?;
    }
    for choices in &table.choices {
        check_choices(ingress, &choices.best).map_err(|what| format!("to {}: {what}", choices.to))?;
    }
    Ok(table)
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

fn check_choices(ingress: &Name, choices: &[EgressChoice]) -> Result<(), String> {
    ascending(choices.iter().map(|choice| choice.rounds))?;
    choices.iter().try_for_each(|choice| {
        if choice.node == *ingress && choice.through.is_empty() {
            return Ok(());
        }
        once(ingress, &choice.node, &choice.through)
    })
}

/// Checks that there is a chain for every number of rounds.
fn ascending(rounds: impl Iterator<Item = u8> + Clone) -> Result<(), String> {
    if rounds.clone().next() != Some(1) {
        return Err("no chain for 1 round: accepted: chains for every number of rounds".into());
    }
    if !rounds.clone().is_sorted_by(|one, next| one < next) {
        return Err("rounds do not ascend".into());
    }
    match rounds.last().filter(|&last| last > MAX_ROUNDS) {
        Some(last) => Err(format!("{last} rounds: accepted: 1 to {MAX_ROUNDS}")),
        None => Ok(()),
    }
}

fn once(ingress: &Name, egress: &Name, through: &[Name]) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    let mut nodes = [ingress, egress].into_iter().chain(through);
    match nodes.find(|node| !seen.insert(*node)) {
        Some(again) => Err(format!("{again} twice in a chain: accepted: each node once")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use super::*;
    use crate::codec::{decode, encode};
    use crate::egresses::Egresses;
    use crate::samples::{cases, chain, choices, name, table};

    /// `value` is written as `json`, and read again by `read`.
    fn survives<T: Serialize + PartialEq + Debug>(value: T, json: &str, read: impl Fn(&[u8]) -> Result<T, String>) {
        let written = String::from_utf8(encode(&value)).unwrap();
        assert_eq!(written, format!(r#"{{"format":1,"value":{json}}}"#));
        assert_eq!(read(written.as_bytes()), Ok(value));
    }

    #[test]
    fn what_is_written_is_read() {
        let [address, converter] = ["[2001:db8::1]:5460", "[2001:db8::1]:5124"].map(|text| text.parse().unwrap());
        for (converter, json) in [
            (None, r#"{"address":"[2001:db8::1]:5460"}"#),
            (
                Some(converter),
                r#"{"address":"[2001:db8::1]:5460","converter":"[2001:db8::1]:5124"}"#,
            ),
        ] {
            survives(Node { address, converter }, json, decode);
        }
        for (line, json) in [
            ("10.0.0.0/8 B 3", r#"[{"to":"10.0.0.0/8","node":"B","rounds":3}]"#),
            (
                "10.0.0.0/8 B|C probe 10.0.0.1:443",
                r#"[{"to":"10.0.0.0/8","node":"B","or":["C"],"rounds":5,"probe":"10.0.0.1:443"}]"#,
            ),
        ] {
            survives(Egresses::parse(line).unwrap(), json, decode);
        }
        let of_a = |bytes: &[u8]| decode_delays(&name("A"), bytes);
        let delay = Delay::of_microseconds(1500);
        let delays = Delays {
            round_trip_us: BTreeMap::from([(name("B"), delay)]),
            ..Delays::default()
        };
        survives(delays.clone(), r#"{"round_trip_us":{"B":1500}}"#, of_a);
        let some = Delays {
            only_some: true,
            silent: BTreeSet::from([name("C")]),
            ..delays
        };
        let json = r#"{"round_trip_us":{"B":1500},"only_some":true,"silent":["C"]}"#;
        survives(some, json, of_a);
        let servers = ServerDelays {
            round_trip_us: BTreeMap::from([("10.0.0.0/8".parse().unwrap(), delay)]),
        };
        survives(servers, r#"{"round_trip_us":{"10.0.0.0/8":1500}}"#, decode);
        let mut table = table("B", vec![chain(1, &[]), chain(4, &["C", "D"])]);
        assert_eq!(decode_table(&name("A"), &encode(&table)), Ok(table.clone()));
        table.choices = vec![
            choices("10.0.0.0/8", &[(1, "B", &["C"])]),
            choices("10.0.0.0/8", &[(1, "A", &[])]),
        ];
        assert_eq!(decode_table(&name("A"), &encode(&table)), Ok(table));
        let report = Report::new(name("c1"), 1, vec!["x".into()]);
        let json = r#"{"controller":"c1","computed":1,"refused":["x"]}"#;
        survives(report, json, decode);
    }

    #[test]
    fn impossible_delays_are_refused() {
        for (delay, what) in cases(
            r#"
            -1 => -1 is no round-trip time: accepted: microseconds from 1 to 4000000
            0 => 0 is no round-trip time
            4000001 => 4000001 is no round-trip time
            9223372036854775807 => 9223372036854775807 is no round-trip time
            null => invalid type: null
            1.5 => invalid type: floating point
            "1" => invalid type: string
            "#,
        ) {
            let text = format!(r#"{{"format":1,"value":{{"round_trip_us":{{"B":{delay}}}}}}}"#);
            let refusal = decode_delays(&name("A"), text.as_bytes()).unwrap_err();
            assert!(refusal.starts_with(what), "{refusal}");
        }
    }

    #[test]
    fn malformed_values_are_refused() {
        let nothing = [("", "EOF")];
        for (text, what) in nothing.into_iter().chain(cases(
            r#"
            {} => missing field `format`
            {"format":1} => missing field `value`
            {"format":2,"value":{"new":1}} => format 2: accepted: 1
            {"format":1,"value":{}} => missing field `round_trip_us`
            {"format":1,"value":{"round_trip_us":{"A":5}}} => A to itself
            {"format":1,"value":{"round_trip_us":{"a/b":5}}} => "a/b" is no name
            {"format":1,"value":{"round_trip_us":{},"x":1}} => unknown field `x`
            "#,
        )) {
            let refusal = decode_delays(&name("A"), text.as_bytes()).unwrap_err();
            assert!(refusal.starts_with(what), "{text}: {refusal}");
        }
    }

    #[test]
    fn a_long_report_has_its_first_lines_and_the_number_of_the_others() {
        let lines = |count: usize| {
            let refused = vec!["x".repeat(MAX_REPORT_BYTES / 4); count];
            Report::new(name("c"), 1, refused).refused
        };
        assert_eq!(lines(4).len(), 4);
        assert_eq!(lines(7).len(), 5);
        assert_eq!(lines(7)[4], "and 3 more");
    }

    #[test]
    fn tables_that_lead_nowhere_are_refused() {
        let cases = [
            (table("A", vec![chain(1, &[])]), "to A: it is the ingress"),
            (table("B", vec![]), "to B: no chain for 1 round"),
            (table("B", vec![chain(2, &[])]), "to B: no chain for 1 round"),
            (
                table("B", vec![chain(1, &[]), chain(1, &["C"])]),
                "to B: rounds do not ascend",
            ),
            (table("B", vec![chain(1, &[]), chain(31, &["C"])]), "to B: 31 rounds"),
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
            table.choices = vec![choices("10.0.0.0/8", &[(rounds, node, &[through])])];
            let refusal = decode_table(&name("A"), &encode(&table)).unwrap_err();
            assert!(refusal.starts_with(what), "{refusal}");
        }
        let other = decode_table(&name("B"), &encode(&table("C", vec![chain(1, &[])])));
        assert_eq!(other, Err("it is for A: accepted: for B".into()));
    }
}
