//! The keys in etcd, all under one prefix.
//!
//! | key | value | whose |
//! |---|---|---|
//! | `nodes/NAME` | [`crate::values::Node`] | the agent's, under its lease |
//! | `delays/NAME` | [`crate::values::Delays`]: what this node measured | the agent's, under its lease |
//! | `servers/NAME` | [`crate::values::ServerDelays`]: what this node measured to servers that it may be next to | the agent's, under its lease |
//! | `health/NAME` | [`crate::health::Health`]: how this node fares, if there is something to say | the agent's, under its lease |
//! | `tables/INGRESS` | [`crate::values::Table`] | the elected controller's |
//! | `egresses/INGRESS` | [`crate::egresses::Egresses`] | the agent's, under its lease |
//! | `routes/INGRESS` | [`crate::values::InUse`]: which table its converter goes by | the agent's, under its lease |
//! | `report` | [`crate::values::Report`] | the elected controller's, under its lease |
//! | `controller/NAME` | the controller's name | each controller's, under its lease: whose is the oldest writes |

use crate::name::Name;

/// All of them.
pub const ALL: &str = "tributary/overlay/";
/// Nodes that are alive.
pub const NODES: &str = "tributary/overlay/nodes/";
/// Round-trip times, by the node that measured them.
pub const DELAYS: &str = "tributary/overlay/delays/";
/// Round-trip times to servers, by the node that measured them.
pub const SERVERS: &str = "tributary/overlay/servers/";
/// How nodes fare.
pub const HEALTH: &str = "tributary/overlay/health/";
/// Chains, by the ingress that they are for.
pub const TABLES: &str = "tributary/overlay/tables/";
/// Which node is next to which servers, by the ingress that has it so.
pub const EGRESSES: &str = "tributary/overlay/egresses/";
/// Which table an ingress's converter goes by.
pub const ROUTES: &str = "tributary/overlay/routes/";
/// What the controller has to say.
pub const REPORT: &str = "tributary/overlay/report";
/// Controllers that would write, see [`crate::election`].
pub const ELECTION: &str = "tributary/overlay/controller/";

/// The key of this name in one of the folders above.
pub fn key(folder: &str, name: &Name) -> String {
    format!("{folder}{name}")
}

/// The name at the end of a key of `folder`; an error if it is none.
pub fn name(folder: &str, key: &[u8]) -> Result<Name, String> {
    let text = String::from_utf8_lossy(key);
    text.strip_prefix(folder)
        .unwrap_or(&text)
        .parse()
        .map_err(|refusal| format!("{text}: {refusal}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_tells_its_name() {
        let london: Name = "london-1".parse().unwrap();
        let made = key(NODES, &london);
        assert_eq!(made, "tributary/overlay/nodes/london-1");
        assert_eq!(name(NODES, made.as_bytes()), Ok(london));
    }

    #[test]
    fn a_key_without_a_name_is_refused() {
        for key in [
            "tributary/overlay/nodes/",
            "tributary/overlay/nodes/a/b",
            "elsewhere/a",
        ] {
            assert!(name(NODES, key.as_bytes()).unwrap_err().starts_with(key));
        }
    }
}
