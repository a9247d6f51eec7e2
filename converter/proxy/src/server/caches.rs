//! What a thread has from one configuration to the next.

use std::rc::Rc;
use std::sync::Arc;

use super::active_config::ActiveConfig;
use crate::config::Config;
use crate::io::conn::HandoffContext;
use crate::upstream::CurrentHops;

/// The routes to servers. While the gateway's other settings stay the same, connections of earlier configurations find those
/// in force as well: nobody goes by replaced ones, or keeps them in memory.
#[derive(Default)]
pub struct NextHopsCache(Option<(Arc<Config>, CurrentHops)>);

impl NextHopsCache {
    pub fn of(&mut self, active: &ActiveConfig) -> CurrentHops {
        let now = Arc::clone(&active.next_hops);
        let before = self.0.take();
        let same = before.filter(|(config, _)| config.gateway == active.config.gateway);
        let next_hops = if let Some((_, next_hops)) = same {
            next_hops.replace(now);
            next_hops
        } else {
            CurrentHops::new(now.into())
        };
        self.0 = Some((Arc::clone(&active.config), Rc::clone(&next_hops)));
        next_hops
    }
}

/// The links to back ends and switch; kept from one configuration to the next while their settings stay the same.
#[derive(Default)]
pub struct HandoffLinksCache(Option<(Arc<handoff_front::Settings>, HandoffContext)>);

impl HandoffLinksCache {
    pub fn of(&mut self, active: &ActiveConfig) -> Option<HandoffContext> {
        let wanted = active.handoff.as_ref();
        self.0 = self
            .0
            .take()
            .filter(|(settings, _)| wanted.is_some_and(|wanted| Arc::ptr_eq(settings, &wanted.settings)))
            .or_else(|| {
                let wanted = wanted?;
                let context = HandoffContext {
                    links: handoff_front::Links::start(&wanted.settings),
                    estimator: Arc::clone(&wanted.estimator),
                };
                Some((Arc::clone(&wanted.settings), context))
            });
        self.0.as_ref().map(|(_, context)| context.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpListener};

    use super::*;
    use crate::config;
    use crate::observe::metrics::Metrics;
    use crate::server::upgrade::InheritedSockets;

    fn active(address: SocketAddr, gateway: &str, via: &str, old: Option<&ActiveConfig>) -> ActiveConfig {
        let text = format!(
            r#"
            [[listen]]
            kind = "http"
            address = "{address}"
            mptcp = false
            [gateway]
            {gateway}
            [[gateway.routes]]
            to = ["10.0.0.0/8"]
            via = "{via}"
            "#
        );
        let config = config::parse(&text, "c.toml").expect("a configuration");
        let mut inherited = InheritedSockets::default();
        ActiveConfig::new(config, old, &mut inherited, &Metrics::default()).expect("a free port")
    }

    /// A connection has what its configuration gave it for hours.
    #[test]
    fn routes_that_were_replaced_are_nobodys_any_more_unless_other_settings_were_too() {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
        let address = free.expect("a port");
        let mut cache = NextHopsCache::default();
        let first = active(address, "", "192.0.2.1:1", None);
        let of_connection = cache.of(&first);
        let second = active(address, "", "192.0.2.2:1", Some(&first));
        let replaced = Arc::downgrade(&first.next_hops);
        drop(first);
        cache.of(&second);
        assert!(replaced.upgrade().is_none());
        let third = active(address, "fallback = \"refuse\"", "192.0.2.2:1", Some(&second));
        cache.of(&third);
        assert!(Arc::ptr_eq(&of_connection.borrow(), &second.next_hops));
    }
}
