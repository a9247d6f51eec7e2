//! What serde cannot see: contradictions between keys.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ipnet::IpNet;
use tributary_forbidden::ranges;

use super::{Config, Intercept, Listen, ListenerKind, RouteSettings, handoff, offload};

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
    /// What would be right.
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

/// The first contradiction, if there is one.
pub fn check(config: &Config) -> Result<(), Invalid> {
    if config.listen.is_empty() {
        return Err(invalid("listen", "[]", "one listener or more"));
    }
    if config.limits.buffer < 4096 || config.limits.buffer > 16 << 20 {
        return Err(invalid(
            "limits.buffer",
            config.limits.buffer,
            "4KiB to 16MiB",
        ));
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
    check_allowed(config)?;
    let mut labels = BTreeSet::new();
    let mut addresses = BTreeSet::new();
    for (number, listen) in config.listen.iter().enumerate() {
        let key = |name: &str| format!("listen[{number}].{name}");
        check_listener(config, listen, &key)?;
        if !labels.insert(listen.label()) {
            return Err(invalid(
                key("name"),
                listen.label(),
                "a name that no other listener has",
            ));
        }
        if !addresses.insert(listen.address) {
            return Err(invalid(
                key("address"),
                listen.address,
                "an address and port that no other listener has",
            ));
        }
        check_early(&config.listen[..number], listen, &key)?;
    }
    Ok(())
}

/// A SYN is judged by its port alone: what begins then must be the same for all listeners that want it.
fn check_early(
    before: &[Listen],
    listen: &Listen,
    key: &dyn Fn(&str) -> String,
) -> Result<(), Invalid> {
    let begins = |each: &Listen| (each.kind, each.via_gateway, each.keep_client_address);
    let other = before.iter().find(|each| {
        each.early_syn
            && each.address.port() == listen.address.port()
            && begins(each) != begins(listen)
    });
    match other.filter(|_| listen.early_syn) {
        None => Ok(()),
        Some(other) => {
            let accepted = format!(
                "beside early_syn of {}, which has the same port, only with the same kind, via_gateway and keep_client_address",
                other.label()
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
        (
            "limits.connections_per_client",
            Some(limits.connections_per_client),
        ),
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
            let accepted =
                "the next converter's, unless there are routes, a routes_file or converters";
            return Err(invalid("gateway.address", "missing", accepted));
        }
        check_nobodys(&gateway.converters, "gateway.converters")?;
        let mut methods = gateway
            .sizes
            .iter()
            .filter_map(|each| each.method.as_deref());
        if let Some(method) = methods.find(|method| !is_method(method)) {
            return Err(invalid("gateway.sizes.method", method, METHOD));
        }
        if gateway.syn_option && gateway.mptcp {
            let accepted = "only with gateway.mptcp = false (the kernel sends an MPTCP socket's SYNs by another one)";
            return Err(invalid("gateway.syn_option", true, accepted));
        }
    }
    check_routes(config)
}

pub(super) const METHOD: &str = "a method as requests have it, such as \"GET\"";

pub(super) fn is_method(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte == b'-')
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
        if let Some(alone) =
            networks.find(|network| !for_all.is_some_and(|known| known.contains(&network.trunc())))
        {
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
    format!(
        "{network}{}{}",
        port.unwrap_or_default(),
        above.unwrap_or_default()
    )
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

fn check_listener(
    config: &Config,
    listen: &Listen,
    key: &dyn Fn(&str) -> String,
) -> Result<(), Invalid> {
    if listen.address.port() == 0 {
        return Err(invalid(
            key("address"),
            listen.address,
            "an address with a port above zero",
        ));
    }
    if config.clients.networks.is_empty() && !listen.address.ip().is_loopback() {
        let accepted =
            "a loopback address, as long as clients.networks is empty (never an open proxy)";
        return Err(invalid(key("address"), listen.address, accepted));
    }
    if listen.kind == ListenerKind::Handoff {
        handoff::check_listener(config, listen, key)?;
    }
    if !listen.users.is_empty() && listen.kind != ListenerKind::Socks5 {
        return Err(invalid(key("users"), "...", "only with kind = \"socks5\""));
    }
    if listen
        .users
        .iter()
        .any(|(name, password)| !fits_rfc1929(name) || !fits_rfc1929(password))
    {
        return Err(invalid(
            key("users"),
            "...",
            "names and passwords of 1 to 255 bytes (RFC 1929)",
        ));
    }
    if listen.cookies && listen.kind != ListenerKind::Convert {
        return Err(invalid(
            key("cookies"),
            true,
            "only with kind = \"convert\"",
        ));
    }
    if (listen.kind == ListenerKind::Transparent) != listen.intercept.is_some() {
        return Err(invalid(
            key("intercept"),
            listen.intercept.map_or("missing", Intercept::name),
            "\"tproxy\" or \"redirect\" with kind = \"transparent\", and only there",
        ));
    }
    if listen.intercept == Some(Intercept::Redirect) && listen.takes_mptcp() {
        let accepted =
            "false with intercept = \"redirect\" (MPTCP sockets have no SO_ORIGINAL_DST)";
        return Err(invalid(key("mptcp"), true, accepted));
    }
    if listen.keep_client_address && listen.intercept != Some(Intercept::Tproxy) {
        return Err(invalid(
            key("keep_client_address"),
            true,
            "only with intercept = \"tproxy\"",
        ));
    }
    if listen.keep_client_address && listen.via_gateway {
        return Err(invalid(
            key("keep_client_address"),
            true,
            "only without via_gateway: the gateway connects to the server",
        ));
    }
    if listen.early_syn
        && listen.intercept != Some(Intercept::Tproxy)
        && listen.kind != ListenerKind::Convert
    {
        let accepted = "only with intercept = \"tproxy\" or kind = \"convert\"";
        return Err(invalid(key("early_syn"), true, accepted));
    }
    if listen.via_gateway && config.gateway.is_none() {
        return Err(invalid(
            key("via_gateway"),
            true,
            "true only where there is a [gateway]",
        ));
    }
    offload::check(config, listen, key)
}

fn fits_rfc1929(text: &str) -> bool {
    (1..=255).contains(&text.len())
}

impl Intercept {
    fn name(self) -> &'static str {
        match self {
            Self::Tproxy => "tproxy",
            Self::Redirect => "redirect",
        }
    }
}
