//! Routes to servers, by network, port and size.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;

use ipnet::IpNet;
use prefix_trie::joint::map::JointPrefixMap;

use super::next_hops::Route;
use crate::config::RouteSettings;

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
