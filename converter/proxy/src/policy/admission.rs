//! Admits clients by their networks, and connections by their number.

use std::cell::Cell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ipnet::IpNet;
use parking_lot::{Mutex, MutexGuard};

use crate::config::{Clients, Config, Limits};
use crate::io::buffers::Budget;

/// Why a connection is refused before anything was read from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAdmitted {
    /// The client's address is in none of `clients.networks`.
    UnknownClient,
    Full,
    ClientFull,
    Buffered,
    ClientBuffered,
}

impl NotAdmitted {
    /// For logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::UnknownClient => "client-not-allowed",
            Self::Full => "full",
            Self::ClientFull => "client-full",
            Self::Buffered => "buffers-full",
            Self::ClientBuffered => "client-buffers-full",
        }
    }
}

#[derive(Debug)]
pub struct Admission {
    open: AtomicUsize,
    by_client: Mutex<HashMap<IpAddr, Client>>,
    budget: Arc<Budget>,
}

/// A client that has connections.
#[derive(Debug)]
struct Client {
    connections: usize,
    /// Its share of all bytes that wait.
    budget: Arc<Budget>,
}

impl Admission {
    /// Starts without connections.
    pub fn new(limits: &Limits) -> Self {
        Self {
            open: AtomicUsize::new(0),
            by_client: Mutex::default(),
            budget: Arc::new(Budget::new(limits.buffered)),
        }
    }

    /// Sets the limits of bytes that wait; those that wait already stay.
    pub fn take_limits(&self, limits: &Limits) {
        self.budget.set(limits.buffered);
        for client in self.clients().values() {
            client.budget.set(limits.most_buffered_per_client());
        }
    }

    fn clients(&self) -> MutexGuard<'_, HashMap<IpAddr, Client>> {
        self.by_client.lock()
    }

    pub fn buffered(&self) -> usize {
        self.budget.used()
    }

    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Admits a connection of this client until the permit is dropped.
    pub fn admit(
        self: &Arc<Self>,
        client: IpAddr,
        config: &Config,
        most: usize,
    ) -> Result<ConnectionPermit, NotAdmitted> {
        if !is_allowed(client, &config.clients) {
            return Err(NotAdmitted::UnknownClient);
        }
        if self.open() >= most {
            return Err(NotAdmitted::Full);
        }
        if self.budget.is_exhausted() {
            return Err(NotAdmitted::Buffered);
        }
        let client = client_key(client, &config.clients);
        let mut clients = self.clients();
        let known = clients.entry(client).or_insert_with(|| Client {
            connections: 0,
            budget: Arc::new(Budget::share(&self.budget, config.limits.most_buffered_per_client())),
        });
        if known.connections >= config.limits.connections_per_client {
            return Err(NotAdmitted::ClientFull);
        }
        if known.connections > 0 && known.budget.is_exhausted() {
            return Err(NotAdmitted::ClientBuffered);
        }
        known.connections += 1;
        self.open.fetch_add(1, Ordering::Relaxed);
        Ok(ConnectionPermit {
            admission: Arc::clone(self),
            client,
            budget: Arc::clone(&known.budget),
            held: Cell::default(),
        })
    }

    fn release(&self, client: IpAddr) {
        self.open.fetch_sub(1, Ordering::Relaxed);
        let mut clients = self.clients();
        if let Some(known) = clients.get_mut(&client) {
            known.connections -= 1;
            if known.connections == 0 {
                clients.remove(&client);
            }
        }
    }
}

#[derive(Debug)]
pub struct ConnectionPermit {
    admission: Arc<Admission>,
    client: IpAddr,
    budget: Arc<Budget>,
    /// Bytes that wait for it, as the budget has them.
    held: Cell<usize>,
}

impl ConnectionPermit {
    /// Reserves memory for `bytes` that wait, in place of those of the last call. Returns whether there is memory for them;
    /// there always is for no more than before.
    pub fn reserve(&self, bytes: usize) -> bool {
        let before = self.held.replace(bytes);
        self.budget.adjust(before, bytes);
        bytes <= before || !self.budget.is_exhausted()
    }

    /// The client's share of the bytes that may wait for a peer.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.reserve(0);
        self.admission.release(self.client);
    }
}

pub fn is_allowed(client: IpAddr, clients: &Clients) -> bool {
    if clients.networks.is_empty() {
        client.is_loopback()
    } else {
        clients.networks.iter().any(|net| net.contains(&client))
    }
}

