//! The choice of a client's ingress.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use overlay_control::name::Name;

use crate::settings::Ingress;

/// An ingress, and for how many leading bits of the client's address the answer is the same (the scope of RFC 7871).
#[derive(Debug, PartialEq, Eq)]
pub struct Chosen<'a> {
    pub ingress: &'a Ingress,
    /// The shortest prefix of the client's that no network divides, whether nodes are alive or not (RFC 7871 section
    /// 7.2.1).
    pub scope: u8,
}

/// The ingress with the longest prefix for `client`, or the first one if none matches. Ingresses that are not `alive` are
/// skipped, unless none is; without `alive` all count as alive.
///
/// `ingresses` must not be empty.
pub fn choose<'a>(ingresses: &'a [Ingress], client: IpAddr, alive: Option<&BTreeSet<Name>>) -> Chosen<'a> {
    let is_alive = |ingress: &Ingress| alive.is_none_or(|alive| alive.contains(&ingress.node));
    let any = ingresses.iter().any(is_alive);
    let usable = || ingresses.iter().filter(|each| is_alive(each) || !any);
    let mut chosen = usable().next().unwrap_or(&ingresses[0]);
    let mut best = None;
    for ingress in usable() {
        let prefixes = ingress.clients.iter().filter(|network| network.contains(&client));
        let longest = prefixes.map(IpNet::prefix_len).max();
        if longest > best {
            (chosen, best) = (ingress, longest);
        }
    }
    let networks = ingresses.iter().flat_map(|ingress| &ingress.clients);
    let scope = networks.map(|network| undivided(client, network)).max();
    Chosen {
        ingress: chosen,
        scope: scope.unwrap_or(0),
    }
}

/// The least prefix length of the client's that is inside the network or outside of it.
fn undivided(client: IpAddr, network: &IpNet) -> u8 {
    let common = match (client, network.addr()) {
        (IpAddr::V4(client), IpAddr::V4(other)) => (client.to_bits() ^ other.to_bits()).leading_zeros(),
        (IpAddr::V6(client), IpAddr::V6(other)) => (client.to_bits() ^ other.to_bits()).leading_zeros(),
        _ => return 0,
    };
    let beside = u8::try_from(common + 1).unwrap_or(u8::MAX);
    network.prefix_len().min(beside)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ingress(node: &str, clients: &[&str]) -> Ingress {
        Ingress {
            node: node.parse().unwrap(),
            addresses: vec!["192.0.2.1".parse().unwrap()],
            clients: clients.iter().map(|each| each.parse().unwrap()).collect(),
        }
    }

    fn all() -> Vec<Ingress> {
        vec![
            ingress("london", &["2001:db8::/32"]),
            ingress("milan", &["10.0.0.0/8"]),
            ingress("oslo", &["10.1.0.0/16"]),
        ]
    }

    fn led(client: &str, alive: Option<&[&str]>) -> (String, u8) {
        let alive = alive.map(|names| names.iter().map(|name| name.parse().unwrap()).collect());
        let all = all();
        let chosen = choose(&all, client.parse().unwrap(), alive.as_ref());
        (chosen.ingress.node.to_string(), chosen.scope)
    }

    #[test]
    fn the_longest_prefix_decides_and_the_first_ingress_is_for_all_others() {
        assert_eq!(led("10.1.2.3", None), ("oslo".into(), 16));
        assert_eq!(led("10.2.2.3", None), ("milan".into(), 15));
        assert_eq!(led("2001:db8::9", None), ("london".into(), 32));
        assert_eq!(led("192.0.2.77", None), ("london".into(), 1));
    }

    #[test]
    fn a_network_of_all_addresses_counts_before_the_first_ingress() {
        for (all, client) in [("0.0.0.0/0", "192.0.2.77"), ("::/0", "2001:db8::9")] {
            let ingresses = [ingress("london", &[]), ingress("milan", &[all])];
            let chosen = choose(&ingresses, client.parse().unwrap(), None);
            assert_eq!((chosen.ingress.node.as_str(), chosen.scope), ("milan", 0));
        }
    }

    #[test]
    fn all_clients_of_the_scope_have_the_same_answer() {
        let ingresses = [
            ingress("london", &["0.0.0.0/0"]),
            ingress("milan", &["10.0.0.0/8", "12.0.0.0/7"]),
            ingress("oslo", &["10.1.0.0/16", "10.128.0.0/9"]),
        ];
        let alive = BTreeSet::from(["london", "milan"].map(|name| name.parse().unwrap()));
        for alive in [None, Some(&alive)] {
            for high in 0..=u16::MAX {
                let network = u32::from(high) << 16;
                let one = choose(&ingresses, IpAddr::V4(network.into()), alive);
                let others = u32::MAX.checked_shr(one.scope.into()).unwrap_or(0);
                for bits in [network | others, network & !others] {
                    assert_eq!(choose(&ingresses, IpAddr::V4(bits.into()), alive), one);
                }
            }
        }
    }

    #[test]
    fn one_that_is_not_alive_is_passed_over() {
        assert_eq!(led("10.1.2.3", Some(&["london", "milan"])), ("milan".into(), 16));
        assert_eq!(led("10.1.2.3", Some(&["london"])), ("london".into(), 16));
        assert_eq!(led("192.0.2.77", Some(&["milan", "oslo"])), ("milan".into(), 1));
    }

    #[test]
    fn when_none_is_alive_clients_are_led_where_they_belong() {
        assert_eq!(led("10.1.2.3", Some(&[])), ("oslo".into(), 16));
    }
}
