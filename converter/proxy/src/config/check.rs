//! What serde cannot see: contradictions between keys.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ipnet::IpNet;
use tributary_forbidden::ranges;

use super::{Config, Listen, RouteSettings, SharedNetwork, handoff};

/// A server's side that waits for longer waits for nobody.
const LONGEST_HANDSHAKE: Duration = Duration::from_secs(60);
/// A transfer of known size looks its server up in as many tables.
const MOST_SIZES: usize = 64;

/// A setting that cannot be: its key, its value as written, and what is accepted instead.
#[derive(Debug, PartialEq, Eq)]
pub struct Invalid {
    /// With its tables, such as `listen[0].address`.
    pub key: String,
    /// As the operator would write it.
    pub value: String,
    pub accepted: Cow<'static, str>,
}

pub(super) fn invalid(
    key: impl Into<String>,
    value: impl std::fmt::Display,
    accepted: impl Into<Cow<'static, str>>,
) -> Invalid {
    Invalid {
        key: key.into(),
        value: format!("{value}"),
        accepted: accepted.into(),
    }
}

/// Makes the listeners of what is written. Raises the first contradiction, if there is one.
pub fn check(config: &mut Config) -> Result<(), Invalid> {
    if config.written.is_empty() {
        return Err(invalid("listen", "[]", "one listener or more"));
    }
    if config.limits.buffer < 4096 || config.limits.buffer > 16 << 20 {
        return Err(invalid("limits.buffer", config.limits.buffer, "4KiB to 16MiB"));
    }
    if config.limits.head < 1024 || config.limits.head > 1 << 20 {
        return Err(invalid("limits.head", config.limits.head, "1KiB to 1MiB"));
    }
    let share = config.limits.buffered_per_client;
    if let Some(share) = share.filter(|share| *share > config.limits.buffered) {
        let accepted = "at most what limits.buffered is";
        return Err(invalid("limits.buffered_per_client", share, accepted));
    }
    check_counts(config)?;
    check_gateway(config)?;
    handoff::check(config)?;
    check_nobodys(&config.clients.networks, "clients.networks")?;
    check_shared(&config.clients.shared)?;
    check_allowed(config)?;
    config.listen = listeners(config)?;
    check_routes(config)
}

/// All listeners; no two have the same name, or the same address.
fn listeners(config: &Config) -> Result<Vec<Listen>, Invalid> {
    let mut listeners: Vec<Listen> = Vec::with_capacity(config.written.len());
    for (number, written) in config.written.iter().enumerate() {
        let key = |name: &str| format!("listen[{number}].{name}");
        let listen = written.listener(number, config)?;
        if listeners.iter().any(|each| each.label == listen.label) {
            let accepted = "a name that no other listener has";
            return Err(invalid(key("name"), listen.label, accepted));
        }
        if listeners.iter().any(|each| each.address == listen.address) {
            let accepted = "an address and port that no other listener has";
            return Err(invalid(key("address"), listen.address, accepted));
        }
        check_early(&listeners, &listen, &key)?;
        listeners.push(listen);
    }
    Ok(listeners)
}

/// A SYN is judged by its port alone: what begins then must be the same for all listeners that want it.
fn check_early(before: &[Listen], listen: &Listen, key: &dyn Fn(&str) -> String) -> Result<(), Invalid> {
    let begins = |each: &Listen| {
        let kind = each.kind.name();
        (kind, each.via_gateway, each.keeps_client_address())
    };
    let other = before.iter().find(|each| {
        each.early_syn() && each.address.port() == listen.address.port() && begins(each) != begins(listen)
    });
    match other.filter(|_| listen.early_syn()) {
        None => Ok(()),
        Some(other) => {
            let accepted = format!(
                "beside early_syn of {}, which has the same port, only with the same kind, via_gateway and keep_client_address",
                other.label
            );
            Err(invalid(key("early_syn"), true, accepted))
        }
    }
}

/// Limits that would let nothing happen at all.
fn check_counts(config: &Config) -> Result<(), Invalid> {
    let (limits, early) = (&config.limits, &config.early_syn);
    for (key, limit) in [
        ("limits.connections", limits.connections),
        ("limits.connections_per_client", Some(limits.connections_per_client)),
        ("early_syn.connections", Some(early.connections)),
        ("early_syn.per_client", Some(early.per_client)),
        ("early_syn.per_server", Some(early.per_server)),
    ] {
        if limit == Some(0) {
            return Err(invalid(key, 0, "a number above zero"));
        }
    }
    if early.timeout > LONGEST_HANDSHAKE {
        let accepted = "at most 60s (the kernel gives a client's handshake up after 63 s, tcp(7))";
        let value = format!("{}s", early.timeout.as_secs());
        return Err(invalid("early_syn.timeout", value, accepted));
    }
    Ok(())
}

