//! Which converter is next on the way to a server.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ipnet::IpNet;
use prefix_trie::joint::map::JointPrefixMap;

use super::next_hop::NextHop;
use crate::config::Gateway;
use crate::kernel::syn_option::SynOption;

/// The next converters, by the servers' networks. Without any, every server is connected to directly.
#[derive(Debug, Default)]
pub struct NextHops {
    otherwise: Option<Arc<NextHop>>,
    by_network: JointPrefixMap<IpNet, Option<Arc<NextHop>>>,
}

impl NextHops {
    /// As configured. Networks by way of the same converter share what is known of it. The `option` in SYNs is begun
    /// anew only if `old` has none; raises what [`SynOption::start`] does.
    pub fn new(gateway: &Gateway, old: Option<&Self>) -> io::Result<Self> {
        let kept = old.and_then(|old| old.otherwise.as_ref()?.option.clone());
        let option = match (gateway.syn_option, kept) {
            (false, _) => None,
            (true, Some(option)) => Some(option),
            (true, None) => Some(Arc::new(SynOption::start()?)),
        };
        let mut hops = HashMap::new();
        let mut hop = |address: SocketAddr| {
            let known = hops.entry(address);
            Arc::clone(known.or_insert_with(|| Arc::new(NextHop::new(address, option.clone()))))
        };
        let otherwise = Some(hop(gateway.address));
        let mut by_network = JointPrefixMap::new();
        for route in &gateway.routes {
            for network in &route.to {
                by_network.insert(*network, route.via.address().map(&mut hop));
            }
        }
        Ok(Self {
            otherwise,
            by_network,
        })
    }

    /// The next converter on the way to `server`; none where the server itself is next.
    pub fn towards(&self, server: IpAddr) -> Option<&NextHop> {
        self.by_network
            .get_lpm(&server.into())
            .map_or(self.otherwise.as_ref(), |(_, hop)| hop.as_ref())
            .map(Arc::as_ref)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    const ROUTES: &str = r#"
        [gateway]
        address = "192.0.2.1:3129"
        [[gateway.routes]]
        to = ["10.0.0.0/8", "2001:db8::/32"]
        via = "192.0.2.2:3129"
        [[gateway.routes]]
        to = ["10.1.0.0/16"]
        via = "direct"
        [[gateway.routes]]
        to = ["10.1.2.0/24"]
        via = "192.0.2.1:3129"
    "#;

    fn hops() -> NextHops {
        let config = config::parse(ROUTES, "c.toml").expect("routes");
        NextHops::new(config.gateway.as_ref().expect("gateway"), None).expect("no option")
    }

    fn next(hops: &NextHops, server: &str) -> Option<String> {
        let hop = hops.towards(server.parse().expect("address"));
        hop.map(|hop| hop.address.to_string())
    }

    #[test]
    fn the_longest_prefix_counts_and_the_gateway_takes_the_rest() {
        let hops = hops();
        for (server, via) in [
            ("10.2.0.1", Some("192.0.2.2:3129")),
            ("2001:db8::1", Some("192.0.2.2:3129")),
            ("10.1.0.1", None),
            ("10.1.2.3", Some("192.0.2.1:3129")),
            ("203.0.113.1", Some("192.0.2.1:3129")),
            ("2001:db9::1", Some("192.0.2.1:3129")),
        ] {
            assert_eq!(next(&hops, server).as_deref(), via, "{server}");
        }
    }

    #[test]
    fn what_is_known_of_a_converter_counts_for_all_its_networks() {
        let hops = hops();
        let [near, far] = ["10.1.2.3", "203.0.113.1"].map(|server| {
            hops.towards(server.parse().expect("address"))
                .expect("a hop")
        });
        assert!(std::ptr::eq(near, far));
    }

    #[test]
    fn without_a_gateway_servers_are_next() {
        assert_eq!(next(&NextHops::default(), "203.0.113.1"), None);
    }
}
