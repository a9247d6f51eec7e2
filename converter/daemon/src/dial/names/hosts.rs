//! hosts(5). Pure.

use std::collections::HashMap;
use std::net::IpAddr;

/// The names of /etc/hosts with their addresses. Whoever is here is asked nowhere else for, in either family.
#[derive(Debug, Default)]
pub struct Hosts(HashMap<Box<str>, Vec<IpAddr>>);

impl Hosts {
    /// Reads the file; a line that is no address with names spoils nothing else.
    pub fn parse(file: &[u8]) -> Self {
        let mut hosts = Self::default();
        for line in file.split(|byte| *byte == b'\n') {
            let line = line.split(|byte| *byte == b'#').next().unwrap_or(line);
            hosts.add(std::str::from_utf8(line).unwrap_or_default());
        }
        hosts
    }

    fn add(&mut self, line: &str) {
        let mut words = line.trim_start_matches('\u{feff}').split_whitespace();
        let Some(Ok(address)) = words.next().map(str::parse) else {
            return;
        };
        for name in words {
            let addresses = self.0.entry(key(name).into()).or_default();
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
    }

    /// The addresses of `name`, if it is here.
    pub fn of(&self, name: &str) -> Option<&[IpAddr]> {
        self.0.get(key(name).as_str()).map(Vec::as_slice)
    }
}

fn key(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_cannot_be_read_spoils_itself_alone() {
        let file = b"\xef\xbb\xbf192.0.2.1 One one.test\r\n\
            # caf\xe9\n\
            192.0.2.2 two # caf\xe9\n\
            192.0.2.9 caf\xe9 three\n\
            not-an-address four\n\
            fe80::1%eth0 five\n\
            2001:db8::2\ttwo. a_b\n\
            0.0.0.0 blocked\n\
            192.0.2.2 two";
        let hosts = Hosts::parse(file);
        for (name, expected) in [
            ("one", Some(&["192.0.2.1"][..])),
            ("ONE.test.", Some(&["192.0.2.1"])),
            ("two", Some(&["192.0.2.2", "2001:db8::2"])),
            ("a_b", Some(&["2001:db8::2"])),
            ("blocked", Some(&["0.0.0.0"])),
            ("three", None),
            ("four", None),
            ("five", None),
            ("", None),
        ] {
            let expected: Option<Vec<IpAddr>> =
                expected.map(|all| all.iter().map(|each| each.parse().expect("one")).collect());
            assert_eq!(hosts.of(name), expected.as_deref(), "{name}");
        }
    }
}
