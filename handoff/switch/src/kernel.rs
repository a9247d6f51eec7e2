//! Rules in the kernel.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use handoff_protocol::{Denial, Rule, What};
use rustix::time::{ClockId, clock_gettime};
use tributary_transplant::{Flow, Seen, Translator};

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
        let done = changes
            .into_iter()
            .try_for_each(|change| self.change(change));
        done.map_err(|error| {
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

    fn change(&mut self, change: Change) -> io::Result<()> {
        match change {
            Change::Insert(translation, device) => self.translator.insert(&translation, device),
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

/// As the kernel's program has it.
fn monotonic() -> Duration {
    let time = clock_gettime(ClockId::Monotonic);
    Duration::try_from(time).unwrap_or_default()
}
