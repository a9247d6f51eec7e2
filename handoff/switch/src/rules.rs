//! The rules, and the changes of the kernel's table that follow from them. Pure.

use std::collections::HashMap;
use std::net::SocketAddrV4;
use std::time::Duration;

use handoff_protocol::{Rejection, Rule};
use tributary_offload::{Devices, Flow, Limits, Seen, Translation};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulesConfig {
    pub services: Vec<SocketAddrV4>,
    /// Hand-off addresses of back ends, and the index of the device towards each.
    pub back_ends: HashMap<SocketAddrV4, u32>,
    /// The index of the device towards clients.
    pub clients: u32,
    pub max_rules: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Rewrite these packets, on their way between these devices.
    Insert(Translation, Devices),
    Remove(Flow),
}

/// One rule for each client and service.
#[derive(Clone, Debug)]
pub struct Rules {
    config: RulesConfig,
    /// With the time when each one began.
    installed: HashMap<(SocketAddrV4, SocketAddrV4), (Rule, Duration)>,
    /// The service by back end and client: at a back end, a client's address and port belong to one connection.
    at_back_end: HashMap<(SocketAddrV4, SocketAddrV4), SocketAddrV4>,
}

impl Rules {
    pub fn new(config: RulesConfig) -> Self {
        Self {
            config,
            installed: HashMap::new(),
            at_back_end: HashMap::new(),
        }
    }

    pub fn count(&self) -> usize {
        self.installed.len()
    }

    /// Installs a rule. The way of the answers comes first, and that of the previous rule is removed last: the client never
    /// sees another address. Repeating an installed rule changes nothing, so that what was seen of it stays.
    pub fn install(&mut self, rule: Rule, now: Duration) -> Result<Vec<Change>, Rejection> {
        let device = *self.check(&rule)?;
        let key = (rule.client, rule.service);
        let other = self.at_back_end.get(&(rule.back_end, rule.client));
        if other.is_some_and(|service| *service != rule.service) {
            return Err(Rejection::System);
        }
        if !self.installed.contains_key(&key) && self.installed.len() >= self.config.max_rules {
            return Err(Rejection::Full);
        }
        if self.is_installed(&rule) {
            return Ok(vec![]);
        }
        let clients = self.config.clients;
        let mut changes = vec![
            Change::Insert(to_client(&rule), devices(device, clients)),
            Change::Insert(to_back_end(&rule), devices(clients, device)),
        ];
        let before = self.installed.insert(key, (rule, now));
        self.at_back_end.insert((rule.back_end, rule.client), rule.service);
        if let Some((before, _)) = before.filter(|(before, _)| before.back_end != rule.back_end) {
            self.at_back_end.remove(&(before.back_end, rule.client));
            changes.push(Change::Remove(to_client(&before).from));
        }
        Ok(changes)
    }

    fn check(&self, rule: &Rule) -> Result<&u32, Rejection> {
        let device = self.config.back_ends.get(&rule.back_end);
        let rules = self.config.services.contains(&rule.service);
        device.filter(|_| rules).ok_or(Rejection::NotConfigured)
    }

    fn is_installed(&self, rule: &Rule) -> bool {
        let installed = self.installed.get(&(rule.client, rule.service));
        installed.is_some_and(|(installed, _)| installed == rule)
    }

    /// Removes this rule, unless a newer one has replaced it.
    pub fn remove(&mut self, rule: Rule) -> Vec<Change> {
        if !self.is_installed(&rule) {
            return vec![];
        }
        self.installed.remove(&(rule.client, rule.service));
        self.at_back_end.remove(&(rule.back_end, rule.client));
        vec![
            Change::Remove(to_back_end(&rule).from),
            Change::Remove(to_client(&rule).from),
        ]
    }

    /// The rules that have expired at `now`, by what was `seen` of each flow.
    pub fn expired(&self, now: Duration, limits: &Limits, seen: impl Fn(Flow) -> Seen) -> Vec<Rule> {
        let is_over = |(rule, begun): &&(Rule, Duration)| {
            let both = [seen(to_back_end(rule).from), seen(to_client(rule).from)];
            is_expired(&both, *begun, now, limits)
        };
        let expired = self.installed.values().filter(is_over);
        expired.map(|(rule, _)| *rule).collect()
    }
}

