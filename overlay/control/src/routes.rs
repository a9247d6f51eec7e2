//! The converter's routes out of an ingress's table: pure.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::SocketAddr;

use overlay_paths::Rounds;

use crate::egresses::{Egress, Egresses};
use crate::name::Name;
use crate::values::{Chain, Node, Table};

/// A request may have passed 16 converters, and the ingress's is one of them.
const MOST_CONVERTERS: usize = 15;
/// The best chain, and as many more as a converter has time to try.
const MOST_CHAINS: usize = 3;

/// A routes file for the converter of `own`: for each line of `egresses` the chains to its node, as they should be tried,
/// then `direct`; and where there are several, the same for transfers that are known to be larger than others. Chains by way of nodes that are not among `nodes`, or have no converter, are left out.
pub fn text(
    own: &Name,
    table: Option<&Table>,
    nodes: &BTreeMap<Name, Node>,
    egresses: &Egresses,
) -> String {
    let mut text = match table {
        Some(table) => format!(
            "# Written by the overlay's agent of {own}, by version {} of its table, made {} s after 1970-01-01 UTC.\n",
            table.version, table.made
        ),
        None => format!("# Written by the overlay's agent of {own}, which has no table yet.\n"),
    };
    for egress in egresses.iter() {
        let chains = table.and_then(|table| table.chains.get(&egress.node));
        let chains = chains.map_or(&[][..], Vec::as_slice);
        let mut line = |above: &str, rounds| {
            write!(text, "{}{above} ", egress.servers()).expect("memory");
            for way in ways(own, egress, rounds, chains, nodes) {
                for converter in way {
                    write!(text, " {converter}").expect("memory");
                }
                text.push_str(" or");
            }
            text.push_str(" direct\n");
        };
        line("", egress.rounds);
        for chain in chains.iter().filter(|_| chains.len() > 1) {
            line(&format!(" above {}kB", least_kb(chain)), chain.rounds);
        }
    }
    text
}

/// What a transfer that takes a chain's rounds is larger than, in kilobytes: there are no rounds of another size.
fn least_kb(chain: &Chain) -> u64 {
    Rounds::new(chain.rounds - 1).map_or(0, Rounds::most_bytes) / 1000
}

/// Chains of a table in the order in which to try them with so many rounds: the best one, then those that are best for
/// nearly as many, of two the one for fewer.
pub fn by_preference(chains: &[Chain], rounds: u8) -> Vec<&Chain> {
    let suitable = chains.iter().rposition(|chain| chain.rounds <= rounds);
    let best = suitable.unwrap_or(0);
    let mut places: Vec<usize> = (0..chains.len()).collect();
    places.sort_by_key(|&place| (place.abs_diff(best), place));
    places.into_iter().map(|place| &chains[place]).collect()
}

fn ways(
    own: &Name,
    egress: &Egress,
    rounds: u8,
    chains: &[Chain],
    nodes: &BTreeMap<Name, Node>,
) -> Vec<Vec<SocketAddr>> {
    if egress.node == *own {
        return Vec::new();
    }
    by_preference(chains, rounds)
        .into_iter()
        .filter_map(|chain| converters(chain, &egress.node, nodes))
        .filter(|way| way.len() <= MOST_CONVERTERS)
        .take(MOST_CHAINS)
        .collect()
}