/// The key of a client in limits: an IPv6 host may use any address of its /64, and one of a shared network any of its prefix.
pub fn client_key(client: IpAddr, clients: &Clients) -> IpAddr {
    let shared = clients.shared.iter().find(|shared| shared.network.contains(&client));
    let bits = match (shared, client) {
        (Some(shared), _) => shared.prefix,
        (None, IpAddr::V4(_)) => return client,
        (None, IpAddr::V6(_)) => 64,
    };
    IpNet::new_assert(client, bits).network()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SharedNetwork;

    fn config() -> Config {
        let mut config = Config::default();
        config.clients.networks = vec![
            "10.0.0.0/8".parse().expect("net"),
            "2001:db8::/32".parse().expect("net"),
        ];
        config.limits.connections_per_client = 2;
        config
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().expect(text)
    }

    #[test]
    fn an_unknown_client_is_refused_and_without_networks_all_but_this_machine_are() {
        let admission = Arc::new(Admission::new(&Limits::default()));
        assert_eq!(
            admission.admit(ip("192.0.2.1"), &config(), 9).err(),
            Some(NotAdmitted::UnknownClient)
        );
        assert_eq!(
            admission.admit(ip("10.0.0.1"), &Config::default(), 9).err(),
            Some(NotAdmitted::UnknownClient)
        );
        assert!(admission.admit(ip("127.0.0.1"), &Config::default(), 9).is_ok());
    }

    #[test]
    fn a_client_has_its_limit_and_a_place_is_free_again_when_it_was_left() {
        let admission = Arc::new(Admission::new(&Limits::default()));
        let first = admission.admit(ip("2001:db8::1"), &config(), 9).expect("one");
        let _second = admission
            .admit(ip("2001:db8::2:1"), &config(), 9)
            .expect("two of one /64");
        assert_eq!(
            admission.admit(ip("2001:db8::3"), &config(), 9).err(),
            Some(NotAdmitted::ClientFull)
        );
        assert!(admission.admit(ip("2001:db8:0:1::3"), &config(), 9).is_ok());
        drop(first);
        assert!(admission.admit(ip("2001:db8::3"), &config(), 9).is_ok());
    }

    #[test]
    fn there_is_a_limit_in_all() {
        let admission = Arc::new(Admission::new(&Limits::default()));
        let permit = admission.admit(ip("10.0.0.1"), &config(), 1).expect("one");
        assert_eq!(
            admission.admit(ip("10.0.0.2"), &config(), 1).err(),
            Some(NotAdmitted::Full)
        );
        drop(permit);
        assert_eq!(admission.open(), 0);
        assert!(admission.by_client.lock().is_empty());
    }

    /// One client with many slow readers takes its share, and no other client is refused for that.
    #[test]
    fn a_client_has_its_share_of_the_memory_and_others_have_theirs() {
        let mut config = config();
        config.limits.connections_per_client = 9;
        config.limits.buffered = 400;
        let admission = Arc::new(Admission::new(&config.limits));
        let come = |client| admission.admit(ip(client), &config, 9);
        let first = come("10.0.0.1").expect("one");
        assert!(first.reserve(99));
        let second = come("10.0.0.1").expect("its share is not spent");
        second.budget().adjust(0, 1);
        assert!(first.reserve(99));
        assert!(!first.reserve(100));
        assert!(first.reserve(99));
        assert_eq!(come("10.0.0.1").err(), Some(NotAdmitted::ClientBuffered));
        let other = come("10.0.0.2").expect("another client");
        assert!(other.reserve(99));
        assert_eq!(admission.buffered(), 199);
        let greater = Limits {
            buffered_per_client: Some(200),
            ..config.limits.clone()
        };
        admission.take_limits(&greater);
        assert!(first.reserve(99));
    }

    /// A home router has an address for each of its tunnels.
    #[test]
    fn all_addresses_of_a_prefix_in_a_shared_network_are_one_client() {
        let mut config = config();
        config.clients.shared = vec![SharedNetwork {
            network: "10.84.0.0/16".parse().expect("net"),
            prefix: 28,
        }];
        let admission = Arc::new(Admission::new(&config.limits));
        let come = |client| admission.admit(ip(client), &config, 9);
        let _permits =
            ["10.84.0.17", "10.84.0.25", "10.84.0.33", "10.85.0.17"].map(|client| come(client).expect(client));
        assert_eq!(come("10.84.0.18").err(), Some(NotAdmitted::ClientFull));
        assert!(come("10.84.0.34").is_ok(), "the next router");
        assert!(come("10.85.0.18").is_ok(), "outside of the network each address is one");
        config.clients.shared[0].network = "2001:db8::/32".parse().expect("net");
        config.clients.shared[0].prefix = 56;
        assert_eq!(client_key(ip("2001:db8:0:ff::1"), &config.clients), ip("2001:db8::"));
        assert_eq!(
            client_key(ip("2001:db9:0:ff::1"), &config.clients),
            ip("2001:db9:0:ff::")
        );
    }

    #[test]
    fn no_client_is_admitted_while_slow_readers_use_up_the_memory() {
        let admission = Arc::new(Admission::new(&Limits {
            buffered: 0,
            ..Limits::default()
        }));
        assert_eq!(
            admission.admit(ip("10.0.0.1"), &config(), 9).err(),
            Some(NotAdmitted::Buffered)
        );
    }
}
