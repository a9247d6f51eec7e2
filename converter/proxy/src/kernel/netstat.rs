//! What the kernel counts in this network namespace (proc(5), `net/netstat`).

use std::fs;

use serde::{Deserialize, Serialize};

const FILE: &str = "/proc/thread-self/net/netstat";
const GROUP: &str = "MPTcpExt:";
const SYN_COOKIES: &str = "SyncookiesSent";

/// Counts that tell whether received bytes lie where they belong, and whether senders wait for MPTCP's own timer. They
/// are of everything in the namespace since it was made, not of this process alone.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct MptcpCounters {
    /// Mappings that did not fit those before, after which the subflow was reset (`DSSNotMatching`).
    pub dss_not_matching: u64,
    /// Data whose checksum was wrong (`DataCsumErr`).
    pub data_checksum_errors: u64,
    /// Times that data was sent again because nothing acknowledged it to MPTCP in time (`MPTCPRetrans`).
    pub retransmissions: u64,
}

impl MptcpCounters {
    /// As they are now; all 0 in a kernel without them.
    pub fn now() -> Self {
        fs::read_to_string(FILE).map_or_else(|_| Self::default(), |text| Self::parse(&text))
    }

    /// A name that is not there counts 0.
    fn parse(netstat: &str) -> Self {
        let mut counters = Self::default();
        for (name, number) in group(netstat, GROUP) {
            match name {
                "DSSNotMatching" => counters.dss_not_matching = number,
                "DataCsumErr" => counters.data_checksum_errors = number,
                "MPTCPRetrans" => counters.retransmissions = number,
                _ => {}
            }
        }
        counters
    }

    /// Whether the kernel has met bytes that do not lie where they belong.
    pub fn tell_of_wrong_bytes(&self) -> bool {
        self.dss_not_matching > 0 || self.data_checksum_errors > 0
    }
}

/// SYN cookies that were sent; 0 where the kernel does not say.
pub fn syn_cookies_sent() -> u64 {
    fs::read_to_string(FILE).map_or(0, |text| syn_cookies(&text))
}

fn syn_cookies(netstat: &str) -> u64 {
    group(netstat, "TcpExt:")
        .find(|(name, _)| *name == SYN_COOKIES)
        .map_or(0, |(_, number)| number)
}

/// The names and numbers of a group: it has a line of names, and one of numbers in the same order.
fn group<'t>(netstat: &'t str, group: &'t str) -> impl Iterator<Item = (&'t str, u64)> {
    let mut lines = netstat.lines().filter_map(move |line| line.strip_prefix(group));
    let names = lines.next().unwrap_or_default().split_whitespace();
    let numbers = lines.next().unwrap_or_default().split_whitespace();
    names.zip(numbers.map(|number| number.parse().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHERS: &str = "TcpExt: DSSNotMatching MPTCPRetrans\nTcpExt: 90 91\n";

    #[test]
    fn each_number_is_found_by_its_name_whatever_stands_between() {
        let text = format!(
            "{OTHERS}MPTcpExt: MPTCPRetrans Other DataCsumErr DSSNotMatching\nMPTcpExt: 5 6 7 8\nIpExt: A\nIpExt: 1\n"
        );
        let expected = MptcpCounters {
            dss_not_matching: 8,
            data_checksum_errors: 7,
            retransmissions: 5,
        };
        assert_eq!(MptcpCounters::parse(&text), expected);
    }

    #[test]
    fn what_is_not_there_counts_nothing() {
        let texts = ["", OTHERS, "MPTcpExt: DSSNotMatching\n"];
        for text in texts {
            assert_eq!(MptcpCounters::parse(text), MptcpCounters::default(), "{text}");
        }
        let some = MptcpCounters::parse("MPTcpExt: DSSNotMatching\nMPTcpExt: 3\n");
        assert_eq!(some.retransmissions, 0);
    }

    #[test]
    fn retransmissions_alone_are_no_wrong_bytes() {
        let counters = MptcpCounters {
            retransmissions: 9,
            ..MptcpCounters::default()
        };
        assert!(!counters.tell_of_wrong_bytes());
        for text in ["DSSNotMatching", "DataCsumErr"] {
            let text = format!("MPTcpExt: {text}\nMPTcpExt: 1\n");
            assert!(MptcpCounters::parse(&text).tell_of_wrong_bytes());
        }
    }

    #[test]
    fn a_kernel_with_mptcp_has_all_of_them_by_these_names() {
        let text = fs::read_to_string(FILE).expect("proc");
        if let Some(names) = text.lines().find_map(|line| line.strip_prefix(GROUP)) {
            for name in ["DSSNotMatching", "DataCsumErr", "MPTCPRetrans"] {
                assert!(names.split(' ').any(|known| known == name), "{name}");
            }
        }
    }
    #[test]
    fn syn_cookies_are_found_by_their_name() {
        let text = "TcpExt: SyncookiesRecv SyncookiesSent X\nTcpExt: 1 42 3\nIpExt: A B\nIpExt: 5 6\n";
        assert_eq!(syn_cookies(text), 42);
        assert_eq!(syn_cookies("TcpExt: A\nTcpExt: 1\n"), 0);
        assert_eq!(syn_cookies(""), 0);
        let own = fs::read_to_string(FILE).expect(FILE);
        assert!(own.contains(SYN_COOKIES), "this kernel has the counter");
    }
}