fn check_gateway(config: &Config) -> Result<(), Invalid> {
    if let Some(gateway) = &config.gateway {
        let leads_nowhere = gateway.routes.is_empty() && gateway.routes_file.is_none();
        if gateway.address.is_none() && leads_nowhere && gateway.converters.is_empty() {
            let accepted = "the next converter's, unless there are routes, a routes_file or converters";
            return Err(invalid("gateway.address", "missing", accepted));
        }
        check_nobodys(&gateway.converters, "gateway.converters")?;
        let mut methods = gateway.sizes.iter().filter_map(|each| each.method.as_deref());
        if let Some(method) = methods.find(|method| !is_method(method)) {
            return Err(invalid("gateway.sizes.method", method, METHOD));
        }
        if gateway.syn_option && gateway.mptcp {
            let accepted = "only with gateway.mptcp = false (the kernel sends an MPTCP socket's SYNs by another one)";
            return Err(invalid("gateway.syn_option", true, accepted));
        }
    }
    Ok(())
}

pub(super) const METHOD: &str = "a method as requests have it, such as \"GET\"";

pub(super) fn is_method(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-')
}

/// A network has one route for a port and a size, and no way leads back to where it began.
pub fn check_routes(config: &Config) -> Result<(), Invalid> {
    let Some(gateway) = &config.gateway else {
        return Ok(());
    };
    check_networks(&gateway.routes)?;
    let named = gateway.routes.iter().flat_map(|route| &route.via.0);
    for &address in named.flatten().chain(&gateway.address) {
        if config.listen.iter().any(|listen| listen.address == address) {
            let accepted = "another converter's address, not that of a listener of this one";
            return Err(invalid("gateway", address, accepted));
        }
    }
    Ok(())
}

fn check_networks(routes: &[RouteSettings]) -> Result<(), Invalid> {
    let refused = |route: &RouteSettings, network: IpNet, accepted| {
        Err(invalid("gateway.routes", text(route, network), accepted))
    };
    let mut known: BTreeMap<_, BTreeSet<IpNet>> = BTreeMap::new();
    for route in routes {
        let known = known.entry((route.port, route.above)).or_default();
        let mut networks = route.to.iter();
        if let Some(again) = networks.find(|network| !known.insert(network.trunc())) {
            let accepted = "each network once for a port and a size, in gateway.routes and gateway.routes_file";
            return refused(route, *again, accepted);
        }
    }
    let sizes: BTreeSet<_> = routes.iter().filter_map(|route| route.above).collect();
    if sizes.len() > MOST_SIZES {
        let value = format!("{} sizes", sizes.len());
        let accepted = format!("at most {MOST_SIZES} different sizes behind above");
        return Err(invalid("gateway.routes", value, accepted));
    }
    for route in routes.iter().filter(|route| route.above.is_some()) {
        let for_all = known.get(&(route.port, None));
        let mut networks = route.to.iter();
        if let Some(alone) = networks.find(|network| !for_all.is_some_and(|known| known.contains(&network.trunc()))) {
            let accepted = "above only beside a route of the same network and port without it";
            return refused(route, *alone, accepted);
        }
    }
    Ok(())
}

/// A route as a line of the routes file begins.
fn text(route: &RouteSettings, network: IpNet) -> String {
    let port = route.port.map(|port| format!(" port {port}"));
    let above = route.above.map(|size| format!(" above {size}B"));
    format!("{network}{}{}", port.unwrap_or_default(), above.unwrap_or_default())
}

/// Refuses networks that are too broad: the converter would be an open proxy.
fn check_nobodys(networks: &[IpNet], key: &str) -> Result<(), Invalid> {
    for net in networks {
        let least = if net.addr().is_ipv4() { 8 } else { 7 };
        if net.prefix_len() < least {
            let accepted = "networks of /8 and longer, IPv6 of /7 and longer (never an open proxy)";
            return Err(invalid(key, net, accepted));
        }
    }
    Ok(())
}

fn check_shared(shared: &[SharedNetwork]) -> Result<(), Invalid> {
    for (number, SharedNetwork { network, prefix }) in shared.iter().enumerate() {
        let (least, most) = (network.prefix_len(), network.max_prefix_len());
        if !(least..=most).contains(prefix) {
            let key = format!("clients.shared[{number}].prefix");
            return Err(invalid(key, prefix, format!("{least} to {most}, inside of {network}")));
        }
    }
    Ok(())
}

/// What is closed to everybody stays closed: a word in `allow` that does nothing would only seem to open it.
fn check_allowed(config: &Config) -> Result<(), Invalid> {
    for network in &config.targets.allow {
        if let Some(why) = ranges().closed(*network) {
            let accepted = format!("private networks, or an own address alone; {why}");
            return Err(invalid("targets.allow", network, accepted));
        }
    }
    Ok(())
}
