//! The operator's file: the names, and the clients of each ingress.

use std::collections::BTreeSet;
use std::net::IpAddr;

use hickory_server::proto::rr::Name as Domain;
use ipnet::IpNet;
use overlay_control::name::Name;
use serde::Deserialize;

/// More than clients should keep using a dead ingress.
const MAX_TTL: u32 = 3600;

#[derive(Clone, Debug)]
pub struct Settings {
    /// Fully qualified.
    pub zone: Domain,
    /// The zone's name server, fully qualified.
    pub server: Domain,
    /// How long answers may be cached, in seconds.
    pub ttl: u32,
    /// The names that are answered, fully qualified.
    pub names: BTreeSet<Domain>,
    /// In the file's order: the first live one is for clients of no network.
    pub ingresses: Vec<Ingress>,
}

/// A node that clients connect to.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Ingress {
    /// Its name in the overlay.
    pub node: Name,
    pub addresses: Vec<IpAddr>,
    /// The networks of its clients; the longest prefix counts.
    #[serde(default)]
    pub clients: Vec<IpNet>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    zone: String,
    server: String,
    #[serde(default = "short")]
    ttl: u32,
    names: Vec<String>,
    ingress: Vec<Ingress>,
}

fn short() -> u32 {
    20
}

impl Settings {
    /// Parses `text` (TOML). The error is one line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|error| first_line(text, &error))?;
        let zone = domain("zone", &file.zone)?;
        let within = |name: &String| match name.as_str() {
            "@" => Ok(zone.clone()),
            label => domain("names", &format!("{label}.{}", file.zone.trim_end_matches('.'))),
        };
        let settings = Self {
            names: file.names.iter().map(within).collect::<Result<_, _>>()?,
            server: domain("server", &file.server)?,
            ttl: file.ttl,
            ingresses: file.ingress,
            zone,
        };
        settings.check()?;
        Ok(settings)
    }

    fn check(&self) -> Result<(), String> {
        if self.ttl > MAX_TTL {
            return Err(format!("ttl = {}: accepted: seconds, at most {MAX_TTL}", self.ttl));
        }
        if self.names.is_empty() {
            return Err("names: accepted: names in the zone, such as \"www\", or \"@\" for the zone itself".into());
        }
        if self.zone.zone_of(&self.server) && !self.names.contains(&self.server) {
            return Err(format!(
                "server: {}: accepted: a name outside of the zone, or one of its names: others have no address",
                self.server
            ));
        }
        if self.ingresses.is_empty() {
            return Err("ingress: accepted: a table [[ingress]] for each, at least one".into());
        }
        let mut nodes = BTreeSet::new();
        let mut networks = BTreeSet::new();
        for ingress in &self.ingresses {
            if ingress.addresses.is_empty() {
                return Err(format!("ingress {}: addresses: accepted: at least one", ingress.node));
            }
            if !nodes.insert(&ingress.node) {
                return Err(format!("ingress {}: accepted: each node once", ingress.node));
            }
            if let Some(twice) = ingress.clients.iter().find(|network| !networks.insert(network.trunc())) {
                return Err(format!(
                    "ingress {}: clients: {twice}: accepted: each network once",
                    ingress.node
                ));
            }
        }
        Ok(())
    }
}

fn domain(key: &str, text: &str) -> Result<Domain, String> {
    let refusal = || format!("{key}: {text:?}: accepted: a name such as \"fast.example\"");
    let mut name = Domain::from_ascii(text).map_err(|_| refusal())?;
    name.set_fqdn(true);
    if name.is_root() || text.is_empty() {
        return Err(refusal());
    }
    Ok(name.to_lowercase())
}

/// The first line of the parser's message.
fn first_line(text: &str, error: &toml::de::Error) -> String {
    let line = error
        .span()
        .map_or(1, |span| 1 + text[..span.start].matches('\n').count());
    format!("line {line}: {}", error.message().replace('\n', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
        zone = "fast.example"
        server = "ns1.example"
        names = ["www", "@"]
        [[ingress]]
        node = "london"
        addresses = ["192.0.2.1", "2001:db8::1"]
        clients = ["198.51.100.0/24"]
    "#;

    #[test]
    fn names_are_those_in_the_zone() {
        let settings = Settings::parse(GOOD).unwrap();
        let names: Vec<String> = settings.names.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["fast.example.", "www.fast.example."]);
        assert_eq!(settings.ttl, 20);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let cases = r#"
            zone = "fast.example" => zone = "." => zone: ".": accepted
            server = "ns1.example" =>  => line 1: missing field `server`
            ["www", "@"] => [] => names: accepted: names in the zone
            "london" => "a/b" => line 6: "a/b" is no name
            ["192.0.2.1", "2001:db8::1"] => [] => ingress london: addresses: accepted: at least one
            192.0.2.1 => 192.0.2 => line 7: invalid IP address syntax
            198.51.100.0/24 => 198.51.100.0/33 => line 8:
            ["198.51.100.0/24"] => ["10.1.0.0/16", "10.1.2.3/16"] => clients: 10.1.2.3/16: accepted: each network once
            server = => ttl = 4000\nserver = => ttl = 4000: accepted: seconds, at most 3600
            server = => colour = 1\nserver = => line 3: unknown field `colour`
        "#;
        for case in cases.trim().lines() {
            let mut parts = case.trim().split(" => ");
            let [was, is, complaint] = [(); 3].map(|()| parts.next().unwrap().trim());
            let text = GOOD.replace(was, &is.replace(r"\n", "\n"));
            let refusal = Settings::parse(&text).unwrap_err();
            assert!(
                refusal.contains(complaint) && !refusal.contains('\n'),
                "{is}: {refusal}"
            );
        }
        let within = |names| {
            let text = GOOD.replace("ns1.example", "NS1.fast.example");
            Settings::parse(&text.replace("[\"www\", \"@\"]", names))
        };
        let refusal = within("[\"www\"]").unwrap_err();
        assert!(
            refusal.starts_with("server: ns1.fast.example.: accepted: a name outside"),
            "{refusal}"
        );
        assert!(within("[\"www\", \"ns1\"]").is_ok());
        let twice = format!("{GOOD}\n[[ingress]]\nnode = \"london\"\naddresses = [\"192.0.2.2\"]");
        assert_eq!(
            Settings::parse(&twice).unwrap_err(),
            "ingress london: accepted: each node once"
        );
    }
}
