//! Routes in a file of their own, which whoever computes them can replace while the converter runs.
//!
//! A line has a network and, behind blanks, the ways there as [`Via`] reads them; `#` begins a comment.

use std::collections::HashMap;
use std::path::Path;

use ipnet::IpNet;

use super::gateway::{Route, Via};
use crate::failure::{Exit, Failure};

/// The routes in the file; a failure exits with 66 if it cannot be read, with 64 if a line is wrong.
pub fn load(path: &Path) -> Result<Vec<Route>, Failure> {
    let name = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::new(Exit::NoInput, format!("{name}: {error}")))?;
    parse(&text).map_err(|wrong| Failure::new(Exit::Usage, format!("{name}:{wrong}")))
}

/// The routes in `text`, one for all networks with the same ways, in no order; or what is wrong with the first line that
/// is, and its number.
fn parse(text: &str) -> Result<Vec<Route>, String> {
    let mut by_ways: HashMap<&str, Route> = HashMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        let meant = line.split('#').next().unwrap_or_default().trim();
        if meant.is_empty() {
            continue;
        }
        let wrong = |what: &str, accepted| format!("{number}: {what}: accepted: {accepted}");
        let Some((network, ways)) = meant.split_once(char::is_whitespace) else {
            let accepted = "a network and a next converter, such as 192.0.2.0/24 10.0.0.9:3129";
            return Err(wrong(meant, accepted));
        };
        let ways = ways.trim_start();
        let accepted = "a network with its prefix length, such as 192.0.2.0/24";
        let network: IpNet = network.parse().map_err(|_| wrong(network, accepted))?;
        if let Some(route) = by_ways.get_mut(ways) {
            route.to.push(network);
        } else {
            let via: Via = ways.parse().map_err(|accepted| wrong(ways, accepted))?;
            let to = vec![network];
            by_ways.insert(ways, Route { to, via });
        }
    }
    Ok(by_ways.into_values().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_network_and_its_ways() {
        let text = "# of the controller\n\n10.0.0.0/8\t192.0.2.1:3129 # east\n2001:db8::/32 direct\n\
            ::/0  [2001:db8::1]:3129 192.0.2.1:3129 or direct\n192.0.2.0/24 direct\n";
        let routes = parse(text).expect(text);
        let address = |text: &str| text.parse().expect("address");
        let network = |text: &str| text.parse().expect("network");
        let (east, far) = (address("192.0.2.1:3129"), address("[2001:db8::1]:3129"));
        let expected = [
            (vec![network("10.0.0.0/8")], vec![vec![east]]),
            (
                vec![network("2001:db8::/32"), network("192.0.2.0/24")],
                vec![vec![]],
            ),
            (vec![network("::/0")], vec![vec![far, east], vec![]]),
        ];
        for (to, ways) in expected {
            let route = routes.iter().find(|route| route.to == to);
            assert_eq!(route.map(|route| &route.via.0), Some(&ways), "{to:?}");
        }
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
                ["1: ", "direct now", "or \"direct\""],
            ),
            (
                "10.0.0.0/8 192.0.2.1:1 or",
                ["1: ", "192.0.2.1:1 or", "the next best way"],
            ),
            (
                "10.0.0.0/8 192.0.2.1:1 192.0.2.2:1 192.0.2.1:1",
                ["1: ", "192.0.2.2:1", "each once by"],
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