fn converters(
    chain: &Chain,
    egress: &Name,
    nodes: &BTreeMap<Name, Node>,
) -> Option<Vec<SocketAddr>> {
    let passed = chain.through.iter().chain([egress]);
    passed.map(|name| nodes.get(name)?.converter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    fn chain(rounds: u8, through: &[&str]) -> Chain {
        Chain {
            rounds,
            through: through.iter().map(|each| name(each)).collect(),
        }
    }

    fn table(chains: Vec<Chain>) -> Table {
        Table {
            ingress: name("A"),
            version: 7,
            made: 1_800_000_000,
            chains: BTreeMap::from([(name("B"), chains)]),
        }
    }

    /// Each at 10.0.0.N, with a converter; but those in `without`.
    fn nodes(names: &str, without: &str) -> BTreeMap<Name, Node> {
        let each = names.chars().map(|letter| {
            let host = format!("10.0.0.{}", u32::from(letter) - u32::from('A') + 1);
            let converter = (!without.contains(letter)).then(|| format!("{host}:5124"));
            let node = Node {
                address: format!("{host}:5460").parse().unwrap(),
                converter: converter.map(|text| text.parse().unwrap()),
            };
            (name(&letter.to_string()), node)
        });
        each.collect()
    }

    fn all_lines(chains: Vec<Chain>, nodes: &BTreeMap<Name, Node>, egresses: &str) -> Vec<String> {
        let egresses = Egresses::parse(egresses).unwrap();
        let text = text(&name("A"), Some(&table(chains)), nodes, &egresses);
        text.lines().skip(1).map(String::from).collect()
    }

    /// The same without those for transfers of known size.
    fn lines(chains: Vec<Chain>, nodes: &BTreeMap<Name, Node>, egresses: &str) -> Vec<String> {
        let mut lines = all_lines(chains, nodes, egresses);
        lines.retain(|line| !line.contains(" above "));
        lines
    }

    #[test]
    fn the_best_chain_for_the_rounds_then_the_next_best_then_direct() {
        let chains = || vec![chain(1, &[]), chain(3, &["C"]), chain(8, &["C", "D"])];
        let [none, c, cd] = [
            "10.0.0.2:5124",
            "10.0.0.3:5124 10.0.0.2:5124",
            "10.0.0.3:5124 10.0.0.4:5124 10.0.0.2:5124",
        ];
        for (rounds, ways) in [
            (1, [none, c, cd]),
            (2, [none, c, cd]),
            (3, [c, none, cd]),
            (7, [c, none, cd]),
            (8, [cd, c, none]),
            (30, [cd, c, none]),
        ] {
            let expected = format!("192.0.2.0/24  {} or direct", ways.join(" or "));
            let egresses = format!("192.0.2.0/24 B {rounds}");
            assert_eq!(lines(chains(), &nodes("ABCD", ""), &egresses), [expected]);
        }
    }

    #[test]
    fn chains_by_way_of_nodes_that_are_dead_or_have_no_converter_are_left_out() {
        let chains = || vec![chain(1, &[]), chain(2, &["C"]), chain(4, &["D"])];
        let without_d = "192.0.2.0/24  10.0.0.3:5124 10.0.0.2:5124 or 10.0.0.2:5124 or direct";
        for nodes in [nodes("ABC", ""), nodes("ABCD", "D")] {
            assert_eq!(lines(chains(), &nodes, "192.0.2.0/24 B"), [without_d]);
        }
        let direct = "192.0.2.0/24  direct";
        assert_eq!(
            lines(chains(), &nodes("ACD", ""), "192.0.2.0/24 B"),
            [direct]
        );
    }

    #[test]
    fn servers_next_to_the_ingress_or_to_a_node_that_no_chain_leads_to_are_connected_to_directly() {
        let found = lines(
            vec![chain(1, &[])],
            &nodes("ABC", ""),
            "default A\n192.0.2.0/24 C\n",
        );
        assert_eq!(
            found,
            ["0.0.0.0/0  direct", "::/0  direct", "192.0.2.0/24  direct"]
        );
    }

    #[test]
    fn a_port_has_a_line_of_its_own() {
        let chains = vec![chain(1, &[]), chain(5, &["C"])];
        let found = lines(
            chains,
            &nodes("ABC", ""),
            "192.0.2.0/24 B\n192.0.2.0/24 port 22 B 1\n",
        );
        let [none, c] = ["10.0.0.2:5124", "10.0.0.3:5124 10.0.0.2:5124"];
        let expected = [
            format!("192.0.2.0/24  {c} or {none} or direct"),
            format!("192.0.2.0/24 port 22  {none} or {c} or direct"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn transfers_of_known_size_have_the_chain_for_their_rounds_where_there_are_several() {
        let known = nodes("ABCD", "");
        let chains = vec![chain(1, &[]), chain(3, &["C"]), chain(6, &["D"])];
        let found = all_lines(chains, &known, "192.0.2.0/24 B 1\n192.0.2.0/24 port 22 B 1");
        let [none, c, d] = [
            "10.0.0.2:5124",
            "10.0.0.3:5124 10.0.0.2:5124",
            "10.0.0.4:5124 10.0.0.2:5124",
        ];
        let ways =
            [[none, c, d], [none, c, d], [c, none, d], [d, c, none]].map(|ways| ways.join(" or "));
        let mut expected = Vec::new();
        for servers in ["192.0.2.0/24", "192.0.2.0/24 port 22"] {
            // 3 rounds are more than 45 kB, 6 more than 465 kB.
            for (above, ways) in ["", " above 0kB", " above 45kB", " above 465kB"]
                .iter()
                .zip(&ways)
            {
                expected.push(format!("{servers}{above}  {ways} or direct"));
            }
        }
        assert_eq!(found, expected);
        assert_eq!(
            all_lines(vec![chain(1, &[])], &known, "192.0.2.0/24 B").len(),
            1
        );
    }

    #[test]
    fn lines_have_an_end() {
        let all: String = ('A'..='R').collect();
        let between: Vec<String> = ('C'..='R').map(String::from).collect();
        let through: Vec<&str> = between.iter().map(String::as_str).collect();
        let known = nodes(&all, "");
        let passed = |count: usize| {
            let found = lines(
                vec![chain(1, &through[..count])],
                &known,
                "192.0.2.0/24 B 1",
            );
            found[0].matches(":5124").count()
        };
        assert_eq!(passed(14), 15);
        assert_eq!(passed(15), 0);
        let many = (1..=5).zip(&through).map(|(r, each)| chain(r, &[each]));
        let found = lines(many.collect(), &known, "192.0.2.0/24 B");
        assert_eq!(found[0].matches(" or ").count(), 3);
    }

    #[test]
    fn the_first_line_names_the_table() {
        let egresses = Egresses::parse("").unwrap();
        let none = text(&name("A"), None, &BTreeMap::new(), &egresses);
        assert_eq!(
            none,
            "# Written by the overlay's agent of A, which has no table yet.\n"
        );
        let some = text(
            &name("A"),
            Some(&table(Vec::new())),
            &BTreeMap::new(),
            &egresses,
        );
        assert!(some.contains("version 7 of its table, made 1800000000 s"));
    }
}
