//! The connections to servers that were started by a client's SYN, until the client's own connection is accepted.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use crate::config::EarlySyn;

/// How long a client is remembered whose connection was accepted before its SYN was seen.
const LATE: Duration = Duration::from_millis(500);
/// How many such clients are remembered at most.
const MOST_RECENTLY_ACCEPTED: usize = 16384;
/// How many claimed connections `by_age` may still have, besides as many as are unclaimed.
const CLAIMED: usize = 64;

/// A client and the server that it connects to.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub struct Pair {
    pub client: SocketAddr,
    pub server: SocketAddr,
}

/// Why no connection is started for a SYN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotStarted {
    /// It is a retransmission, or its client was accepted already.
    Duplicate,
    /// The limit in all, for this client or to this server is reached.
    LimitReached,
}

/// Connections of type `T` by client and server.
#[derive(Debug)]
pub struct Table<T> {
    begun: HashMap<Pair, Waiting<T>>,
    /// In the order of their start; may still have some that were claimed.
    by_age: VecDeque<(Instant, Pair)>,
    recently_accepted: HashMap<Pair, Instant>,
    accepted_by_age: VecDeque<(Instant, Pair)>,
    by_client: HashMap<IpAddr, usize>,
    by_server: HashMap<IpAddr, usize>,
}

#[derive(Debug)]
struct Waiting<T> {
    connection: T,
    /// Its client's key in limits.
    client: IpAddr,
    watcher: u64,
    since: Instant,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self {
            begun: HashMap::new(),
            by_age: VecDeque::new(),
            recently_accepted: HashMap::new(),
            accepted_by_age: VecDeque::new(),
            by_client: HashMap::new(),
            by_server: HashMap::new(),
        }
    }
}

impl<T> Table<T> {
    pub fn waiting(&self) -> usize {
        self.begun.len()
    }

    /// Whether nothing here can expire.
    pub fn is_empty(&self) -> bool {
        self.begun.is_empty() && self.recently_accepted.is_empty()
    }

    /// Whether a connection may be started for this pair; `client` is the client's key in limits.
    pub fn may_begin(&self, pair: Pair, client: IpAddr, limits: &EarlySyn) -> Result<(), NotStarted> {
        if self.begun.contains_key(&pair) || self.recently_accepted.contains_key(&pair) {
            return Err(NotStarted::Duplicate);
        }
        let of_client = self.by_client.get(&client);
        let to_server = self.by_server.get(&pair.server.ip());
        let is_full = self.begun.len() >= limits.connections
            || of_client.is_some_and(|count| *count >= limits.per_client)
            || to_server.is_some_and(|count| *count >= limits.per_server);
        if is_full { Err(NotStarted::LimitReached) } else { Ok(()) }
    }

    /// Adds a connection that this `watcher` started.
    pub fn put(&mut self, pair: Pair, client: IpAddr, connection: T, watcher: u64, now: Instant) {
        let pending = Waiting {
            connection,
            client,
            watcher,
            since: now,
        };
        self.begun.insert(pair, pending);
        self.by_age.push_back((now, pair));
        self.forget_claimed();
        *self.by_client.entry(client).or_default() += 1;
        *self.by_server.entry(pair.server.ip()).or_default() += 1;
    }

    /// Takes the connection that was started for an accepted client, if there is one.
    pub fn claim(&mut self, pair: Pair, now: Instant) -> Option<T> {
        let claimed = self.remove(pair);
        if claimed.is_none() && self.recently_accepted.len() < MOST_RECENTLY_ACCEPTED {
            self.recently_accepted.insert(pair, now);
            self.accepted_by_age.push_back((now, pair));
        }
        claimed
    }

    /// Takes the connections that have not been claimed for `timeout`.
    pub fn expired(&mut self, timeout: Duration, now: Instant) -> Vec<T> {
        while let Some(pair) = older(&mut self.accepted_by_age, LATE, now) {
            if self
                .recently_accepted
                .get(&pair)
                .is_some_and(|since| is_over(*since, LATE, now))
            {
                self.recently_accepted.remove(&pair);
            }
        }
        let mut expired = Vec::new();
        while let Some(pair) = older(&mut self.by_age, timeout, now) {
            let begun = self.begun.get(&pair);
            if begun.is_some_and(|begun| is_over(begun.since, timeout, now)) {
                expired.extend(self.remove(pair));
            }
        }
        expired
    }

