//! What the list says of an address, and of the IPv4 address that it may carry.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;

use crate::ranges::ranges;

/// What the list says of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It is a target.
    Reached,
    /// An operator may open it, and has not.
    Private,
    /// Nobody may open it.
    Never,
}

/// The stricter of what holds for an address and for the IPv4 address that it carries, where an operator allows these
/// networks. The address is one in the form that a socket makes of it ([`IpAddr::to_canonical`]).
pub fn verdict(address: IpAddr, allow: &[IpNet]) -> Verdict {
    let inner =
        embedded_ipv4(address).map_or(Verdict::Reached, |inner| listed(inner.into(), allow));
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
    ranges().of(address)?.embedded_ipv4(address)
}

fn contains(nets: &[IpNet], address: IpAddr) -> bool {
    nets.iter().any(|net| net.contains(&address))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CASES: &str = include_str!("../../../tests/forbidden-targets.toml");

    #[derive(serde::Deserialize)]
    struct Case {
        opened: Vec<IpNet>,
        never: Vec<IpAddr>,
        private: Vec<IpAddr>,
        reached: Vec<IpAddr>,
    }

    #[test]
    fn every_address_of_the_table_gets_its_verdict() {
        let table: toml::Table = toml::from_str(CASES).expect("table");
        let cases: Vec<Case> = table["case"].clone().try_into().expect("cases");
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
