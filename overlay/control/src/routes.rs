//! The converter's routes, from an ingress's table. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::net::SocketAddr;

use overlay_paths::Rounds;

use crate::egress_choice::{self, in_order};
use crate::egresses::{Egress, Egresses};
use crate::name::Name;
use crate::schema::{Chain, EgressChoice, Node, Table};

/// A request may pass 16 converters including the ingress's.
const MAX_CONVERTERS: usize = 15;
/// As many chains as a converter has time to try.
const MAX_CHAINS: usize = 3;

/// The routes file for the converter of `own`, at its address if it has any: for each line of `egresses` the chains to its node in the order in which to
/// try them, then `direct`; where they differ by size, also those for transfers known to be larger. Of several nodes the
/// measured choice comes first, otherwise the first one that a chain leads to. Chains through nodes that are not in
/// `nodes`, or have no converter, are left out, and those that come back to a converter: for one of these the converter
/// would refuse all routes.
pub fn text(
    (own, at): (&Name, Option<SocketAddr>),
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
    let routes = RouteTable { own, at, table, nodes };
    for egress in egresses.iter() {
        let mut line = |above: &str, rounds| {
            write!(text, "{}{above} ", egress.servers()).expect("memory");
            for chain in routes.chains_to_try(egress, rounds) {
                for converter in chain {
                    write!(text, " {converter}").expect("memory");
                }
                text.push_str(" or");
            }
            text.push_str(" direct\n");
        };
        line("", egress.rounds);
        let round_limits = routes.round_limits(egress);
        for &rounds in round_limits.iter().filter(|_| round_limits.len() > 1) {
            line(&format!(" above {}kB", lower_bound_kb(rounds)), rounds);
        }
    }
    text
}

/// The size in kilobytes above which a transfer takes so many rounds.
fn lower_bound_kb(rounds: u8) -> u64 {
    Rounds::new(rounds - 1).map_or(0, Rounds::most_bytes) / 1000
}

/// The chains of a table in the order in which to try them for so many rounds: the best one, then those for the nearest
/// numbers of rounds, the smaller first.
pub fn by_preference(chains: &[Chain], rounds: u8) -> Vec<&Chain> {
    let suitable = chains.iter().rposition(|chain| chain.rounds <= rounds);
    let best = suitable.unwrap_or(0);
    let mut places: Vec<usize> = (0..chains.len()).collect();
    places.sort_by_key(|&place| (place.abs_diff(best), place));
    places.into_iter().map(|place| &chains[place]).collect()
}

/// From what the routes of an ingress are made.
struct RouteTable<'a> {
    own: &'a Name,
    /// The address of its converter, which may not answer at the moment.
    at: Option<SocketAddr>,
    table: Option<&'a Table>,
    nodes: &'a BTreeMap<Name, Node>,
}

impl<'a> RouteTable<'a> {
    /// The converters of each chain to try before the direct path. After the first reachable node, one chain to each other
    /// node: if a node dies, no connection is lost.
    fn chains_to_try(&self, egress: &Egress, rounds: u8) -> Vec<Vec<SocketAddr>> {
        let mut found: Vec<Vec<SocketAddr>> = Vec::new();
        let nodes = in_order(egress, self.choice(egress, rounds));
        for node in nodes.into_iter().take_while(|node| *node != self.own) {
            let most = if found.is_empty() {
                MAX_CHAINS - egress.others.len().min(1)
            } else {
                1
            };
            let chains_to_try = self.to(egress, node, rounds).into_iter();
            let chains_to_try = chains_to_try.filter(|chain| chain.len() <= MAX_CONVERTERS);
            found.extend(chains_to_try.take(most));
        }
        found.truncate(MAX_CHAINS);
        found
    }

    /// All chains to a node: the measured choice first, then those of the table.
    fn to(&self, egress: &Egress, node: &Name, rounds: u8) -> Vec<Vec<SocketAddr>> {
        let choice = self.choice(egress, rounds);
        let measured = choice.filter(|choice| choice.node == *node);
        let measured = measured.map(|choice| choice.through.as_slice());
        let chains = by_preference(self.chains(node), rounds).into_iter();
        let others = chains.map(|chain| chain.through.as_slice());
        let others = others.filter(|through| measured.is_none_or(|first| first != *through));
        let chains_to_try = measured.into_iter().chain(others);
        chains_to_try
            .filter_map(|through| self.converters(through, node))
            .collect()
    }

