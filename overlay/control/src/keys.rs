//! The keys in etcd, all under one prefix.
//!
//! | key | value | whose |
//! |---|---|---|
//! | `nodes/NAME` | [`crate::schema::Node`] | the agent's, under its lease |
//! | `delays/NAME` | [`crate::schema::Delays`]: what this node measured | the agent's, under its lease |
//! | `servers/NAME` | [`crate::schema::ServerDelays`]: what this node measured to servers that it may be next to | the agent's, under its lease |
//! | `health/NAME` | [`crate::health::Health`]: how this node fares, if there is something to say | the agent's, under its lease |
//! | `tables/INGRESS` | [`crate::schema::Table`] | the elected controller's |
//! | `egresses/INGRESS` | [`crate::egresses::Egresses`] | the agent's, under its lease |
//! | `routes/INGRESS` | [`crate::schema::InUse`]: which table its converter goes by | the agent's, under its lease |
//! | `report` | [`crate::schema::Report`] | the elected controller's, under its lease |
//! | `controller/NAME` | the controller's name | each controller's, under its lease: whose is the oldest writes |

use crate::name::Name;

pub const ALL: &str = "tributary/overlay/";
pub const NODES: &str = "tributary/overlay/nodes/";
/// Round-trip times, by the node that measured them.
pub const DELAYS: &str = "tributary/overlay/delays/";
/// Round-trip times to servers, by the node that measured them.
pub const SERVERS: &str = "tributary/overlay/servers/";
pub const HEALTH: &str = "tributary/overlay/health/";
/// By ingress.
pub const TABLES: &str = "tributary/overlay/tables/";
/// By ingress.
pub const EGRESSES: &str = "tributary/overlay/egresses/";
/// The table that the converter of each ingress uses.
pub const ROUTES: &str = "tributary/overlay/routes/";
pub const REPORT: &str = "tributary/overlay/report";
/// Controllers that would write, see [`crate::election`].
pub const ELECTION: &str = "tributary/overlay/controller/";

/// The key of this name under one of the prefixes above.
pub fn key(folder: &str, name: &Name) -> String {
    format!("{folder}{name}")
}

/// The name in a key of `folder`; fails if it is malformed.
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
        for key in ["tributary/overlay/nodes/", "tributary/overlay/nodes/a/b", "elsewhere/a"] {
            assert!(name(NODES, key.as_bytes()).unwrap_err().starts_with(key));
        }
    }
}
