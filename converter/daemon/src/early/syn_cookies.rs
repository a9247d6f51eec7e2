//! Whether this machine is being flooded with SYNs: the kernel answers with SYN cookies when a listener's queue is full
//! (tcp(7), `tcp_syncookies`), and counts them.

use std::time::{Duration, Instant};

/// The flood is over this long after the last cookie.
const CALM: Duration = Duration::from_secs(5);
const COUNTER: &str = "SyncookiesSent";
const FILE: &str = "/proc/thread-self/net/netstat";

/// Detects floods.
#[derive(Debug, Default)]
pub struct SynCookieMonitor {
    cookies: Option<u64>,
    over_at: Option<Instant>,
}

impl SynCookieMonitor {
    /// Records how many cookies were sent so far.
    pub fn note(&mut self, cookies: u64, now: Instant) {
        if self.cookies.is_some_and(|before| cookies > before) {
            self.over_at = Some(now + CALM);
        }
        self.cookies = Some(cookies);
    }

    /// Whether there is a flood now.
    pub fn is_on(&self, now: Instant) -> bool {
        self.over_at.is_some_and(|over_at| now < over_at)
    }
}

/// SYN cookies that the kernel has sent in this network namespace; 0 where it does not say.
pub fn cookies_sent() -> u64 {
    std::fs::read_to_string(FILE).map_or(0, |text| counter(&text))
}

/// The counter in a file that has a line of names before each line of values (proc(5)).
fn counter(netstat: &str) -> u64 {
    let mut lines = netstat.lines();
    while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
        let mut pairs = names.split_whitespace().zip(values.split_whitespace());
        if let Some((_, value)) = pairs.find(|(name, _)| *name == COUNTER) {
            return value.parse().unwrap_or(0);
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_begins_with_a_cookie_and_ends_when_none_was_sent_for_long() {
        let (mut flood, now) = (SynCookieMonitor::default(), Instant::now());
        flood.note(70, now);
        assert!(!flood.is_on(now)); // those were of an earlier time
        flood.note(71, now);
        assert!(flood.is_on(now));
        flood.note(71, now + CALM / 2);
        assert!(flood.is_on(now + CALM / 2));
        assert!(!flood.is_on(now + CALM));
    }

    #[test]
    fn the_counter_is_found_by_its_name() {
        let text =
            "TcpExt: SyncookiesRecv SyncookiesSent X\nTcpExt: 1 42 3\nIpExt: A B\nIpExt: 5 6\n";
        assert_eq!(counter(text), 42);
        assert_eq!(counter("TcpExt: A\nTcpExt: 1\n"), 0);
        assert_eq!(counter(""), 0);
    }

    #[test]
    fn this_kernel_has_the_counter() {
        assert!(std::fs::read_to_string(FILE).expect(FILE).contains(COUNTER));
    }
}
