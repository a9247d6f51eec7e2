//! Which rules there are, and what of the kernel's table changes with them. Pure.

use std::collections::HashMap;
use std::net::SocketAddrV4;
use std::time::Duration;

use handoff_protocol::{Denial, Rule};
use tributary_offload::{Devices, Flow, Seen, Translation};

/// What rules may be about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configured {
    /// Where clients connect to.
    pub services: Vec<SocketAddrV4>,
    /// Where connections go on, and the number of the device that leads there.
    pub back_ends: HashMap<SocketAddrV4, u32>,
    /// The number of the device that leads to clients.
    pub clients: u32,
    /// Rules at the same time, at most.
    pub most: usize,
}

/// How long a rule stays that may have no use any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Without a packet, when both ends have ended their data.
    pub closed: Duration,
    /// Without a packet.
    pub idle: Duration,
}

/// What is to be done in the kernel's table, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// This is rewritten, on its way by these devices.
    Insert(Translation, Devices),
    /// This is left alone.
    Remove(Flow),
}

/// The rules that there are: one for a client and a service.
#[derive(Clone, Debug)]
pub struct Rules {
    configured: Configured,
    known: HashMap<(SocketAddrV4, SocketAddrV4), Entry>,
    /// A client's address and port is one connection's at a back end.
    at_back_end: HashMap<(SocketAddrV4, SocketAddrV4), SocketAddrV4>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    back_end: SocketAddrV4,
    number: u64,
    begun: Duration,
}

