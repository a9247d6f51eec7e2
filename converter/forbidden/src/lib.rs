//! Addresses that are no targets: the list `guard/forbidden-targets.toml`, which Squid goes by as well, and what it says of an
//! address. Pure.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use prefix_trie::joint::map::JointPrefixMap;
use serde::Deserialize;

const LIST: &str = include_str!("../../../guard/forbidden-targets.toml");

static RANGES: LazyLock<Ranges> = LazyLock::new(|| {
    // The text is part of the program, and a test reads it.
    Ranges::read(LIST).expect("guard/forbidden-targets.toml")
});

#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Range {
    pub network: IpNet,
    /// What it is, and who says so.
    pub reason: String,
    /// Whether `targets.allow` may have it, or a part of it.
    pub operator_may_open: bool,
    /// The bit at which the IPv4 address begins that a packet to one of the addresses may end at.
    pub carries_ipv4_at: Option<u8>,
}

/// All of them, by their prefixes.
#[derive(Debug)]
pub struct Ranges(JointPrefixMap<IpNet, Range>);

pub fn ranges() -> &'static Ranges {
    &RANGES
}

impl Ranges {
    fn read(text: &str) -> Result<Self, toml::de::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct List {
            range: Vec<Range>,
        }
        let list: List = toml::from_str(text)?;
        let by_prefix = list.range.into_iter().map(|range| (range.network, range));
        Ok(Self(by_prefix.collect()))
    }

    /// The narrowest range that has this address. What nobody may open lies inside of what may be opened, never around it.
    pub fn of(&self, address: IpAddr) -> Option<&Range> {
        self.0.get_lpm(&address.into()).map(|(_, range)| range)
    }

    /// Why an operator may not open `network`, if so: it is closed, or not open as a whole around something closed.
    pub fn closed(&self, network: IpNet) -> Option<String> {
        let openable = self.openable().find(|range| range.network.contains(&network));
        let closed = |outer: &IpNet| match openable {
            Some(_) => outer.contains(&network),
            None => outer.contains(&network) || network.contains(outer),
        };
        let mut all = self.0.iter().map(|(_, range)| range);
        all.find(|range| !range.operator_may_open && closed(&range.network))
            .map(|range| format!("never {}: {}", range.network, range.reason))
            .or_else(|| self.closed_inside(openable?, network))
    }

    /// The same for the IPv4 addresses that `network` carries.
    fn closed_inside(&self, carrier: &Range, network: IpNet) -> Option<String> {
        let inner = carrier.embedded_network(network)?;
        let mut all = self.0.iter().map(|(_, range)| range);
        let closed = all.find(|range| !range.operator_may_open && range.network.contains(&inner))?;
        let form = carrier.form_of(closed.network)?;
        Some(format!("never {form}: {}", closed.reason))
    }

    fn openable(&self) -> impl Iterator<Item = &Range> {
        let all = self.0.iter().map(|(_, range)| range);
        all.filter(|range| range.operator_may_open)
    }
}

impl Range {
    /// The IPv4 address that a packet to `address`, which is in this range, may end at.
    pub fn embedded_ipv4(&self, address: IpAddr) -> Option<Ipv4Addr> {
        let (IpAddr::V6(six), Some(at)) = (address, self.carries_ipv4_at) else {
            return None;
        };
        let [.., a, b, c, d] = (six.to_bits() >> shift(at)).to_be_bytes();
        Some(Ipv4Addr::new(a, b, c, d))
    }

    fn embedded_network(&self, network: IpNet) -> Option<IpNet> {
        let inner = self.embedded_ipv4(network.addr())?;
        let length = network.prefix_len().checked_sub(self.carries_ipv4_at?)?;
        Ipv4Net::new(inner, length.min(32)).ok().map(IpNet::V4)
    }

    fn form_of(&self, inner: IpNet) -> Option<IpNet> {
        let (IpNet::V6(outer), IpNet::V4(inner), Some(at)) = (self.network, inner, self.carries_ipv4_at) else {
            return None;
        };
        let bits = outer.network().to_bits() | u128::from(inner.network().to_bits()) << shift(at);
        Ipv6Net::new(Ipv6Addr::from_bits(bits), at + inner.prefix_len())
            .ok()
            .map(IpNet::V6)
    }
}

