//! Routes in a file of their own, which whoever computes them can replace while the converter runs.
//!
//! A line has a network and, behind blanks, the next converter or `direct`; `#` begins a comment.

use std::path::Path;

use ipnet::IpNet;

use super::gateway::Route;
use crate::failure::{Exit, Failure};

/// The routes in the file; a failure exits with 66 if it cannot be read, with 64 if a line is wrong.
pub fn load(path: &Path) -> Result<Vec<Route>, Failure> {
    let name = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::new(Exit::NoInput, format!("{name}: {error}")))?;
    parse(&text).map_err(|wrong| Failure::new(Exit::Usage, format!("{name}:{wrong}")))
}

/// The routes in `text`, or what is wrong with the first line that is, and its number.
fn parse(text: &str) -> Result<Vec<Route>, String> {
    let mut routes = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let meant = line.split('#').next().unwrap_or_default();
        let words: Vec<_> = meant.split_whitespace().collect();
        let wrong = |what: &str, accepted| format!("{number}: {what}: accepted: {accepted}");
        match words[..] {
            [] => {}
            [network, via] => routes.push(Route {
                to: vec![network.parse::<IpNet>().map_err(|_| {
                    wrong(
                        network,
                        "a network with its prefix length, such as 192.0.2.0/24",
                    )
                })?],
                via: via.parse().map_err(|accepted| wrong(via, accepted))?,
            }),
            _ => {
                let accepted = "a network and a next converter, such as 192.0.2.0/24 10.0.0.9:3129";
                return Err(wrong(meant.trim(), accepted));
            }
        }
    }
    Ok(routes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_network_and_what_is_next() {
        let text = "# of the controller\n\n10.0.0.0/8\t192.0.2.1:3129 # east\n2001:db8::/32 direct\n::/0 [2001:db8::1]:3129";
        let routes = parse(text).expect(text);
        let vias: Vec<_> = routes.iter().map(|route| route.via.address()).collect();
        assert_eq!(
            vias,
            [
                Some("192.0.2.1:3129".parse().expect("address")),
                None,
                Some("[2001:db8::1]:3129".parse().expect("address"))
            ]
        );
        assert_eq!(routes[1].to, ["2001:db8::/32".parse().expect("network")]);
    }

    #[test]
    fn a_line_that_is_wrong_is_named() {
        for (text, parts) in [
            (
                "10.0.0.0/8 direct\n10.0.0.0/33 direct",
                ["2: ", "10.0.0.0/33", "prefix length"],
            ),
            ("10.0.0.0/8", ["1: ", "10.0.0.0/8", "a next converter"]),
            ("10.0.0.0/8 192.0.2.1", ["1: ", "192.0.2.1", "its port"]),
            (
                "10.0.0.0/8 direct now",
                ["1: ", "direct now", "a next converter"],
            ),
        ] {
            let wrong = parse(text).expect_err(text);
            assert!(
                parts.iter().all(|part| wrong.contains(part)),
                "{text:?} gives {wrong:?}"
            );
        }
    }
}
