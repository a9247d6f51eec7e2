//! Which ingress a client is led to.

use std::collections::BTreeSet;
use std::net::IpAddr;

use overlay_control::name::Name;

use crate::settings::Ingress;

/// An ingress, and for how many of the client's leading bits the answer is the same (the scope of RFC 7871).
#[derive(Debug, PartialEq, Eq)]
pub struct Chosen<'a> {
    /// The ingress.
    pub ingress: &'a Ingress,
    /// The length of the prefix that decided; 0 where none did.
    pub scope: u8,
}

/// The ingress of the longest prefix that has `client`, or the first one for a client that no network has. One that is
/// not `alive` is passed over, unless none is; without `alive` nobody knows, and all count as alive.
///
/// `ingresses` are not empty.
pub fn choose<'a>(
    ingresses: &'a [Ingress],
    client: IpAddr,
    alive: Option<&BTreeSet<Name>>,
) -> Chosen<'a> {
    let is_alive = |ingress: &Ingress| alive.is_none_or(|alive| alive.contains(&ingress.node));
    let any = ingresses.iter().any(is_alive);
    let usable = || ingresses.iter().filter(|each| is_alive(each) || !any);
    let mut chosen = usable().next().unwrap_or(&ingresses[0]);
    let mut best = None;
    for ingress in usable() {
        let prefixes = ingress
            .clients
            .iter()
            .filter(|network| network.contains(&client));
        let longest = prefixes.map(ipnet::IpNet::prefix_len).max();
        if longest > best {
            (chosen, best) = (ingress, longest);
        }
    }
    Chosen {
        ingress: chosen,
        scope: best.unwrap_or(0),
    }
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
        assert_eq!(led("10.2.2.3", None), ("milan".into(), 8));
        assert_eq!(led("2001:db8::9", None), ("london".into(), 32));
        assert_eq!(led("192.0.2.77", None), ("london".into(), 0));
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
    fn one_that_is_not_alive_is_passed_over() {
        assert_eq!(
            led("10.1.2.3", Some(&["london", "milan"])),
            ("milan".into(), 8)
        );
        assert_eq!(led("10.1.2.3", Some(&["london"])), ("london".into(), 0));
        assert_eq!(
            led("192.0.2.77", Some(&["milan", "oslo"])),
            ("milan".into(), 0)
        );
    }

    #[test]
    fn when_none_is_alive_clients_are_led_where_they_belong() {
        assert_eq!(led("10.1.2.3", Some(&[])), ("oslo".into(), 16));
    }
}
