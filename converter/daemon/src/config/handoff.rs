//! Which requests are handed to which back ends.

use std::net::{SocketAddr, SocketAddrV4};
use std::path::PathBuf;

use serde::Deserialize;

/// For listeners of kind `handoff`.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Handoff {
    /// The switch: a file (a Unix socket), or address and port.
    pub switch: String,
    /// The folder with this front's certificate: `ca.pem`, `node.pem`, `node.key`.
    pub identity: PathBuf,
    /// Who answers requests.
    pub back_ends: Vec<BackEnd>,
    /// Which requests go to whom; the first that matches counts.
    pub rules: Vec<HandoffRule>,
}

/// Who answers requests.
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

/// Which requests go to whom.
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
    /// The names of back ends: a path is always the same one's, as long as that is there.
    pub to: Vec<String>,
    /// Whether they are relayed in any case.
    #[serde(default)]
    pub relay: bool,
}

fn all_paths() -> String {
    "/".to_owned()
}
