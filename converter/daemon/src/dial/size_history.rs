//! How large the transfers with some servers were, for what will be said of the next one. Pure.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use ipnet::IpNet;

/// Servers that are remembered: as many as fit into a hash table of 16,384 places (2 MB).
const MOST: usize = 14 << 10;
/// Transfers that are remembered of each. The median of seven stays where it is with any three that are unlike the others.
const KEPT: usize = 7;
/// Of fewer, one that is unlike the others could be the median.
const NEEDED: usize = 3;
/// Servers that nobody came to for longer may be others by now, or have other contents.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// Bytes that a TLS handshake and a request take. A transfer that was cut off before it had carried as many says nothing
/// of how many it would have carried.
const BEGINNING: u64 = 16_000;
/// Servers so near to each other are taken for the same.
const PREFIX4: u8 = 24;
const PREFIX6: u8 = 48;

/// The last transfers with servers, by their network and port. Of each, the bytes of the direction that had more.
#[derive(Debug, Default)]
pub struct SizeHistory {
    servers: HashMap<(IpNet, u16), Last>,
}

impl SizeHistory {
    /// The bytes that a transfer with `server` will have: the median of the last ones, the smaller one of two. `None` if
    /// too few are known.
    pub fn expected(&self, server: SocketAddr, now: Instant) -> Option<u64> {
        self.servers.get(&key(server))?.median(now)
    }

    /// A transfer with `server` ended, `whole` or cut off, after so many `bytes`.
    pub fn add(&mut self, server: SocketAddr, bytes: u64, whole: bool, now: Instant) {
        if !tells_something(bytes, whole) {
            return;
        }
        let key = key(server);
        if self.servers.len() >= MOST && !self.servers.contains_key(&key) {
            self.forget_half(now);
        }
        let last = self.servers.entry(key).or_insert_with(|| Last::none(now));
        last.add(bytes, now);
    }

    /// How many networks and ports are remembered.
    pub fn len(&self) -> usize {
        self.servers.len()
    }

    /// Makes room for many, so that it need not be done for each: first go those of which too little is known, then those
    /// that nobody came to for longest. So a client that tries many servers once does not drive the others out.
    fn forget_half(&mut self, now: Instant) {
        let worth = |last: &Last| (last.median(now).is_some(), last.at);
        let mut worths: Vec<_> = self.servers.values().map(worth).collect();
        let middle = worths.len() / 2;
        let (_, &mut least, _) = worths.select_nth_unstable(middle);
        self.servers.retain(|_, last| worth(last) > least);
    }
}

/// What was never used was kept ready for nothing, and of what was cut off at its beginning nobody knows the end.
fn tells_something(bytes: u64, whole: bool) -> bool {
    bytes >= if whole { 1 } else { BEGINNING }
}

fn key(server: SocketAddr) -> (IpNet, u16) {
    let prefix = if server.is_ipv4() { PREFIX4 } else { PREFIX6 };
    let network = IpNet::new_assert(server.ip(), prefix).trunc();
    (network, server.port())
}

/// The last transfers with the servers of one network and port.
#[derive(Debug)]
struct Last {
    /// A ring: the next one goes to the place `seen % KEPT`.
    bytes: [u64; KEPT],
    seen: usize,
    /// When the last one ended.
    at: Instant,
}

impl Last {
    fn none(now: Instant) -> Self {
        Self {
            bytes: [0; KEPT],
            seen: 0,
            at: now,
        }
    }

    fn is_old(&self, now: Instant) -> bool {
        now.duration_since(self.at) > LONGEST
    }

    fn add(&mut self, bytes: u64, now: Instant) {
        if self.is_old(now) {
            self.seen = 0;
        }
        self.bytes[self.seen % KEPT] = bytes;
        self.seen += 1;
        self.at = now;
    }

