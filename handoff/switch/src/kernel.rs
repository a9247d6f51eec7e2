//! The rules in the kernel.

use std::collections::BTreeSet;
use std::io;

use handoff_protocol::{Payload, Rejection, Rule};
use tributary_offload::{Flow, Limits, Seen, Translator};
use tributary_sys::monotonic;

use crate::rules::{Change, Rules};

/// The rules, and the eBPF program that applies them.
pub struct Switch {
    rules: Rules,
    translator: Translator,
    limits: Limits,
}

impl Switch {
    /// Attaches the program to these devices by tc(8). The error names the device.
    pub fn start(rules: Rules, limits: Limits, devices: &BTreeSet<String>) -> io::Result<Self> {
        let mut translator = Translator::load()?;
        for device in devices {
            translator
                .attach(device)
                .map_err(|error| io::Error::new(error.kind(), format!("device {device:?}: {error}")))?;
        }
        Ok(Self {
            rules,
            translator,
            limits,
        })
    }

    /// Also attaches a program to these devices' drivers, before tc (XDP). Fails if one driver does not support it; then
    /// only tc rewrites packets. The error names the device.
    pub fn attach_to_drivers(&mut self, devices: &BTreeSet<String>) -> io::Result<()> {
        self.translator.attach_to_drivers(devices)
    }

    /// Performs a front's request; returns the reply.
    pub fn take(&mut self, payload: &Payload) -> Option<Payload> {
        match payload {
            Payload::Install(rule) => Some(match self.install(*rule) {
                Ok(()) => Payload::Done,
                Err(rejection) => Payload::Rejected(rejection),
            }),
            Payload::Remove(rule) => {
                self.remove(*rule);
                Some(Payload::Done)
            }
            _ => None,
        }
    }

    fn install(&mut self, rule: Rule) -> Result<(), Rejection> {
        let changes = self.rules.install(rule, monotonic())?;
        apply_all(changes, |change| self.change(change)).map_err(|error| {
            tracing::warn!("a rule for a client of {} is not installed: {error}", rule.back_end);
            self.remove(rule);
            Rejection::System
        })
    }

    fn remove(&mut self, rule: Rule) {
        for change in self.rules.remove(rule) {
            // It may not have been inserted.
            let _ = self.change(change);
        }
    }

    fn change(&self, change: Change) -> io::Result<()> {
        match change {
            Change::Insert(translation, devices) => self.translator.insert(&translation, devices),
            Change::Remove(flow) => self.translator.remove(flow),
        }
    }

    pub fn expire(&mut self) {
        let seen = |flow: Flow| self.seen(flow);
        for rule in self.rules.expired(monotonic(), &self.limits, seen) {
            self.remove(rule);
        }
    }

    /// A flow that the kernel has lost counts as unseen, and expires at some time.
    fn seen(&self, flow: Flow) -> Seen {
        self.translator.seen(flow).ok().flatten().unwrap_or_default()
    }

    pub fn count(&self) -> usize {
        self.rules.count()
    }
}

/// Makes all changes, in order. After a failure nothing is inserted, but removals are still made: nobody else would ever
/// make them. Returns the first error.
fn apply_all(changes: Vec<Change>, make: impl Fn(Change) -> io::Result<()>) -> io::Result<()> {
    let mut done = Ok(());
    for change in changes {
        if done.is_ok() || matches!(change, Change::Remove(_)) {
            done = done.and(make(change));
        }
    }
    done
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::net::SocketAddrV4;
    use std::time::Duration;

    use super::*;
    use crate::rules::RulesConfig;

    /// If the kernel's table is full the rule is refused, and the previous back end's is removed.
    #[test]
    fn behind_an_insertion_that_fails_what_was_to_be_removed_is_removed_all_the_same() {
        let at = |text: &str| text.parse::<SocketAddrV4>().expect("an address");
        let back_ends = [(at("10.0.2.1:7400"), 7), (at("10.0.2.2:7400"), 8)];
        let mut rules = Rules::new(RulesConfig {
            services: vec![at("10.0.1.1:80")],
            back_ends: back_ends.into(),
            clients: 6,
            max_rules: 2,
        });
        let rule = |number: u64, back_end| Rule {
            client: at("10.0.0.1:40000"),
            service: at("10.0.1.1:80"),
            back_end,
            number,
        };
        let first = rules.install(rule(1, back_ends[0].0), Duration::ZERO);
        let before = match first.expect("installed")[0] {
            Change::Insert(to_client, _) => to_client.from,
            Change::Remove(_) => panic!("an insertion"),
        };
        for fails in 0..2 {
            let mut rules = rules.clone();
            let changes = rules.install(rule(2, back_ends[1].0), Duration::ZERO);
            let made = RefCell::new(vec![]);
            let done = apply_all(changes.expect("installed"), |change| {
                made.borrow_mut().push(change);
                if made.borrow().len() == fails + 1 {
                    return Err(io::ErrorKind::StorageFull.into());
                }
                Ok(())
            });
            assert_eq!(done.expect_err("full").kind(), io::ErrorKind::StorageFull);
            assert_eq!(made.borrow().len(), fails + 2);
            assert_eq!(made.borrow().last(), Some(&Change::Remove(before)));
        }
    }
}
