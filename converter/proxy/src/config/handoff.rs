//! Which requests are handed to which back ends.

use std::collections::{BTreeSet, HashMap};
use std::net::{SocketAddr, SocketAddrV4};
use std::path::PathBuf;

use serde::Deserialize;

use super::check::{Invalid, METHOD, invalid, is_method};
use super::{Config, units};
use crate::policy::targets::forbidden;

/// For listeners of kind `handoff`.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Handoff {
    /// The switch: a file (a Unix socket), or address and port.
    pub switch: String,
    /// The folder with this front's certificate: `ca.pem`, `node.pem`, `node.key`.
    pub identity: PathBuf,
    pub back_ends: Vec<BackEnd>,
    /// The back ends of requests; the first rule that matches counts.
    pub rules: Vec<HandoffRule>,
    /// Requests that are expected to move fewer bytes are relayed.
    #[serde(default = "relay_below", deserialize_with = "units::any_bytes")]
    pub relay_below: u64,
}

/// At 64 kB a front that hands over gives clients twice what one that relays gives them.
fn relay_below() -> u64 {
    64_000
}

#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct BackEnd {
    /// Its name in rules and logs.
    pub name: String,
    /// Where it takes fronts in.
    pub fronts: SocketAddr,
    /// Where connections go on that are handed to it.
    pub hand_off: SocketAddrV4,
    /// Where it serves plain HTTP: what is not handed over is relayed there.
    pub http: SocketAddr,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct HandoffRule {
    /// Only those to this host.
    pub host: Option<String>,
    /// Only those for paths that begin so.
    #[serde(default = "all_paths")]
    pub path: String,
    /// Only those with these methods; without any, all.
    #[serde(default)]
    pub methods: Vec<String>,
    /// Only those that are known to move so many bytes or more.
    #[serde(default, deserialize_with = "units::some_bytes")]
    pub min_size: Option<u64>,
    /// Only those that are known to move so many bytes or fewer.
    #[serde(default, deserialize_with = "units::some_bytes")]
    pub max_size: Option<u64>,
    pub to: Vec<String>,
    /// Their numbers among [`Handoff::back_ends`], which a request is answered by without a look at names.
    #[serde(skip)]
    pub numbers: Vec<usize>,
    /// Which of them.
    #[serde(default)]
    pub choose: Choose,
    /// Whether they are relayed in any case.
    #[serde(default)]
    pub relay: bool,
}

/// Which one of several back ends is handed a request.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Choose {
    /// Always the same one for a path, as long as that is there.
    #[default]
    Hash,
    /// The one that has the fewest connections of this front.
    LeastLoaded,
}

fn all_paths() -> String {
    "/".to_owned()
}

impl Handoff {
    /// Finds the numbers of the back ends that rules name; of names that nobody has none.
    pub fn number(&mut self) {
        let names = self.back_ends.iter().map(|each| each.name.as_str());
        let numbers: HashMap<&str, usize> = names.zip(0..).collect();
        for rule in &mut self.rules {
            let known = rule.to.iter().filter_map(|name| numbers.get(name.as_str()));
            rule.numbers = known.copied().collect();
        }
    }
}

/// Rules and back ends that fit each other.
pub fn check(config: &Config) -> Result<(), Invalid> {
    let Some(handoff) = &config.handoff else {
        return Ok(());
    };
    let switch = &handoff.switch;
    if !switch.starts_with('/') && switch.parse::<SocketAddr>().is_err() {
        let accepted = "an absolute path, or an address and port";
        return Err(invalid("handoff.switch", switch, accepted));
    }
    if handoff.rules.is_empty() {
        return Err(invalid("handoff.rules", "[]", "one rule or more"));
    }
    let mut names = BTreeSet::new();
    for back_end in &handoff.back_ends {
        if !names.insert(&back_end.name) {
            let accepted = "a name that no other back end has";
            return Err(invalid("handoff.back_ends.name", &back_end.name, accepted));
        }
        if forbidden(back_end.http, &config.targets).is_some() {
            let accepted = "an address and port that targets.allow opens and nothing closes";
            return Err(invalid("handoff.back_ends.http", back_end.http, accepted));
        }
    }
    handoff.rules.iter().try_for_each(|rule| check_rule(handoff, rule))
}

fn check_rule(handoff: &Handoff, rule: &HandoffRule) -> Result<(), Invalid> {
    if !rule.path.starts_with('/') {
        let accepted = "what paths begin with, such as \"/\"";
        return Err(invalid("handoff.rules.path", &rule.path, accepted));
    }
    if let Some(method) = rule.methods.iter().find(|method| !is_method(method)) {
        return Err(invalid("handoff.rules.methods", method, METHOD));
    }
    if let (Some(least), Some(most)) = (rule.min_size, rule.max_size) {
        if least > most {
            let accepted = "a size that is not above max_size";
            return Err(invalid("handoff.rules.min_size", format!("{least}B"), accepted));
        }
    }
    let is_allowed = |name: &str| handoff.back_ends.iter().any(|each| each.name == name);
    match rule.to.iter().find(|name| !is_allowed(name)) {
        Some(name) => Err(invalid("handoff.rules.to", name, "names of handoff.back_ends")),
        None if rule.to.is_empty() => Err(invalid("handoff.rules.to", "[]", "one back end or more")),
        None => Ok(()),
    }
}
