//! The converter's routes out of an ingress's table: pure.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::SocketAddr;

use overlay_paths::Rounds;

use crate::egresses::{Egress, Egresses};
use crate::exits::{self, in_order};
use crate::name::Name;
use crate::values::{Chain, Exit, Node, Table};

/// A request may have passed 16 converters, and the ingress's is one of them.
const MOST_CONVERTERS: usize = 15;
/// The best chain, and as many more as a converter has time to try.
const MOST_CHAINS: usize = 3;

/// A routes file for the converter of `own`: for each line of `egresses` the chains to its node, as they should be tried,
/// then `direct`; and where there are several, the same for transfers that are known to be larger than others. Of several
/// nodes the measured one comes first, else the first one named that a chain leads to. Chains by way of nodes that are not
/// among `nodes`, or have no converter, are left out.
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
    let known = Known { own, table, nodes };
    for egress in egresses.iter() {
        let mut line = |above: &str, rounds| {
            write!(text, "{}{above} ", egress.servers()).expect("memory");
            for way in known.ways(egress, rounds) {
                for converter in way {
                    write!(text, " {converter}").expect("memory");
                }
                text.push_str(" or");
            }
            text.push_str(" direct\n");
        };
        line("", egress.rounds);
        let steps = known.steps(egress);
        for &rounds in steps.iter().filter(|_| steps.len() > 1) {
            line(&format!(" above {}kB", least_kb(rounds)), rounds);
        }
    }
    text
}

/// What a transfer that takes as many rounds is larger than, in kilobytes: there are no rounds of another size.
fn least_kb(rounds: u8) -> u64 {
    Rounds::new(rounds - 1).map_or(0, Rounds::most_bytes) / 1000
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

/// What an ingress goes by.
struct Known<'a> {
    own: &'a Name,
    table: Option<&'a Table>,
    nodes: &'a BTreeMap<Name, Node>,
}

impl<'a> Known<'a> {
    /// The converters to pass for so many rounds, as they should be tried before the direct way. Of the nodes behind the
    /// first one that is reached one chain each, so that the death of a node costs no connection.
    fn ways(&self, egress: &Egress, rounds: u8) -> Vec<Vec<SocketAddr>> {
        let mut found: Vec<Vec<SocketAddr>> = Vec::new();
        let nodes = in_order(egress, self.exit(egress, rounds));
        for node in nodes.into_iter().take_while(|node| *node != self.own) {
            let most = if found.is_empty() {
                MOST_CHAINS - egress.others.len().min(1)
            } else {
                1
            };
            let ways = self.to(egress, node, rounds).into_iter();
            let ways = ways.filter(|way| way.len() <= MOST_CONVERTERS);
            found.extend(ways.take(most));
        }
        found.truncate(MOST_CHAINS);
        found
    }

    /// All ways to a node, the best one first: as its exit says, then by its chains.
    fn to(&self, egress: &Egress, node: &Name, rounds: u8) -> Vec<Vec<SocketAddr>> {
        let exit = self.exit(egress, rounds);
        let measured = exit.filter(|exit| exit.node == *node);
        let measured = measured.map(|exit| exit.through.as_slice());
        let chains = by_preference(self.chains(node), rounds).into_iter();
        let others = chains.map(|chain| chain.through.as_slice());
        let others = others.filter(|through| measured.is_none_or(|first| first != *through));
        let ways = measured.into_iter().chain(others);
        ways.filter_map(|through| converters(through, node, self.nodes))
            .collect()
    }

    /// The rounds from which on ways differ.
    fn steps(&self, egress: &Egress) -> Vec<u8> {
        let exits = self.table.map_or(&[][..], |table| table.exits_of(egress));
        if !exits.is_empty() {
            return exits.iter().map(|exit| exit.rounds).collect();
        }
        let reached = |node: &&Name| *node == self.own || !self.to(egress, node, 1).is_empty();
        let node = egress.candidates().find(reached).unwrap_or(&egress.node);
        self.chains(node).iter().map(|chain| chain.rounds).collect()
    }

    fn exit(&self, egress: &Egress, rounds: u8) -> Option<&'a Exit> {
        exits::at(self.table?.exits_of(egress), rounds)
    }

    fn chains(&self, node: &Name) -> &'a [Chain] {
        let chains = self.table.and_then(|table| table.chains.get(node));
        chains.map_or(&[], Vec::as_slice)
    }
}

fn converters(
    through: &[Name],
    egress: &Name,
    nodes: &BTreeMap<Name, Node>,
) -> Option<Vec<SocketAddr>> {
    let passed = through.iter().chain([egress]);
    passed.map(|name| nodes.get(name)?.converter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::Exits;

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
            exits: Vec::new(),
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

    /// To 192.0.2.0/24 of B, C or A: from so many rounds on by this node, by way of those.
    fn lines_of_several(
        exits: &[(u8, &str, &[&str])],
        nodes: &BTreeMap<Name, Node>,
    ) -> Vec<String> {
        let best = exits.iter().map(|(rounds, node, through)| Exit {
            rounds: *rounds,
            node: name(node),
            through: chain(1, through).through,
        });
        let mut table = table(vec![chain(1, &[]), chain(3, &["C"])]);
        let to_c = vec![chain(1, &[]), chain(2, &["B"]), chain(6, &["B", "D"])];
        table.chains.insert(name("C"), to_c);
        let exits = Exits {
            to: "192.0.2.0/24".parse().unwrap(),
            port: None,
            best: best.collect(),
        };
        table.exits = vec![exits];
        let egresses = Egresses::parse("192.0.2.0/24 B|C|A\n").unwrap();
        let text = text(&name("A"), Some(&table), nodes, &egresses);
        let lines = text.lines().skip(1);
        lines
            .map(|line| {
                line.replace("192.0.2.0/24", "")
                    .replace("10.0.0.", "")
                    .replace(":5124", "")
            })
            .collect()
    }

    #[test]
    fn of_several_nodes_the_measured_one_is_tried_first_for_each_size_then_the_others() {
        let all = nodes("ABCD", "");
        let exits: [(u8, &str, &[&str]); 2] = [(1, "C", &["D"]), (4, "B", &[])];
        // B is at 2, C at 3, D at 4; A itself is what "direct" means.
        assert_eq!(
            lines_of_several(&exits, &all),
            [
                "  2 or 3 2 or 2 3 or direct",
                " above 0kB  4 3 or 3 or 2 or direct",
                " above 105kB  2 or 3 2 or 2 3 or direct",
            ]
        );
        let without_c = nodes("ABD", "");
        let alone = [
            "  2 or direct",
            " above 0kB  2 or direct",
            " above 105kB  2 or direct",
        ];
        assert_eq!(lines_of_several(&exits, &without_c), alone);
        assert_eq!(lines_of_several(&[(1, "A", &[])], &all), ["  direct"]);
    }

    #[test]
    fn of_several_nodes_that_nobody_measured_the_first_is_taken_that_a_chain_leads_to() {
        let [first, second] = ["  3 2 or 2 or 2 3 or direct", "  3 or direct"];
        let found = lines_of_several(&[], &nodes("ABC", ""));
        assert_eq!(found[0], first);
        assert_eq!(
            found[1..],
            [
                " above 0kB  2 or 3 2 or 3 or direct",
                " above 45kB  3 2 or 2 or 2 3 or direct"
            ]
        );
        assert_eq!(lines_of_several(&[], &nodes("ABC", "B"))[0], second);
        assert_eq!(lines_of_several(&[], &nodes("A", ""))[0], "  direct");
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