    fn median(&self, now: Instant) -> Option<u64> {
        if self.seen < NEEDED || self.is_old(now) {
            return None;
        }
        let mut known = self.bytes;
        let known = &mut known[..self.seen.min(KEPT)];
        known.sort_unstable();
        Some(known[(known.len() - 1) / 2])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: &str = "203.0.113.7:443";

    fn expected(history: &SizeHistory, server: &str, now: Instant) -> Option<u64> {
        history.expected(server.parse().expect(server), now)
    }

    fn add_whole(history: &mut SizeHistory, server: &str, sizes: &[u64], now: Instant) {
        for bytes in sizes {
            history.add(server.parse().expect(server), *bytes, true, now);
        }
    }

    fn history_of(sizes: &[u64], now: Instant) -> SizeHistory {
        let mut history = SizeHistory::default();
        add_whole(&mut history, SERVER, sizes, now);
        history
    }

    #[test]
    fn the_median_of_the_last_seven_is_expected_from_the_third_one_on() {
        let now = Instant::now();
        for (sizes, median) in [
            (&[][..], None),
            (&[9, 9], None),
            (&[9, 1, 5], Some(5)),
            (&[9, 1, 5, 7], Some(5)),
            // One that is unlike the others changes nothing.
            (&[10, 10, 1_000_000_000], Some(10)),
            (&[1, 1, 1, 9, 9, 9, 9], Some(9)),
            // The first ones are forgotten.
            (&[1, 1, 1, 1, 1, 1, 1, 9, 9, 9], Some(1)),
            (&[1, 1, 1, 1, 1, 1, 1, 9, 9, 9, 9], Some(9)),
            (&[u64::MAX, u64::MAX, u64::MAX], Some(u64::MAX)),
        ] {
            let history = history_of(sizes, now);
            assert_eq!(expected(&history, SERVER, now), median, "{sizes:?}");
        }
    }

    #[test]
    fn servers_of_one_network_count_together_and_each_port_for_itself() {
        let now = Instant::now();
        let mut history = history_of(&[5, 5, 5], now);
        add_whole(&mut history, "[2001:db8:7::1]:443", &[8, 8, 8], now);
        for (server, size) in [
            ("203.0.113.254:443", Some(5)),
            ("203.0.113.7:80", None),
            ("203.0.114.7:443", None),
            ("[2001:db8:7:ffff::2]:443", Some(8)),
            ("[2001:db8:8::1]:443", None),
        ] {
            assert_eq!(expected(&history, server, now), size, "{server}");
        }
        assert_eq!(history.len(), 2);
    }

    #[test]
    fn what_was_never_used_or_cut_off_at_its_beginning_tells_nothing() {
        let now = Instant::now();
        for (bytes, whole, counts) in [
            (0, true, false),
            (1, true, true),
            (15_999, false, false),
            (16_000, false, true),
        ] {
            let mut history = SizeHistory::default();
            for _ in 0..NEEDED {
                history.add(SERVER.parse().expect(SERVER), bytes, whole, now);
            }
            let size = expected(&history, SERVER, now);
            assert_eq!(size, counts.then_some(bytes), "{bytes} {whole}");
        }
    }

    #[test]
    fn what_is_older_than_a_day_is_forgotten() {
        let begun = Instant::now();
        let day = begun + LONGEST;
        let later = day + Duration::from_nanos(1);
        let mut history = history_of(&[5, 5, 5], begun);
        assert_eq!(expected(&history, SERVER, day), Some(5));
        assert_eq!(expected(&history, SERVER, later), None);
        add_whole(&mut history, SERVER, &[8, 8], later);
        assert_eq!(expected(&history, SERVER, later), None);
        add_whole(&mut history, SERVER, &[8], later);
        assert_eq!(expected(&history, SERVER, later), Some(8));
    }

    /// Each a network of its own.
    fn server(number: usize) -> String {
        format!("10.{}.{}.1:443", number / 256, number % 256)
    }

    #[test]
    fn many_servers_that_are_tried_once_drive_no_other_out() {
        let begun = Instant::now();
        let at = |number| begun + Duration::from_millis(number as u64);
        let mut history = history_of(&[5, 5, 5], begun);
        for number in 0..3 * MOST {
            add_whole(&mut history, &server(number), &[9], at(number));
            assert!(history.len() <= MOST);
        }
        let now = at(3 * MOST);
        assert_eq!(expected(&history, SERVER, now), Some(5));
        add_whole(&mut history, &server(3 * MOST - 1), &[9, 9], now);
        assert_eq!(expected(&history, &server(3 * MOST - 1), now), Some(9));
    }

    #[test]
    fn of_those_that_are_known_well_the_ones_that_nobody_came_to_for_longest_are_forgotten() {
        let begun = Instant::now();
        let at = |number| begun + Duration::from_millis(number as u64);
        let mut history = SizeHistory::default();
        for number in 0..=MOST {
            add_whole(&mut history, &server(number), &[9, 9, 9], at(number));
        }
        let now = at(MOST);
        assert_eq!(expected(&history, &server(MOST / 4), now), None);
        assert_eq!(expected(&history, &server(MOST / 4 * 3), now), Some(9));
        assert_eq!(expected(&history, &server(MOST), now), Some(9));
    }
}