    /// Takes the connections of this watcher.
    pub fn begun_by(&mut self, watcher: u64) -> Vec<T> {
        let its = |pending: &Waiting<T>| pending.watcher == watcher;
        let begun = self.begun.iter().filter(|(_, pending)| its(pending));
        let pairs: Vec<Pair> = begun.map(|(pair, _)| *pair).collect();
        pairs.into_iter().filter_map(|pair| self.remove(pair)).collect()
    }

    /// However fast clients come, and however long they may take, no more is noted than is waiting.
    fn forget_claimed(&mut self) {
        if self.by_age.len() > 2 * self.begun.len() + CLAIMED {
            let begun = &self.begun;
            self.by_age
                .retain(|(since, pair)| begun.get(pair).is_some_and(|pending| pending.since == *since));
        }
    }

    fn remove(&mut self, pair: Pair) -> Option<T> {
        let begun = self.begun.remove(&pair)?;
        decrease(&mut self.by_client, begun.client);
        decrease(&mut self.by_server, pair.server.ip());
        Some(begun.connection)
    }
}

fn is_over(since: Instant, timeout: Duration, now: Instant) -> bool {
    now.duration_since(since) >= timeout
}

/// Takes the first one, if it has expired.
fn older(by_age: &mut VecDeque<(Instant, Pair)>, timeout: Duration, now: Instant) -> Option<Pair> {
    let (since, pair) = *by_age.front()?;
    is_over(since, timeout, now).then(|| {
        by_age.pop_front();
        pair
    })
}

