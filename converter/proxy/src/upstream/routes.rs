//! The routes to servers over other converters.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use ipnet::IpNet;
use parking_lot::Mutex;
use prefix_trie::joint::map::JointPrefixMap;
use tokio::time::Instant;

use super::next_hop::NextHop;
use crate::config::{Gateway, RouteSettings};
use crate::kernel::syn_option::SynOption;

/// Converters in source routes that are remembered before unused ones are forgotten.
const MOST_KNOWN: usize = 4096;

/// A route to a server.
#[derive(Clone, Debug)]
pub enum Route {
    /// The server itself is next.
    Direct,
    /// The next converter, and the source route after it; `None`: hop by hop, it chooses the rest itself.
    Via(Arc<NextHop>, Option<Vec<SocketAddr>>),
}

/// The deadline for the first of these `routes`; `None` if there is no other.
pub fn deadline(routes: &[Route], gateway: &Gateway) -> Option<Instant> {
    (routes.len() > 1).then(|| Instant::now() + gateway.timeout)
}

/// Where one thread finds the routes that are in force: they may be replaced while connections go on.
pub type CurrentHops = Rc<RefCell<Arc<NextHops>>>;

/// The next converters, by the servers' networks and ports, and by the transfers' sizes. Without any, every server is
/// connected to directly.
#[derive(Debug, Default)]
pub struct NextHops {
    otherwise: Option<Arc<[Route]>>,
    routes: RouteTable,
    option: Option<Arc<SynOption>>,
    known: Mutex<HashMap<SocketAddr, Arc<NextHop>>>,
}

impl NextHops {
    /// As configured. Networks by way of the same converter share what is known of it. The `option` in SYNs is
    /// started only if `old` has none; returns the errors of [`SynOption::start`].
    pub fn new(gateway: &Gateway, old: Option<&Self>) -> io::Result<Self> {
        let kept = old.and_then(|old| old.option.clone());
        let option = match (gateway.syn_option, kept) {
            (false, _) => None,
            (true, Some(option)) => Some(option),
            (true, None) => Some(Arc::new(SynOption::start()?)),
        };
        // What the SYNs have may be another thing; all else is known as before.
        let same = old.filter(|old| old.option.is_some() == option.is_some());
        let mut hops = Self {
            option,
            known: Mutex::new(same.map(|old| old.known.lock().clone()).unwrap_or_default()),
            ..Self::default()
        };
        let gateway_alone = |address| [hops.hop_by_hop(address)].into();
        hops.otherwise = gateway.address.map(gateway_alone);
        for route in &gateway.routes {
            let routes: Arc<[Route]> = route.via.0.iter().map(|each| hops.route_of(each)).collect();
            hops.routes.add(route, &routes);
        }
        Ok(hops)
    }

    /// The routes to `server` for a transfer of `size` bytes, if they are known: one way at least, the best one first.
    pub fn towards(&self, server: SocketAddr, size: Option<u64>) -> &[Route] {
        let routes = self.routes.towards(server, size).or(self.otherwise.as_ref());
        routes.map_or(&[Route::Direct], |routes| routes)
    }

    /// A source route over these converters.
    pub fn named(&self, converters: &[SocketAddr]) -> Route {
        match converters {
            [] => Route::Direct,
            [next, source_route @ ..] => Route::Via(self.hop(*next), Some(source_route.to_vec())),
        }
    }

    /// A route of the settings: a single converter may be of any make, and gets no source route.
    fn route_of(&self, converters: &[SocketAddr]) -> Route {
        match converters {
            [next] => self.hop_by_hop(*next),
            _ => self.named(converters),
        }
    }

    fn hop_by_hop(&self, next: SocketAddr) -> Route {
        Route::Via(self.hop(next), None)
    }

    /// What is known of a converter, for all routes by it.
    fn hop(&self, address: SocketAddr) -> Arc<NextHop> {
        let mut known = self.known.lock();
        if known.len() >= MOST_KNOWN && !known.contains_key(&address) {
            known.retain(|_, hop| Arc::strong_count(hop) > 1);
        }
        let hop = known.entry(address);
        Arc::clone(hop.or_insert_with(|| Arc::new(NextHop::new(address, self.option.clone()))))
    }
}

