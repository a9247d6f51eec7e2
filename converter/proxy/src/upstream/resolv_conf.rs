//! resolv.conf(5). Pure.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6};

const PORT: u16 = 53;
const KEYWORDS: [&str; 4] = ["domain", "search", "sortlist", "lookup"];
/// None of them changes how the converter asks, which has times of its own and no search list.
const OPTIONS: [&str; 18] = [
    "attempts",
    "debug",
    "edns0",
    "inet6",
    "ip6-bytestring",
    "ip6-dotint",
    "ndots",
    "no-aaaa",
    "no-check-names",
    "no-ip6-dotint",
    "no-reload",
    "no-tld-query",
    "rotate",
    "single-request",
    "single-request-reopen",
    "timeout",
    "trust-ad",
    "use-vc",
];

/// What the file says of name servers.
#[derive(Debug, PartialEq, Eq)]
pub struct ResolvConf {
    /// In the order in which they are asked: that of this machine where the file has none.
    pub servers: Vec<SocketAddr>,
    /// What was not understood, or is for nobody: lines with their numbers.
    pub ignored: Vec<String>,
}

/// Reads the file; `number` has the number of the interface of this name, by which a link-local server is reached.
pub fn parse(file: &[u8], number: impl Fn(&str) -> Option<u32>) -> ResolvConf {
    let mut conf = ResolvConf {
        servers: Vec::new(),
        ignored: Vec::new(),
    };
    for (place, line) in String::from_utf8_lossy(file).lines().enumerate() {
        let ignored = of_line(line, &number, &mut conf.servers);
        let ignored = ignored.into_iter();
        let place = place + 1;
        conf.ignored.extend(ignored.map(|why| format!("line {place}: {why}")));
    }
    if conf.servers.is_empty() {
        conf.servers.push((IpAddr::from(Ipv4Addr::LOCALHOST), PORT).into());
    }
    conf
}

/// Adds the name server of a line; what of it is ignored.
fn of_line(line: &str, number: impl Fn(&str) -> Option<u32>, servers: &mut Vec<SocketAddr>) -> Vec<String> {
    let mut words = line.split_whitespace();
    match words.next() {
        None => Vec::new(),
        Some(word) if word.starts_with(['#', ';']) || KEYWORDS.contains(&word) => Vec::new(),
        Some("options") => words
            .filter(|option| !OPTIONS.contains(&option.split(':').next().unwrap_or(option)))
            .map(|option| format!("the option {option} is unknown"))
            .collect(),
        Some("nameserver") => {
            let address = words.next().unwrap_or_default();
            let mut ignored = Vec::new();
            match server(address, number) {
                Ok(server) if servers.contains(&server) => {}
                Ok(server) => servers.push(server),
                Err(why) => ignored.push(why),
            }
            if let Some(more) = words.next().filter(|word| !word.starts_with(['#', ';'])) {
                ignored.push(format!("{more} behind the one name server of a line"));
            }
            ignored
        }
        Some(word) => vec![format!("{word} is unknown")],
    }
}

fn server(text: &str, number: impl Fn(&str) -> Option<u32>) -> Result<SocketAddr, String> {
    let no_address = |_| format!("the name server {text} is no address");
    let Some((address, zone)) = text.split_once('%') else {
        let address: IpAddr = text.parse().map_err(no_address)?;
        return Ok((address, PORT).into());
    };
    let address = address.parse().map_err(no_address)?;
    let zone = zone.parse().ok().or_else(|| number(zone));
    let zone = zone.ok_or_else(|| format!("the name server {text} is at no interface"))?;
    Ok(SocketAddrV6::new(address, PORT, 0, zone).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(file: &[u8]) -> (Vec<String>, Vec<String>) {
        let conf = parse(file, |name| (name == "eth0").then_some(7));
        let text = conf.servers.iter().map(ToString::to_string);
        (text.collect(), conf.ignored)
    }

    #[test]
    fn what_is_unknown_is_ignored_and_named() {
        let file = b"; caf\xe9\n\
            # nameserver 192.0.2.9\n\
            search a.test b.test\n\
            options edns0 retrans:1 ndots:2\n\
            nameserver 192.0.2.1 192.0.2.2\n\
            nameserver\t2001:db8::1 # the second one\n\
            nameservers 192.0.2.3\n\
            nameserver dns.test\n\
            nameserver fe80::1%eth0\n\
            nameserver fe80::1%3\n\
            nameserver fe80::1%eth9\n\
            nameserver\r\n\
            nameserver 192.0.2.1\n";
        let (servers, ignored) = parsed(file);
        let expected = ["192.0.2.1:53", "[2001:db8::1]:53", "[fe80::1%7]:53", "[fe80::1%3]:53"];
        assert_eq!(servers, expected);
        let expected = [
            "line 4: the option retrans:1 is unknown",
            "line 5: 192.0.2.2 behind the one name server of a line",
            "line 7: nameservers is unknown",
            "line 8: the name server dns.test is no address",
            "line 11: the name server fe80::1%eth9 is at no interface",
            "line 12: the name server  is no address",
        ];
        assert_eq!(ignored, expected);
    }

    #[test]
    fn without_a_server_this_machines_own_is_asked() {
        for file in [&b""[..], b"search a.test\n", b"nameserver nowhere\n"] {
            assert_eq!(parsed(file).0, ["127.0.0.1:53"]);
        }
    }
}