    fn converters(&self, through: &[Name], egress: &Name) -> Option<Vec<SocketAddr>> {
        let converter = |name: &Name| self.nodes.get(name)?.converter;
        let found: Vec<SocketAddr> = through.iter().chain([egress]).map(converter).collect::<Option<_>>()?;
        // Whoever has published one may name it as another's.
        let mut known = BTreeSet::from_iter(self.at);
        found.iter().all(|each| known.insert(*each)).then_some(found)
    }

    /// The numbers of rounds from which on the chains differ.
    fn round_limits(&self, egress: &Egress) -> Vec<u8> {
        let choices = self.table.map_or(&[][..], |table| table.choices_of(egress));
        if !choices.is_empty() {
            return choices.iter().map(|choice| choice.rounds).collect();
        }
        let reached = |node: &&Name| *node == self.own || !self.to(egress, node, 1).is_empty();
        let node = egress.candidates().find(reached).unwrap_or(&egress.node);
        self.chains(node).iter().map(|chain| chain.rounds).collect()
    }

    fn choice(&self, egress: &Egress, rounds: u8) -> Option<&'a EgressChoice> {
        egress_choice::at(self.table?.choices_of(egress), rounds)
    }

    fn chains(&self, node: &Name) -> &'a [Chain] {
        let chains = self.table.and_then(|table| table.chains.get(node));
        chains.map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{chain, choices, name, table};

    /// Each at 10.0.0.N, with a converter unless it is in `without`.
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

    /// The ingress of all tests.
    fn own(name: &Name) -> (&Name, Option<SocketAddr>) {
        (name, "10.0.0.1:5124".parse().ok())
    }

    fn all_lines(chains: Vec<Chain>, nodes: &BTreeMap<Name, Node>, egresses: &str) -> Vec<String> {
        let egresses = Egresses::parse(egresses).unwrap();
        let text = text(own(&name("A")), Some(&table("B", chains)), nodes, &egresses);
        text.lines().skip(1).map(String::from).collect()
    }

    /// The lines without those for transfers of known size.
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
        for (rounds, chains_to_try) in [
            (1, [none, c, cd]),
            (2, [none, c, cd]),
            (3, [c, none, cd]),
            (7, [c, none, cd]),
            (8, [cd, c, none]),
            (30, [cd, c, none]),
        ] {
            let expected = format!("192.0.2.0/24  {} or direct", chains_to_try.join(" or "));
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
        assert_eq!(lines(chains(), &nodes("ACD", ""), "192.0.2.0/24 B"), [direct]);
    }

    #[test]
    fn chains_that_come_back_to_a_converter_are_left_out() {
        let chains = || vec![chain(1, &[]), chain(2, &["C"]), chain(4, &["C", "D"])];
        let found = |name_of: &str, as_of: &str| {
            let mut nodes = nodes("ABCD", "");
            let converter = nodes[&name(as_of)].converter;
            nodes.get_mut(&name(name_of)).unwrap().converter = converter;
            lines(chains(), &nodes, "192.0.2.0/24 B")
        };
        let [none, c] = ["10.0.0.2:5124", "10.0.0.3:5124 10.0.0.2:5124"];
        for other in ["A", "B", "C"] {
            let expected = format!("192.0.2.0/24  {c} or {none} or direct");
            assert_eq!(found("D", other), [expected], "{other}");
        }
        assert_eq!(found("B", "A"), ["192.0.2.0/24  direct"]);
        let mut while_silent = nodes("BCD", "");
        while_silent.get_mut(&name("D")).unwrap().converter = own(&name("A")).1;
        let expected = format!("192.0.2.0/24  {c} or {none} or direct");
        assert_eq!(lines(chains(), &while_silent, "192.0.2.0/24 B"), [expected]);
    }

    #[test]
    fn servers_next_to_the_ingress_or_to_a_node_that_no_chain_leads_to_are_connected_to_directly() {
        let found = lines(vec![chain(1, &[])], &nodes("ABC", ""), "default A\n192.0.2.0/24 C\n");
        assert_eq!(found, ["0.0.0.0/0  direct", "::/0  direct", "192.0.2.0/24  direct"]);
    }

    #[test]
    fn a_port_has_a_line_of_its_own() {
        let chains = vec![chain(1, &[]), chain(5, &["C"])];
        let found = lines(chains, &nodes("ABC", ""), "192.0.2.0/24 B\n192.0.2.0/24 port 22 B 1\n");
        let [none, c] = ["10.0.0.2:5124", "10.0.0.3:5124 10.0.0.2:5124"];
        let expected = [
            format!("192.0.2.0/24  {c} or {none} or direct"),
            format!("192.0.2.0/24 port 22  {none} or {c} or direct"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn transfers_of_known_size_have_the_chain_for_their_rounds_where_there_are_several() {
        let routes = nodes("ABCD", "");
        let chains = vec![chain(1, &[]), chain(3, &["C"]), chain(6, &["D"])];
        let found = all_lines(chains, &routes, "192.0.2.0/24 B 1\n192.0.2.0/24 port 22 B 1");
        let [none, c, d] = [
            "10.0.0.2:5124",
            "10.0.0.3:5124 10.0.0.2:5124",
            "10.0.0.4:5124 10.0.0.2:5124",
        ];
        let chains_to_try =
            [[none, c, d], [none, c, d], [c, none, d], [d, c, none]].map(|chains_to_try| chains_to_try.join(" or "));
        let mut expected = Vec::new();
        for servers in ["192.0.2.0/24", "192.0.2.0/24 port 22"] {
            // 3 rounds are more than 45 kB, 6 more than 465 kB.
            for (above, chains_to_try) in ["", " above 0kB", " above 45kB", " above 465kB"]
                .iter()
                .zip(&chains_to_try)
            {
                expected.push(format!("{servers}{above}  {chains_to_try} or direct"));
            }
        }
        assert_eq!(found, expected);
        assert_eq!(all_lines(vec![chain(1, &[])], &routes, "192.0.2.0/24 B").len(), 1);
    }

    /// To 192.0.2.0/24 by B, C or A: from so many rounds on by this node, through those.
    fn lines_of_several(best: &[(u8, &str, &[&str])], nodes: &BTreeMap<Name, Node>) -> Vec<String> {
        let mut table = table("B", vec![chain(1, &[]), chain(3, &["C"])]);
        let to_c = vec![chain(1, &[]), chain(2, &["B"]), chain(6, &["B", "D"])];
        table.chains.insert(name("C"), to_c);
        table.choices = vec![choices("192.0.2.0/24", best)];
        let egresses = Egresses::parse("192.0.2.0/24 B|C|A\n").unwrap();
        let text = text(own(&name("A")), Some(&table), nodes, &egresses);
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
        let choices: [(u8, &str, &[&str]); 2] = [(1, "C", &["D"]), (4, "B", &[])];
        // B is at 2, C at 3, D at 4; A itself is what "direct" means.
        assert_eq!(
            lines_of_several(&choices, &all),
            [
                "  2 or 3 2 or 2 3 or direct",
                " above 0kB  4 3 or 3 or 2 or direct",
                " above 105kB  2 or 3 2 or 2 3 or direct",
            ]
        );
        let without_c = nodes("ABD", "");
        let alone = ["  2 or direct", " above 0kB  2 or direct", " above 105kB  2 or direct"];
        assert_eq!(lines_of_several(&choices, &without_c), alone);
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
        let routes = nodes(&all, "");
        let passed = |count: usize| {
            let found = lines(vec![chain(1, &through[..count])], &routes, "192.0.2.0/24 B 1");
            found[0].matches(":5124").count()
        };
        assert_eq!(passed(14), 15);
        assert_eq!(passed(15), 0);
        let many = (1..=5).zip(&through).map(|(r, each)| chain(r, &[each]));
        let found = lines(many.collect(), &routes, "192.0.2.0/24 B");
        assert_eq!(found[0].matches(" or ").count(), 3);
    }

    #[test]
    fn the_first_line_names_the_table() {
        let egresses = Egresses::parse("").unwrap();
        let none = text(own(&name("A")), None, &BTreeMap::new(), &egresses);
        assert_eq!(none, "# Written by the overlay's agent of A, which has no table yet.\n");
        let some = text(
            own(&name("A")),
            Some(&table("B", Vec::new())),
            &BTreeMap::new(),
            &egresses,
        );
        assert!(some.contains("version 7 of its table, made 1800000000 s"));
    }
}