type ByNetwork = JointPrefixMap<IpNet, Arc<[Route]>>;
type Above = BTreeMap<u64, ByNetwork>;

/// Routes to servers. The longest prefix that covers a server counts, and of its routes one for the port before one for
/// all; of these the one above the largest size that a transfer of known size is above.
#[derive(Debug, Default)]
pub struct RouteTable {
    for_all: BySize,
    for_port: HashMap<u16, BySize>,
}

/// Routes for one port, or for all that have none of their own.
#[derive(Debug, Default)]
struct BySize {
    /// For transfers of a size that is not known, or that nothing else is for.
    any: ByNetwork,
    /// For larger ones than this, to networks that are in `any` too.
    above: Above,
}

impl RouteTable {
    /// Adds the routes that the settings have for some networks.
    pub fn add(&mut self, route: &RouteSettings, routes: &Arc<[Route]>) {
        let by_size = match route.port {
            Some(port) => self.for_port.entry(port.get()).or_default(),
            None => &mut self.for_all,
        };
        let by_network = match route.above {
            Some(size) => by_size.above.entry(size).or_default(),
            None => &mut by_size.any,
        };
        for network in &route.to {
            by_network.insert(*network, Arc::clone(routes));
        }
    }

    /// The routes to `server` for a transfer of `size` bytes, if they are known; `None` if no route covers the server.
    pub fn towards(&self, server: SocketAddr, size: Option<u64>) -> Option<&Arc<[Route]>> {
        let (network, any, above) = self.covering(server)?;
        let mut exceeded = size.into_iter().flat_map(|size| above.range(..size).rev());
        exceeded
            .find_map(|(_, by_network)| by_network.get(&network))
            .or(Some(any))
    }

