//! Connections that are offloaded to the kernel once their slow start is over.

use serde::Deserialize;

use super::check::{Invalid, invalid};
use super::{Config, Listen, units};

/// Which connections of listeners with `offload` are offloaded, and where.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Offload {
    /// The Ethernet devices by which clients and servers are reached. A connection that uses another one is not offloaded.
    pub devices: Vec<String>,
    /// Bytes that pass in both directions before a connection is offloaded: a short one would be over by then.
    #[serde(deserialize_with = "units::size")]
    pub after: usize,
}

impl Default for Offload {
    fn default() -> Self {
        Self {
            devices: Vec::new(),
            after: 1_000_000,
        }
    }
}

/// A listener with `offload` needs all that its connections do: a program with that part, devices, and plain TCP.
pub fn check(
    config: &Config,
    listen: &Listen,
    key: &dyn Fn(&str) -> String,
) -> Result<(), Invalid> {
    let via_gateway = config.gateway.as_ref().is_some_and(|gateway| gateway.mptcp);
    let refused = |key: String, accepted: &'static str| Err(invalid(key, true, accepted));
    if !listen.offload {
        return Ok(());
    }
    if !cfg!(feature = "offload") {
        let accepted = "true only in a program that was built with the feature offload (docs/converter-offload.md)";
        return refused(key("offload"), accepted);
    }
    if config.offload.devices.is_empty() {
        let accepted =
            "true only where offload.devices names the Ethernet devices of clients and servers";
        return refused(key("offload"), accepted);
    }
    if listen.takes_mptcp() {
        let accepted = "false with offload = true (a connection of MPTCP cannot be offloaded)";
        return refused(key("mptcp"), accepted);
    }
    if config.upstream.mptcp {
        let accepted =
            "false where a listener has offload = true (a connection of MPTCP cannot be offloaded)";
        return refused("upstream.mptcp".to_owned(), accepted);
    }
    if via_gateway {
        let accepted =
            "false where a listener has offload = true (a connection of MPTCP cannot be offloaded)";
        return refused("gateway.mptcp".to_owned(), accepted);
    }
    Ok(())
}
