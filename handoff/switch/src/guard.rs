//! What comes from a back end's hand-off port, or goes there, and that no rule is for: it is dropped, also while no switch
//! runs. A client that heard of a back end's address would answer by a reset, and end its own connection there.
//!
//! Clients that ask a service for explicit congestion notification (RFC 3168 section 6.1.1) are not heard to do so: a
//! connection that has agreed on it cannot be frozen.

use std::io::{self, Write as _};
use std::net::SocketAddrV4;
use std::process::{Command, Stdio};

use tracing::warn;

/// The table for these back ends and services, as nft(8) reads it. It takes the place of the one before. What a rule is for never comes
/// there: tc's program sends it out before netfilter.
pub fn ruleset(back_ends: &[SocketAddrV4], services: &[SocketAddrV4]) -> String {
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

/// Puts it in, to stay there. Raises that nft(8) is missing or refuses.
pub fn guard(back_ends: &[SocketAddrV4], services: &[SocketAddrV4]) -> io::Result<()> {
    let mut nft = Command::new("nft")
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = nft.stdin.take() {
        stdin.write_all(ruleset(back_ends, services).as_bytes())?;
    }
    let status = nft.wait()?;
    if status.success() {
        return Ok(());
    }
    warn!("nft: {status}");
    Err(io::Error::other("nft refuses the table of strays"))
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
        assert!(
            text.starts_with("table ip tributary-switch {}\ndelete table"),
            "{text}"
        );
    }
}