    /// The network that counts for `server`, and its routes: for any size, and for those above some.
    fn covering(&self, server: SocketAddr) -> Option<(IpNet, &Arc<[Route]>, &Above)> {
        let address = server.ip().into();
        let for_port = self.for_port.get(&server.port());
        let covering = [Some(&self.for_all), for_port].into_iter().flatten();
        // Of two that are equally long the last one counts.
        covering
            .filter_map(|by_size| {
                let (network, any) = by_size.any.get_lpm(&address)?;
                Some((network, any, &by_size.above))
            })
            .max_by_key(|(network, ..)| network.prefix_len())
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
        [[gateway.routes]]
        to = ["10.1.3.0/24"]
        via = "192.0.2.2:3129 192.0.2.3:3129 or 192.0.2.1:3129 or direct"
        [[gateway.routes]]
        to = ["10.1.0.0/16"]
        port = 443
        via = "192.0.2.3:3129"
        [[gateway.routes]]
        to = ["10.1.0.0/16"]
        above = "45kB"
        via = "192.0.2.4:3129"
        [[gateway.routes]]
        to = ["10.1.0.0/16"]
        above = "465kB"
        via = "192.0.2.5:3129"
        [[gateway.routes]]
        to = ["10.1.4.0/24"]
        port = 22
        via = "192.0.2.3:3129"
        [[gateway.routes]]
        to = ["2001:db8:7::/48"]
        port = 443
        via = "direct"
    "#;

    fn hops() -> NextHops {
        hops_of(ROUTES, None)
    }

    fn routes(hops: &NextHops, server: &str) -> Vec<String> {
        ways_of_size(hops, server, None)
    }

    fn ways_of_size(hops: &NextHops, server: &str, size: Option<u64>) -> Vec<String> {
        let routes = hops.towards(server.parse().expect("address and port"), size);
        routes.iter().map(text).collect()
    }

    fn text(route: &Route) -> String {
        match route {
            Route::Direct => "direct".into(),
            Route::Via(hop, None) => hop.address.to_string(),
            Route::Via(hop, Some(source_route)) => format!("{} then {source_route:?}", hop.address),
        }
    }

    #[test]
    fn the_longest_prefix_counts_and_the_gateway_takes_the_rest() {
        let hops = hops();
        for (server, via) in [
            ("10.2.0.1:80", "192.0.2.2:3129"),
            ("[2001:db8::1]:80", "192.0.2.2:3129"),
            ("10.1.0.1:80", "direct"),
            ("10.1.2.3:80", "192.0.2.1:3129"),
            ("203.0.113.1:80", "192.0.2.1:3129"),
            ("[2001:db9::1]:80", "192.0.2.1:3129"),
        ] {
            assert_eq!(routes(&hops, server), [via], "{server}");
        }
    }

    #[test]
    fn of_the_longest_prefix_a_route_for_the_port_counts_before_one_for_all() {
        let hops = hops();
        for (server, via) in [
            ("10.1.0.1:443", "192.0.2.3:3129"),
            ("10.1.0.1:444", "direct"),
            // A longer prefix before the port.
            ("10.1.2.3:443", "192.0.2.1:3129"),
            // Nothing but this port goes this way.
            ("10.1.4.1:22", "192.0.2.3:3129"),
            ("10.1.4.1:443", "192.0.2.3:3129"),
            ("10.1.4.1:80", "direct"),
            ("[2001:db8:7::1]:443", "direct"),
            ("[2001:db8:7::1]:80", "192.0.2.2:3129"),
        ] {
            assert_eq!(routes(&hops, server), [via], "{server}");
        }
    }

    #[test]
    fn the_largest_size_that_a_transfer_is_above_counts_where_its_size_is_known() {
        let hops = hops();
        let [large, larger] = ["192.0.2.4:3129", "192.0.2.5:3129"];
        for (server, size, via) in [
            ("10.1.0.1:80", None, "direct"),
            ("10.1.0.1:80", Some(45_000), "direct"),
            ("10.1.0.1:80", Some(45_001), large),
            ("10.1.0.1:80", Some(465_000), large),
            ("10.1.0.1:80", Some(465_001), larger),
            ("10.1.0.1:80", Some(u64::MAX), larger),
            // These have no routes for sizes.
            ("10.1.0.1:443", Some(u64::MAX), "192.0.2.3:3129"),
            ("10.1.2.3:80", Some(u64::MAX), "192.0.2.1:3129"),
        ] {
            assert_eq!(ways_of_size(&hops, server, size), [via], "{server} {size:?}");
        }
    }

    fn hops_of(text: &str, old: Option<&NextHops>) -> NextHops {
        let config = config::parse(text, "c.toml").expect("a gateway");
        NextHops::new(config.gateway.as_ref().expect("gateway"), old).expect("no option")
    }

    #[test]
    fn a_network_has_its_ways_in_their_order() {
        let expected = ["192.0.2.2:3129 then [192.0.2.3:3129]", "192.0.2.1:3129", "direct"];
        assert_eq!(routes(&hops(), "10.1.3.1:80"), expected);
    }

    #[test]
    fn who_is_named_last_connects_to_the_server() {
        let hops = hops();
        let [first, last] = ["192.0.2.7:1", "192.0.2.8:1"].map(|each| each.parse().expect("one"));
        let named = |converters: &[SocketAddr]| text(&hops.named(converters));
        assert_eq!(named(&[first, last]), "192.0.2.7:1 then [192.0.2.8:1]");
        assert_eq!(named(&[last]), "192.0.2.8:1 then []");
        assert_eq!(named(&[]), "direct");
    }

    #[test]
    fn what_is_known_of_a_converter_counts_for_all_its_networks() {
        let hops = hops();
        let [near, far] = ["10.1.2.3:80", "203.0.113.1:80"].map(|server| {
            match hops.towards(server.parse().expect("address and port"), None) {
                [Route::Via(hop, None)] => hop,
                routes => panic!("{routes:?}"),
            }
        });
        assert!(Arc::ptr_eq(near, far));
    }

    #[test]
    fn what_is_known_of_a_converter_outlives_a_reload() {
        let before = hops();
        let address = "192.0.2.1:3129".parse().expect("one");
        let after = hops_of(ROUTES, Some(&before));
        assert!(Arc::ptr_eq(&before.hop(address), &after.hop(address)));
    }

    #[test]
    fn without_a_gateway_servers_are_next() {
        assert_eq!(routes(&NextHops::default(), "203.0.113.1:80"), ["direct"]);
    }
}
