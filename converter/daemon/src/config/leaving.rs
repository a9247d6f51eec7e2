//! Connections that are left to the kernel once their slow start is over.

use serde::Deserialize;

use super::check::{Wrong, wrong};
use super::{Config, Listen, units};

/// Which connections of listeners with `leave` are left, and where.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Leaving {
    /// The Ethernet devices by which clients and servers are reached. A connection that uses another one stays.
    pub devices: Vec<String>,
    /// Bytes that pass in both directions before a connection is left: a short one would be over by then.
    #[serde(deserialize_with = "units::size")]
    pub after: usize,
}

impl Default for Leaving {
    fn default() -> Self {
        Self {
            devices: Vec::new(),
            after: 1_000_000,
        }
    }
}

/// A listener with `leave` needs all that its connections do: a program with that part, devices, and plain TCP.
pub fn check(config: &Config, listen: &Listen, key: &dyn Fn(&str) -> String) -> Result<(), Wrong> {
    let by_gateway = config.gateway.as_ref().is_some_and(|gateway| gateway.mptcp);
    let refused = |key: String, accepted: &'static str| Err(wrong(key, true, accepted));
    if !listen.leave {
        return Ok(());
    }
    if !cfg!(feature = "leaving") {
        let accepted = "true only in a program that was built with the feature leaving (docs/converter-leaving.md)";
        return refused(key("leave"), accepted);
    }
    if config.leaving.devices.is_empty() {
        let accepted =
            "true only where leaving.devices names the Ethernet devices of clients and servers";
        return refused(key("leave"), accepted);
    }
    if listen.takes_mptcp() {
        let accepted = "false with leave = true (a connection of MPTCP cannot be left)";
        return refused(key("mptcp"), accepted);
    }
    if config.downstream.mptcp {
        let accepted =
            "false where a listener has leave = true (a connection of MPTCP cannot be left)";
        return refused("downstream.mptcp".to_owned(), accepted);
    }
    if by_gateway {
        let accepted =
            "false where a listener has leave = true (a connection of MPTCP cannot be left)";
        return refused("gateway.mptcp".to_owned(), accepted);
    }
    Ok(())
}
