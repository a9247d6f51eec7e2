//! Rules in the kernel.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use handoff_protocol::{Denial, Rule, What};
use rustix::time::{ClockId, clock_gettime};
use tributary_offload::{Flow, Seen, Translator};

use crate::rules::{Change, Limits, Rules};

/// The rules, and the program that goes by them.
#[derive(Debug)]
pub struct Switch {
    rules: Rules,
    translator: Translator,
    limits: Limits,
}

impl Switch {
    /// Has the program for tc(8) look at what comes in by these devices. Raises what the kernel says, with the device's name.
    pub fn start(rules: Rules, limits: Limits, devices: &BTreeSet<String>) -> io::Result<Self> {
        let mut translator = Translator::load()?;
        for device in devices {
            translator.attach(device).map_err(|error| {
                io::Error::new(error.kind(), format!("device {device:?}: {error}"))
            })?;
        }
        Ok(Self {
            rules,
            translator,
            limits,
        })
    }

    /// Has these devices' drivers do it before tc, where they can (XDP). Raises why the driver of one cannot, with its name;
    /// then tc does it alone.
    pub fn attach_to_drivers(&mut self, devices: &BTreeSet<String>) -> io::Result<()> {
        self.translator.attach_to_drivers(devices)
    }

    /// Does what a front wants; its answer.
    pub fn take(&mut self, what: &What) -> Option<What> {
        match what {
            What::Install(rule) => Some(match self.install(*rule) {
                Ok(()) => What::Done,
                Err(denial) => What::Denied(denial),
            }),
            What::Remove(rule) => {
                self.remove(*rule);
                Some(What::Done)
            }
            _ => None,
        }
    }

    fn install(&mut self, rule: Rule) -> Result<(), Denial> {
        let changes = self.rules.install(rule, monotonic())?;
        carried_out(changes, |change| self.change(change)).map_err(|error| {
            tracing::warn!("the rule for {} is not taken: {error}", rule.client);
            self.remove(rule);
            Denial::System
        })
    }

    fn remove(&mut self, rule: Rule) {
        for change in self.rules.remove(rule) {
            // It is not there if it could not be inserted.
            let _ = self.change(change);
        }
    }

    fn change(&self, change: Change) -> io::Result<()> {
        match change {
            Change::Insert(translation, devices) => self.translator.insert(&translation, devices),
            Change::Remove(flow) => self.translator.remove(flow),
        }
    }

    /// Removes the rules that have no use any more.
    pub fn expire(&mut self) {
        let seen = |flow: Flow| self.seen(flow);
        for rule in self.rules.over(monotonic(), &self.limits, seen) {
            self.remove(rule);
        }
    }

    /// One that the kernel lost has seen nothing, and is over some time.
    fn seen(&self, flow: Flow) -> Seen {
        self.translator
            .seen(flow)
            .ok()
            .flatten()
            .unwrap_or_default()
    }

    /// How many rules there are.
    pub fn count(&self) -> usize {
        self.rules.count()
    }
}

/// Makes all changes, in their order. Behind one that fails nothing is inserted, but what is to be removed goes: nobody would
/// ever do that later. Raises the first failure.
fn carried_out(changes: Vec<Change>, make: impl Fn(Change) -> io::Result<()>) -> io::Result<()> {
    let mut done = Ok(());
    for change in changes {
        if done.is_ok() || matches!(change, Change::Remove(_)) {
            done = done.and(make(change));
        }
    }
    done
}

/// As the kernel's program has it.
fn monotonic() -> Duration {
    let time = clock_gettime(ClockId::Monotonic);
    Duration::try_from(time).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::net::SocketAddrV4;

    use super::*;
    use crate::rules::Configured;

    /// Where a table is full the rule is refused; that of the back end before leaves nothing behind.
    #[test]
    fn behind_an_insertion_that_fails_what_was_to_be_removed_is_removed_all_the_same() {
        let at = |text: &str| text.parse::<SocketAddrV4>().expect("an address");
        let back_ends = [(at("10.0.2.1:7400"), 7), (at("10.0.2.2:7400"), 8)];
        let mut rules = Rules::new(Configured {
            services: vec![at("10.0.1.1:80")],
            back_ends: back_ends.into(),
            clients: 6,
            most: 2,
        });
        let rule = |number: u64, back_end| Rule {
            client: at("10.0.0.1:40000"),
            service: at("10.0.1.1:80"),
            back_end,
            number,
        };
        let first = rules.install(rule(1, back_ends[0].0), Duration::ZERO);
        let before = match first.expect("installed")[0] {
            Change::Insert(back, _) => back.from,
            Change::Remove(_) => panic!("an insertion"),
        };
        for fails in 0..2 {
            let mut rules = rules.clone();
            let changes = rules.install(rule(2, back_ends[1].0), Duration::ZERO);
            let made = RefCell::new(vec![]);
            let done = carried_out(changes.expect("installed"), |change| {
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