/// `seen` is of the client's packets, and of the back end's.
fn is_expired(seen: &[Seen; 2], begun: Duration, now: Duration, limits: &Limits) -> bool {
    let last = seen.iter().filter_map(|flow| flow.last).max();
    let quiet = now.saturating_sub(last.unwrap_or(begun));
    // A reset is ignored: only the back end knows whether it was valid, and its front removes the rule. After both FINs, a
    // client that reconnects from the same port must not wait for the old connection to expire.
    let reconnects = seen[0].syn;
    let ended = seen.iter().all(|flow| flow.fin);
    ended && (reconnects || quiet >= limits.closed) || quiet >= limits.idle
}

/// For the client's packets.
fn to_back_end(rule: &Rule) -> Translation {
    readdress(flow(rule.client, rule.service), flow(rule.client, rule.back_end))
}

/// For the back end's packets.
fn to_client(rule: &Rule) -> Translation {
    readdress(flow(rule.back_end, rule.client), flow(rule.service, rule.client))
}

fn flow(source: SocketAddrV4, destination: SocketAddrV4) -> Flow {
    Flow {
        source: source.into(),
        destination: destination.into(),
    }
}

fn devices(comes_by: u32, goes_by: u32) -> Devices {
    Devices {
        comes_by: Some(comes_by),
        goes_by,
    }
}

/// The agreed window scale is unknown. Windows are not changed, and this is the largest scale (RFC 7323 section 2.3).
const MAX_WINDOW_SCALE: u8 = 14;

/// Changes only addresses and ports: it is the same connection.
fn readdress(from: Flow, to: Flow) -> Translation {
    Translation {
        from,
        to,
        sequence: 0,
        acknowledgement: 0,
        tsval: 0,
        tsecr: 0,
        scale_in: MAX_WINDOW_SCALE,
        scale_out: MAX_WINDOW_SCALE,
        sender: None,
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
        Rules::new(RulesConfig {
            services: vec![at("10.0.1.1:80"), at("10.0.1.1:81")],
            back_ends: HashMap::from([(at("10.0.2.1:7400"), 7), (at("10.0.2.2:7400"), 8)]),
            clients: 6,
            max_rules: 2,
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
            Change::Insert(to_client, its_way),
            Change::Insert(to_back_end, the_clients),
        ] = changes[..]
        else {
            panic!("{changes:?}");
        };
        assert_eq!((its_way, the_clients), (devices(7, 6), devices(6, 7)));
        assert_eq!(to_client.from, to_back_end.to.reversed());
        assert_eq!(to_client.to, to_back_end.from.reversed());
        assert_eq!(to_back_end.from.destination, rule.service.into());
        assert_eq!(to_back_end.to.destination, rule.back_end.into());
        let gone = [Change::Remove(to_back_end.from), Change::Remove(to_client.from)];
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
        assert!(matches!(changes[1], Change::Insert(_, by) if by == devices(6, 8)));
        assert_eq!(changes[2], Change::Remove(to_client(&first).from));
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
        assert_eq!(rules.install(stranger, NOW), Err(Rejection::NotConfigured));
        let elsewhere = Rule {
            service: at("10.0.1.2:80"),
            ..rule("10.0.2.1:7400")
        };
        assert_eq!(rules.install(elsewhere, NOW), Err(Rejection::NotConfigured));
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
        rules.install(rule("10.0.2.1:7400"), NOW).expect("installed");
        let other = Rule {
            service: at("10.0.1.1:81"),
            ..rule("10.0.2.1:7400")
        };
        assert_eq!(rules.install(other, NOW), Err(Rejection::System));
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
        for (seen, now, expired) in [
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
            assert_eq!(is_expired(&seen, NOW, now, &LIMITS), expired, "{seen:?} at {now:?}");
        }
    }
}
