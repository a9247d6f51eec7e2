//! The next converters on the way to servers.

use std::net::SocketAddr;
use std::num::NonZero;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use ipnet::IpNet;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::sizes::RequestSize;
use super::units;

/// The gateway that a converter at a customer's premises connects through, by RFC 8803; in a chain, the next converter.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
#[allow(clippy::struct_excessive_bools)] // each is a key of its own in the file
pub struct Gateway {
    /// Its address and port; without one, servers that no route covers are connected to directly.
    pub address: Option<SocketAddr>,
    /// What goes another way than there, by the server's network and port; the longest prefix counts, and of its routes
    /// one for the port before one for all.
    #[serde(default)]
    pub routes: Vec<RouteSettings>,
    /// A file with more of them, which a SIGHUP reads again.
    pub routes_file: Option<PathBuf>,
    /// How large the transfers of HTTP requests are; the first that matches counts.
    #[serde(default)]
    pub sizes: Vec<RequestSize>,
    /// Where the operator's own converters are: requests from there may name the converters to pass, and these alone may
    /// be named.
    #[serde(default)]
    pub converters: Vec<IpNet>,
    /// Whether requests say which converters they have passed, so that one that goes round in circles is refused. Only
    /// where all next converters are of this project: others refuse such requests.
    #[serde(default)]
    pub loop_check: bool,
    /// Whether connections to the next converter are kept, and carry one transfer after another: their congestion window is
    /// then open already. Only where all next converters are of this project: others refuse such requests.
    #[serde(default)]
    pub reuse: bool,
    /// Whether to connect to it by MPTCP.
    #[serde(default = "yes")]
    pub mptcp: bool,
    /// Whether the SYN tells where the connection is to go, by an option of its own: a converter of this project with
    /// `early_syn` begins its connection then at once. IPv4 servers and plain TCP only.
    #[serde(default)]
    pub syn_option: bool,
    /// What happens to a connection while the gateway is unavailable.
    #[serde(default)]
    pub fallback: Fallback,
    /// Whether the first bytes travel in the SYN, which saves a round trip (RFC 8803 section 3, RFC 7413). Linux 6.18
    /// then drops much of what comes down by two links as out of its window, and gets it a fifth of a second later.
    #[serde(default)]
    pub fast_open: bool,
    /// For the gateway's part of the connection.
    #[serde(default = "gateway_timeout", deserialize_with = "units::time")]
    pub timeout: Duration,
    /// How long it is not tried again once it is unavailable.
    #[serde(default = "gateway_retry", deserialize_with = "units::time")]
    pub retry: Duration,
}

fn yes() -> bool {
    true
}

fn gateway_timeout() -> Duration {
    Duration::from_secs(3)
}

fn gateway_retry() -> Duration {
    Duration::from_secs(10)
}

/// What happens to a connection while the gateway is unavailable.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Fallback {
    /// It goes to the server by plain TCP.
    #[default]
    Direct,
    /// It is refused.
    Refuse,
}

/// Where the connections to some networks go.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct RouteSettings {
    pub to: Vec<IpNet>,
    /// The servers' port; all that have no route of their own, if there is none.
    pub port: Option<NonZero<u16>>,
    /// Only for transfers that are known to have more bytes, beside a route of the same network and port for all others.
    #[serde(default, deserialize_with = "units::some_bytes")]
    pub above: Option<u64>,
    pub via: Via,
}

/// The ways to a server, the best one first: of each the converters to pass, the next one first; none in a direct one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Via(pub Vec<Vec<SocketAddr>>);

impl Via {
    /// What an operator may write.
    pub const ACCEPTED: &'static str = "the converters to pass, each once by its address with its port, such as \"192.0.2.1:3129\", \
        or \"direct\"; behind \"or\" the next best way";
}

impl FromStr for Via {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let words: Vec<_> = text.split_whitespace().collect();
        let ways = words.split(|word| *word == "or").map(way);
        let ways: Option<_> = ways.collect();
        ways.map(Self).ok_or(Self::ACCEPTED)
    }
}

fn way(words: &[&str]) -> Option<Vec<SocketAddr>> {
    if words == ["direct"] {
        return Some(Vec::new());
    }
    let mut converters = Vec::new();
    for word in words {
        let converter = word.parse().ok()?;
        if converters.contains(&converter) {
            return None;
        }
        converters.push(converter);
    }
    (!converters.is_empty()).then_some(converters)
}

impl<'de> Deserialize<'de> for Via {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let parsed = String::deserialize(from)?.parse();
        parsed.map_err(|accepted| D::Error::custom(format!("accepted: {accepted}")))
    }
}
