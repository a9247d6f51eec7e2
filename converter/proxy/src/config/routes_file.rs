//! Routes in a file of their own, which whoever computes them can replace while the converter runs.
//!
//! A line has a network; `port` and a port if it is for that one alone; `above` and a size if it is for transfers alone that
//! are known to be larger; and the ways there as [`super::Via`] reads them. `#` begins a comment.

use std::collections::HashMap;
use std::path::Path;

use ipnet::IpNet;
use tributary_program::{Exit, Failure, read_text};

use super::gateway::RouteSettings;
use super::units;

/// The routes in the file; a failure exits with 66 if it cannot be read, with 64 if a line is wrong.
pub fn load(path: &Path) -> Result<Vec<RouteSettings>, Failure> {
    let text = read_text(path)?;
    parse(&text).map_err(|wrong| Failure::new(Exit::Usage, format!("{}:{wrong}", path.display())))
}

/// The routes in `text`, one for all networks with the same port, size and ways, in no order; or what is wrong with the first
/// line that is, and its number.
fn parse(text: &str) -> Result<Vec<RouteSettings>, String> {
    let mut by_rest: HashMap<&str, RouteSettings> = HashMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        let meant = line.split('#').next().unwrap_or_default().trim();
        if meant.is_empty() {
            continue;
        }
        let invalid = |what: &str, accepted| format!("{number}: {what}: accepted: {accepted}");
        let Some((network, rest)) = meant.split_once(char::is_whitespace) else {
            let accepted = "a network and a next converter, such as 192.0.2.0/24 10.0.0.9:3129";
            return Err(invalid(meant, accepted));
        };
        let rest = rest.trim_start();
        let accepted = "a network with its prefix length, such as 192.0.2.0/24";
        let network: IpNet = network.parse().map_err(|_| invalid(network, accepted))?;
        if let Some(route) = by_rest.get_mut(rest) {
            route.to.push(network);
        } else {
            let route = route(network, rest).map_err(|accepted| invalid(rest, accepted))?;
            by_rest.insert(rest, route);
        }
    }
    Ok(by_rest.into_values().collect())
}

/// A route to `network`, of what its line says behind it; or what is accepted there.
fn route(network: IpNet, rest: &str) -> Result<RouteSettings, &'static str> {
    let (port, rest) = match value_of("port", rest) {
        Some((port, rest)) => (Some(port.parse().map_err(|_| "a port from 1 to 65535")?), rest),
        None => (None, rest),
    };
    let (above, ways) = match value_of("above", rest) {
        Some((size, ways)) => (Some(units::bytes(size).ok_or("a size, such as 45kB")?), ways),
        None => (None, rest),
    };
    Ok(RouteSettings {
        to: vec![network],
        port,
        above,
        via: ways.parse()?,
    })
}

/// The word behind `key`, and what follows; `None` if `text` begins with another word.
fn value_of<'t>(key: &str, text: &'t str) -> Option<(&'t str, &'t str)> {
    let (first, rest) = first_word(text);
    (first == key).then(|| first_word(rest))
}

fn first_word(text: &str) -> (&str, &str) {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (word, rest.trim_start())
}

#[cfg(test)]
mod tests {
    use std::num::NonZero;

    use super::*;
    use crate::config::cases;

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
            (vec![network("2001:db8::/32"), network("192.0.2.0/24")], vec![vec![]]),
            (vec![network("::/0")], vec![vec![far, east], vec![]]),
        ];
        for (to, ways) in expected {
            let route = routes.iter().find(|route| route.to == to);
            assert_eq!(route.map(|route| &route.via.0), Some(&ways), "{to:?}");
        }
    }

    #[test]
    fn a_line_may_be_for_a_port_and_a_size() {
        let text = "10.0.0.0/8 port 443 direct\n10.1.0.0/16\tport 443 direct # the same\n10.0.0.0/8 direct\n\
            10.0.0.0/8  above  45kB direct\n10.0.0.0/8 port 443 above 0B direct\n";
        let routes = parse(text).expect(text);
        let mut found: Vec<_> = routes
            .iter()
            .map(|route| (route.port.map(NonZero::get), route.above, route.to.len()))
            .collect();
        found.sort_unstable();
        let expected = [
            (None, None, 1),
            (None, Some(45_000), 1),
            (Some(443), None, 2),
            (Some(443), Some(0), 1),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_line_that_is_wrong_is_named() {
        for (text, parts) in cases(
            r#"
            10.0.0.0/8 direct\n10.0.0.0/33 direct => 2:  | 10.0.0.0/33 | prefix length
            10.0.0.0/8 => 1:  | 10.0.0.0/8 | a next converter
            10.0.0.0/8 192.0.2.1 => 1:  | 192.0.2.1 | its port
            10.0.0.0/8 direct now => 1:  | direct now | or "direct"
            10.0.0.0/8 192.0.2.1:1 or => 1:  | 192.0.2.1:1 or | the next best way
            10.0.0.0/8 port 0 direct => 1:  | port 0 direct | 1 to 65535
            10.0.0.0/8 port direct => 1:  | port direct | 1 to 65535
            10.0.0.0/8 above 45 direct => 1:  | above 45 direct | such as 45kB
            10.0.0.0/8 port 443 => 1:  | port 443 | "direct"
            10.0.0.0/8 192.0.2.1:1 192.0.2.2:1 192.0.2.1:1 => 1:  | 192.0.2.2:1 | each once by
            "#,
        ) {
            let wrong = parse(&text).expect_err(&text);
            assert!(
                parts.iter().all(|part| wrong.contains(part)),
                "{text:?} gives {wrong:?}"
            );
        }
    }
}
