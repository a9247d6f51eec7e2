//! The nft table that drops packets from and to hand-off ports without a rule, also while no switch runs. A client that
//! received a packet from a back end's own address would answer by a reset, and end its connection there.
//!
//! It also removes the request for explicit congestion notification from clients' SYNs (RFC 3168 section 6.1.1):
//! connections that use it cannot be detached.

use std::io::{self, Write as _};
use std::net::SocketAddrV4;
use std::process::{Command, Stdio};

use tracing::warn;

/// The table, as text for nft(8).
#[derive(Clone, Debug)]
pub struct Guard(String);

impl Guard {
    pub fn new(back_ends: &[SocketAddrV4], services: &[SocketAddrV4]) -> Self {
        Self(ruleset(back_ends, services))
    }

    /// Installs the table, which stays. Fails if nft(8) is missing or refuses.
    pub fn install(&self) -> io::Result<()> {
        let mut nft = Command::new("nft").args(["-f", "-"]).stdin(Stdio::piped()).spawn()?;
        if let Some(mut stdin) = nft.stdin.take() {
            stdin.write_all(self.0.as_bytes())?;
        }
        let status = nft.wait()?;
        if status.success() {
            return Ok(());
        }
        warn!("nft: {status}");
        Err(io::Error::other("nft refuses the table of strays"))
    }

    /// Installs the table again if somebody has removed it, or its rules (`nft flush ruleset`).
    pub fn renew(&self) {
        if is_installed() {
            return;
        }
        match self.install() {
            Ok(()) => warn!("somebody removed it: the table of strays is installed again"),
            Err(error) => warn!("somebody removed the table of strays: {error}"),
        }
    }
}

fn is_installed() -> bool {
    let listed = Command::new("nft")
        .args(["--terse", "list", "table", "ip", "tributary-switch"])
        .stderr(Stdio::null())
        .output();
    let has_rules = |text: &[u8]| String::from_utf8_lossy(text).contains("@back-ends");
    listed.is_ok_and(|listed| has_rules(&listed.stdout))
}

/// Replaces the previous table. Packets with a rule never get here: the program for tc redirects them before netfilter.
fn ruleset(back_ends: &[SocketAddrV4], services: &[SocketAddrV4]) -> String {
    let (back_ends, services) = (elements(back_ends), elements(services));
    format!(
        "table ip tributary-switch {{}}
delete table ip tributary-switch
table ip tributary-switch {{
    set back-ends {{
        type ipv4_addr . inet_service
        elements = {{ {back_ends} }}
    }}
    set services {{
        type ipv4_addr . inet_service
        elements = {{ {services} }}
    }}
    chain strays {{
        type filter hook prerouting priority raw
        ip saddr . tcp sport @back-ends counter drop
        ip daddr . tcp dport @back-ends counter drop
        ip daddr . tcp dport @services tcp flags & (fin | syn | rst | ack) == syn tcp flags set syn
    }}
}}
"
    )
}

fn elements(ends: &[SocketAddrV4]) -> String {
    let element = |end: &SocketAddrV4| format!("{} . {}", end.ip(), end.port());
    let mut elements: Vec<_> = ends.iter().map(element).collect();
    elements.sort();
    elements.dedup();
    elements.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_back_ends_are_in_the_table_in_order() {
        let ends = ["10.0.2.2:7400", "10.0.2.1:7400"].map(|end| end.parse().expect("an address"));
        let text = ruleset(&ends, &ends[..1]);
        assert!(text.contains("elements = { 10.0.2.2 . 7400 }"), "{text}");
        assert!(
            text.contains("elements = { 10.0.2.1 . 7400, 10.0.2.2 . 7400 }"),
            "{text}"
        );
        assert!(text.starts_with("table ip tributary-switch {}\ndelete table"), "{text}");
    }
}