fn shift(at: u8) -> u32 {
    Ipv6Addr::BITS - Ipv4Addr::BITS - u32::from(at)
}

/// What the list says of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    Reached,
    /// An operator may open it, and has not.
    Private,
    Never,
}

/// The stricter of what holds for an address and for the IPv4 address that it carries, where an operator allows these
/// networks. The address is one in the form that a socket makes of it ([`IpAddr::to_canonical`]).
pub fn verdict(address: IpAddr, allow: &[IpNet]) -> Verdict {
    let inner = embedded_ipv4(address).map_or(Verdict::Reached, |inner| listed(inner.into(), allow));
    listed(address, allow).max(inner)
}

fn listed(address: IpAddr, allow: &[IpNet]) -> Verdict {
    match ranges().of(address) {
        None => Verdict::Reached,
        Some(range) if !range.operator_may_open => Verdict::Never,
        Some(_) if contains(allow, address) => Verdict::Reached,
        Some(_) => Verdict::Private,
    }
}

/// The IPv4 address that a packet to this IPv6 address may end at.
pub fn embedded_ipv4(address: IpAddr) -> Option<Ipv4Addr> {
    let six = Some(address).filter(IpAddr::is_ipv6)?;
    ranges().of(six)?.embedded_ipv4(six)
}

fn contains(nets: &[IpNet], address: IpAddr) -> bool {
    nets.iter().any(|net| net.contains(&address))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tables of this name.
    fn table<T: serde::de::DeserializeOwned>(name: &str) -> Vec<T> {
        let all: toml::Table = toml::from_str(include_str!("../../../tests/forbidden-targets.toml")).expect("tables");
        all[name].clone().try_into().expect("rows")
    }

    #[derive(Deserialize)]
    struct Closed {
        opened: IpNet,
        because: String,
    }

    #[test]
    fn what_nobody_may_open_is_named_with_its_reason() {
        let rows: Vec<Closed> = table("closed");
        assert!(rows.len() > 10);
        for Closed { opened, because } in rows {
            let why = ranges().closed(opened).unwrap_or_default();
            let named = why.starts_with("never ") && why.contains(&because);
            assert!(named, "{opened}: {why}");
        }
    }

    #[test]
    fn networks_around_something_closed_are_open_only_where_they_are_openable_whole() {
        for (network, closed) in [
            ("10.0.0.0/8", false),
            ("100.64.0.0/10", false),
            ("fc00::/7", false),
            ("64:ff9b::/96", false),
            ("203.0.113.1/32", false),
            ("168.63.0.0/16", true),
            ("0.0.0.0/0", true),
            ("::/0", true),
            ("64:ff9b::/32", true),
        ] {
            let why = ranges().closed(network.parse().expect(network));
            assert_eq!(why.is_some(), closed, "{network}: {why:?}");
        }
    }

    #[test]
    fn no_range_that_may_be_opened_lies_inside_one_that_nobody_may_open() {
        for range in ranges().openable() {
            assert_eq!(ranges().closed(range.network), None, "{}", range.network);
        }
    }

    #[derive(Deserialize)]
    struct Case {
        opened: Vec<IpNet>,
        never: Vec<IpAddr>,
        private: Vec<IpAddr>,
        reached: Vec<IpAddr>,
    }

    #[test]
    fn every_address_of_the_table_gets_its_verdict() {
        let cases: Vec<Case> = table("case");
        assert!(cases.len() > 3);
        for case in cases {
            for (addresses, expected) in [
                (case.never, Verdict::Never),
                (case.private, Verdict::Private),
                (case.reached, Verdict::Reached),
            ] {
                for address in addresses {
                    let found = verdict(address.to_canonical(), &case.opened);
                    assert_eq!(found, expected, "{address} with {:?}", case.opened);
                }
            }
        }
    }
}