fn decrease<K: Hash + Eq>(counts: &mut HashMap<K, usize>, key: K) {
    if let Entry::Occupied(mut count) = counts.entry(key) {
        *count.get_mut() -= 1;
        if *count.get() == 0 {
            count.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Clients;
    use crate::policy::admission::client_key;

    const TIMEOUT: Duration = Duration::from_secs(3);

    fn pair(client: &str) -> Pair {
        Pair {
            client: client.parse().expect("address"),
            server: "203.0.113.2:443".parse().expect("address"),
        }
    }

    fn key(pair: Pair) -> IpAddr {
        client_key(pair.client.ip(), &Clients::default())
    }

    fn may_begin<T>(table: &Table<T>, pair: Pair, limits: &EarlySyn) -> Result<(), NotStarted> {
        table.may_begin(pair, key(pair), limits)
    }

    fn put<T>(table: &mut Table<T>, pair: Pair, connection: T, watcher: u64, now: Instant) {
        table.put(pair, key(pair), connection, watcher, now);
    }

    fn limits() -> EarlySyn {
        EarlySyn {
            connections: 3,
            per_client: 2,
            per_server: 9,
            timeout: TIMEOUT,
        }
    }

    #[test]
    fn what_was_begun_is_claimed_once() {
        let (mut table, now) = (Table::default(), Instant::now());
        assert_eq!(may_begin(&table, pair("10.0.0.1:1"), &limits()), Ok(()));
        put(&mut table, pair("10.0.0.1:1"), 7, 0, now);
        assert_eq!(
            may_begin(&table, pair("10.0.0.1:1"), &limits()),
            Err(NotStarted::Duplicate)
        );
        assert_eq!(table.claim(pair("10.0.0.1:1"), now), Some(7));
        assert_eq!(table.claim(pair("10.0.0.1:1"), now), None);
        assert_eq!(table.waiting(), 0);
    }

    #[test]
    fn nothing_is_begun_for_a_client_that_was_accepted_before() {
        let (mut table, now) = (Table::<u8>::default(), Instant::now());
        assert_eq!(table.claim(pair("10.0.0.1:1"), now), None);
        assert_eq!(
            may_begin(&table, pair("10.0.0.1:1"), &limits()),
            Err(NotStarted::Duplicate)
        );
        assert!(table.expired(TIMEOUT, now + LATE).is_empty());
        assert_eq!(may_begin(&table, pair("10.0.0.1:1"), &limits()), Ok(()));
    }

    #[test]
    fn what_nobody_claims_expires_and_makes_room() {
        let (mut table, now) = (Table::default(), Instant::now());
        put(&mut table, pair("10.0.0.1:1"), 1, 0, now);
        put(&mut table, pair("10.0.0.1:2"), 2, 0, now + TIMEOUT / 2);
        assert_eq!(
            may_begin(&table, pair("10.0.0.1:3"), &limits()),
            Err(NotStarted::LimitReached)
        );
        assert_eq!(table.expired(TIMEOUT, now + TIMEOUT), [1]);
        assert_eq!(may_begin(&table, pair("10.0.0.1:3"), &limits()), Ok(()));
        assert_eq!(table.expired(TIMEOUT, now + 2 * TIMEOUT), [2]);
        assert!(table.by_client.is_empty() && table.by_server.is_empty());
    }

    #[test]
    fn a_pair_that_was_claimed_and_comes_again_has_its_whole_time() {
        let (mut table, now) = (Table::default(), Instant::now());
        put(&mut table, pair("10.0.0.1:1"), 1, 0, now);
        assert_eq!(table.claim(pair("10.0.0.1:1"), now), Some(1));
        let again = now + TIMEOUT / 2;
        put(&mut table, pair("10.0.0.1:1"), 2, 0, again);
        assert!(table.expired(TIMEOUT, now + TIMEOUT).is_empty());
        assert_eq!(table.expired(TIMEOUT, again + TIMEOUT), [2]);
    }

    #[test]
    fn there_are_limits_in_all_for_a_client_and_to_a_server() {
        let now = Instant::now();
        let mut table = Table::default();
        for number in 1..=3 {
            let one = pair(&format!("10.0.0.{number}:1"));
            assert_eq!(may_begin(&table, one, &limits()), Ok(()));
            put(&mut table, one, number, 0, now);
        }
        let next = pair("10.0.0.9:1");
        assert_eq!(may_begin(&table, next, &limits()), Err(NotStarted::LimitReached));
        let roomy = EarlySyn {
            connections: 99,
            ..limits()
        };
        assert_eq!(may_begin(&table, next, &roomy), Ok(()));
        let few = EarlySyn { per_server: 3, ..roomy };
        assert_eq!(may_begin(&table, next, &few), Err(NotStarted::LimitReached));
        // With IPv6 a host has a whole /64 to choose from.
        let one_host = EarlySyn {
            per_client: 1,
            ..limits()
        };
        let mut six = Table::default();
        put(&mut six, pair("[fd00::1]:1"), 1, 0, now);
        assert_eq!(
            may_begin(&six, pair("[fd00::2]:1"), &one_host),
            Err(NotStarted::LimitReached)
        );
    }

    #[test]
    fn what_one_watcher_began_goes_with_it_and_what_the_next_one_did_stays() {
        let (mut table, now) = (Table::default(), Instant::now());
        put(&mut table, pair("10.0.0.1:1"), "old", 1, now);
        put(&mut table, pair("10.0.0.1:2"), "new", 2, now);
        assert_eq!(table.begun_by(1), ["old"]);
        assert_eq!(table.waiting(), 1);
        assert_eq!(table.claim(pair("10.0.0.1:2"), now), Some("new"));
    }

    #[test]
    fn of_those_that_were_claimed_few_are_remembered_however_long_the_timeout() {
        let (mut table, now) = (Table::default(), Instant::now());
        put(&mut table, pair("10.0.0.9:1"), 0, 0, now);
        for port in 1..=60_000 {
            let one = pair(&format!("10.0.0.1:{port}"));
            put(&mut table, one, 1, 0, now);
            assert_eq!(table.claim(one, now), Some(1));
            assert!(table.by_age.len() <= 2 * (table.waiting() + 1) + CLAIMED);
        }
        assert_eq!(table.expired(TIMEOUT, now + TIMEOUT), [0]);
    }
}