impl Rules {
    /// None yet.
    pub fn new(configured: Configured) -> Self {
        Self {
            configured,
            known: HashMap::new(),
            at_back_end: HashMap::new(),
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.known.len()
    }

    /// From `now` on by this rule. The answer's way is there first, and the way of the rule before ends last: nobody hears
    /// of the other address. A front that is back tells of rules that there are: what was seen of them stays.
    pub fn install(&mut self, rule: Rule, now: Duration) -> Result<Vec<Change>, Denial> {
        let device = *self.check(&rule)?;
        let key = (rule.client, rule.service);
        let other = self.at_back_end.get(&(rule.back_end, rule.client));
        if other.is_some_and(|service| *service != rule.service) {
            return Err(Denial::System);
        }
        if !self.known.contains_key(&key) && self.known.len() >= self.configured.most {
            return Err(Denial::Full);
        }
        let is_there =
            |entry: &Entry| (entry.back_end, entry.number) == (rule.back_end, rule.number);
        if self.known.get(&key).is_some_and(is_there) {
            return Ok(vec![]);
        }
        let clients = self.configured.clients;
        let mut changes = vec![
            Change::Insert(back(&rule), way(device, clients)),
            Change::Insert(forth(&rule), way(clients, device)),
        ];
        let entry = Entry {
            back_end: rule.back_end,
            number: rule.number,
            begun: now,
        };
        let before = self.known.insert(key, entry);
        self.at_back_end
            .insert((rule.back_end, rule.client), rule.service);
        if let Some(before) = before.filter(|before| before.back_end != rule.back_end) {
            self.at_back_end.remove(&(before.back_end, rule.client));
            let before = Rule {
                back_end: before.back_end,
                ..rule
            };
            changes.push(Change::Remove(back(&before).from));
        }
        Ok(changes)
    }

    fn check(&self, rule: &Rule) -> Result<&u32, Denial> {
        let device = self.configured.back_ends.get(&rule.back_end);
        let known = self.configured.services.contains(&rule.service);
        device.filter(|_| known).ok_or(Denial::NotConfigured)
    }

    /// No longer by this rule, if it is still there, and not another one that leads to the same back end.
    pub fn remove(&mut self, rule: Rule) -> Vec<Change> {
        let key = (rule.client, rule.service);
        match self.known.get(&key) {
            Some(entry) if entry.back_end == rule.back_end && entry.number == rule.number => {}
            _ => return vec![],
        }
        self.known.remove(&key);
        self.at_back_end.remove(&(rule.back_end, rule.client));
        vec![
            Change::Remove(forth(&rule).from),
            Change::Remove(back(&rule).from),
        ]
    }

    /// The rules that have no use any more at `now`, by what was `seen` of a flow.
    pub fn over(&self, now: Duration, limits: &Limits, seen: impl Fn(Flow) -> Seen) -> Vec<Rule> {
        let mut over = vec![];
        for (&(client, service), entry) in &self.known {
            let rule = Rule {
                client,
                service,
                back_end: entry.back_end,
                number: entry.number,
            };
            let both = [seen(forth(&rule).from), seen(back(&rule).from)];
            if is_over(&both, entry.begun, now, limits) {
                over.push(rule);
            }
        }
        over
    }
}

/// By what was `seen` of the client's packets, and of the back end's.
fn is_over(seen: &[Seen; 2], begun: Duration, now: Duration, limits: &Limits) -> bool {
    let last = seen.iter().filter_map(|flow| flow.last).max();
    let quiet = now.saturating_sub(last.unwrap_or(begun));
    // Only the back end knows whether a reset was right, and its front ends the rule. Behind both ends a client that connects
    // anew from the same port is not to wait for the old connection.
    let begins_anew = seen[0].syn;
    let ended = seen.iter().all(|flow| flow.fin);
    ended && (begins_anew || quiet >= limits.closed) || quiet >= limits.idle
}

/// The client's packets.
fn forth(rule: &Rule) -> Translation {
    readdressed(
        flow(rule.client, rule.service),
        flow(rule.client, rule.back_end),
    )
}

/// The back end's.
fn back(rule: &Rule) -> Translation {
    readdressed(
        flow(rule.back_end, rule.client),
        flow(rule.service, rule.client),
    )
}

fn flow(source: SocketAddrV4, destination: SocketAddrV4) -> Flow {
    Flow {
        source: source.into(),
        destination: destination.into(),
    }
}

fn way(comes_by: u32, goes_by: u32) -> Devices {
    Devices {
        comes_by: Some(comes_by),
        goes_by,
    }
}

/// The scale that both ends have agreed on is not known: windows stay, and are at most so large (RFC 7323 section 2.3).
const GREATEST_SCALE: u8 = 14;

/// All but addresses and ports stays: it is the same connection.
fn readdressed(from: Flow, to: Flow) -> Translation {
    Translation {
        from,
        to,
        sequence: 0,
        acknowledgement: 0,
        tsval: 0,
        tsecr: 0,
        scale_in: GREATEST_SCALE,
        scale_out: GREATEST_SCALE,
        said: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(100);
    const LIMITS: Limits = Limits {
        closed: Duration::from_secs(5),
        idle: Duration::from_secs(300),
    };

    fn at(text: &str) -> SocketAddrV4 {
        text.parse().expect("an address")
    }

    fn rules() -> Rules {
        Rules::new(Configured {
            services: vec![at("10.0.1.1:80"), at("10.0.1.1:81")],
            back_ends: HashMap::from([(at("10.0.2.1:7400"), 7), (at("10.0.2.2:7400"), 8)]),
            clients: 6,
            most: 2,
        })
    }

    fn rule(back_end: &str) -> Rule {
        Rule {
            client: at("10.0.0.1:40000"),
            service: at("10.0.1.1:80"),
            back_end: at(back_end),
            number: 1,
        }
    }

    #[test]
    fn a_rule_leads_both_ways_and_its_removal_ends_both() {
        let (mut rules, rule) = (rules(), rule("10.0.2.1:7400"));
        let changes = rules.install(rule, NOW).expect("installed");
        let [
            Change::Insert(back, its_way),
            Change::Insert(forth, the_clients),
        ] = changes[..]
        else {
            panic!("{changes:?}");
        };
        assert_eq!((its_way, the_clients), (way(7, 6), way(6, 7)));
        assert_eq!(back.from, forth.to.reversed());
        assert_eq!(back.to, forth.from.reversed());
        assert_eq!(forth.from.destination, rule.service.into());
        assert_eq!(forth.to.destination, rule.back_end.into());
        let gone = [Change::Remove(forth.from), Change::Remove(back.from)];
        assert_eq!(rules.remove(rule), gone);
        assert_eq!(rules.remove(rule), []);
        assert_eq!(rules.count(), 0);
    }

    #[test]
    fn another_back_end_takes_the_place_of_the_first_and_a_late_removal_changes_nothing() {
        let mut rules = rules();
        let (first, second) = (rule("10.0.2.1:7400"), rule("10.0.2.2:7400"));
        rules.install(first, NOW).expect("installed");
        let changes = rules.install(second, NOW).expect("installed");
        assert!(matches!(changes[1], Change::Insert(_, by) if by == way(6, 8)));
        assert_eq!(changes[2], Change::Remove(back(&first).from));
        assert_eq!(rules.remove(first), []);
        assert_eq!(rules.count(), 1);
    }

    #[test]
    fn a_rule_that_is_there_is_told_again_without_any_change() {
        let (mut rules, rule) = (rules(), rule("10.0.2.1:7400"));
        rules.install(rule, NOW).expect("installed");
        assert_eq!(rules.install(rule, NOW).expect("installed"), []);
        let next = Rule { number: 2, ..rule };
        assert_eq!(rules.install(next, NOW).expect("installed").len(), 2);
    }

    #[test]
    fn the_removal_of_a_rule_leaves_a_later_one_that_differs_by_its_number_alone() {
        let (mut rules, first) = (rules(), rule("10.0.2.1:7400"));
        let second = Rule { number: 2, ..first };
        rules.install(first, NOW).expect("installed");
        assert_eq!(rules.install(second, NOW).expect("installed").len(), 2);
        assert_eq!(rules.remove(first), []);
        assert_eq!(rules.remove(second).len(), 2);
        assert_eq!(rules.count(), 0);
    }

    #[test]
    fn what_was_not_configured_is_refused_and_so_is_more_than_there_is_room_for() {
        let mut rules = rules();
        let stranger = rule("10.0.2.3:7400");
        assert_eq!(rules.install(stranger, NOW), Err(Denial::NotConfigured));
        let elsewhere = Rule {
            service: at("10.0.1.2:80"),
            ..rule("10.0.2.1:7400")
        };
        assert_eq!(rules.install(elsewhere, NOW), Err(Denial::NotConfigured));
        for port in 1..=3 {
            let client = SocketAddrV4::new(*rule("10.0.2.1:7400").client.ip(), port);
            let each = Rule {
                client,
                ..rule("10.0.2.1:7400")
            };
            let full = port == 3;
            assert_eq!(rules.install(each, NOW).is_err(), full, "{port}");
        }
    }

    #[test]
    fn two_services_are_not_one_connection_at_a_back_end() {
        let mut rules = rules();
        rules
            .install(rule("10.0.2.1:7400"), NOW)
            .expect("installed");
        let other = Rule {
            service: at("10.0.1.1:81"),
            ..rule("10.0.2.1:7400")
        };
        assert_eq!(rules.install(other, NOW), Err(Denial::System));
    }

    #[test]
    fn a_rule_is_over_by_both_ends_or_silence_and_not_by_a_reset_that_may_be_forged() {
        let none = Seen::default();
        let last = Some(NOW);
        let fin = Seen {
            fin: true,
            last,
            ..none
        };
        let later = |seconds| NOW + Duration::from_secs(seconds);
        let reset = Seen {
            reset: true,
            syn: true,
            ..fin
        };
        for (seen, now, over) in [
            ([none, none], later(299), false),
            ([none, none], later(300), true),
            ([reset, none], later(299), false),
            ([none, reset], later(299), false),
            ([fin, none], later(299), false),
            ([fin, reset], later(4), false),
            ([reset, fin], NOW, true),
            ([fin, fin], later(4), false),
            ([fin, fin], later(5), true),
        ] {
            assert_eq!(
                is_over(&seen, NOW, now, &LIMITS),
                over,
                "{seen:?} at {now:?}"
            );
        }
    }
}
