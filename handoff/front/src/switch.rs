//! The switch, as a front sees it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::SocketAddrV4;
use std::rc::Rc;
use std::time::Duration;

use handoff_link::Sender;
use handoff_protocol::{Message, Payload, Rule};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::reconnect::RemoteEnd;
use crate::settings::{OpenSession, Sessions};

/// It is on this machine, or near.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// A FIN may be repeated after the end of a connection (RFC 9293 section 3.6.1).
const FIN_GRACE: Duration = Duration::from_secs(5);

/// The front owns its rules: a restarted switch gets them again.
#[derive(Default)]
pub struct Switch {
    sessions: Sessions,
    open: RefCell<Option<OpenSession>>,
    sender: RefCell<Option<Sender>>,
    next: Cell<u64>,
    asked: RefCell<HashMap<u64, oneshot::Sender<Payload>>>,
    rules: RefCell<HashMap<(SocketAddrV4, SocketAddrV4), Rule>>,
    /// Removals that the switch has not acknowledged, by their numbers.
    ended: RefCell<HashMap<u64, Rule>>,
}

impl Switch {
    pub fn new(sessions: Sessions) -> Self {
        Self {
            sessions,
            ..Self::default()
        }
    }

    pub fn is_up(&self) -> bool {
        self.sender.borrow().is_some()
    }

    /// Sends a rule at once; the future tells whether it was installed.
    pub fn install(&self, rule: Rule) -> impl Future<Output = bool> + use<> {
        self.rules.borrow_mut().insert((rule.client, rule.service), rule);
        let answer = self.ask(self.number(), Payload::Install(rule));
        async move { answer.await == Some(Payload::Done) }
    }

    /// Removes a rule at once; the future is ready when it is removed, or the switch is away. A switch that has it still
    /// when it is back then gets the removal.
    pub fn remove(&self, rule: Rule) -> impl Future<Output = ()> + use<> {
        self.forget(rule);
        let id = self.number();
        self.ended.borrow_mut().insert(id, rule);
        let answer = self.ask(id, Payload::Remove(rule));
        async move {
            let _ = answer.await;
        }
    }

    /// Removes a rule after the last packets of both ends. The client may have connected again by then, with another rule.
    pub async fn remove_later(self: Rc<Self>, rule: Rule) {
        self.forget(rule);
        sleep(FIN_GRACE).await;
        self.remove(rule).await;
    }

    /// A restarted switch does not get it again.
    fn forget(&self, rule: Rule) {
        let mut rules = self.rules.borrow_mut();
        let key = (rule.client, rule.service);
        if rules.get(&key) == Some(&rule) {
            rules.remove(&key);
        }
    }

    fn number(&self) -> u64 {
        self.next.set(self.next.get() + 1);
        self.next.get()
    }

    fn ask(&self, id: u64, payload: Payload) -> impl Future<Output = Option<Payload>> + use<> {
        let (answer_sender, answer) = oneshot::channel();
        if self.send(id, payload) {
            self.asked.borrow_mut().insert(id, answer_sender);
        }
        async move { timeout(ANSWER_TIMEOUT, answer).await.ok()?.ok() }
    }

    fn send(&self, id: u64, payload: Payload) -> bool {
        let sender = self.sender.borrow();
        sender
            .as_ref()
            .is_some_and(|sender| sender.send(Message { id, payload }))
    }
}

impl RemoteEnd for Switch {
    /// It gets all rules again.
    const RESUME_TIMEOUT: Duration = Duration::ZERO;

    fn name(&self) -> &'static str {
        "the switch of the hand-off"
    }

    fn on_connected(&self, sender: &Sender) {
        self.sender.replace(Some(sender.clone()));
        self.open.replace(Some(self.sessions.open()));
        for (&id, &rule) in self.ended.borrow().iter() {
            self.send(id, Payload::Remove(rule));
        }
        for &rule in self.rules.borrow().values() {
            // No reply to number 0 is waited for.
            self.send(0, Payload::Install(rule));
        }
    }

    fn on_message(&self, message: Message) {
        self.ended.borrow_mut().remove(&message.id);
        if let Some(answer_sender) = self.asked.borrow_mut().remove(&message.id) {
            // The receiver may be gone.
            let _ = answer_sender.send(message.payload);
        }
    }

    fn on_disconnected(&self) {
        self.sender.take();
        self.open.take();
        self.asked.take();
    }

    fn on_session_end(&self) {}
}

#[cfg(test)]
mod tests {
    use handoff_link::{Session, read_hello};
    use tokio::io::duplex;

    use super::*;

    fn rule(port: u16) -> Rule {
        let end = |last, port| SocketAddrV4::new([10, 0, 0, last].into(), port);
        Rule {
            client: end(1, port),
            service: end(2, 80),
            back_end: end(3, 7400),
            number: u64::from(port),
        }
    }

    /// The messages that a switch gets on a connection which breaks after `meanwhile`.
    async fn messages_of(switch: &Switch, meanwhile: impl FnOnce(&Switch)) -> Vec<Message> {
        let (sender, mut session) = Session::new();
        let (mut here, mut there) = duplex(64 << 10);
        let (_kept, mut other) = Session::new();
        let answering = async {
            read_hello(&mut there).await.expect("a greeting");
            other.accept(&mut there).await.expect("answered");
        };
        let (acknowledged, ()) = tokio::join!(session.connect(&mut here, 1), answering);
        switch.on_connected(&sender);
        meanwhile(switch);
        switch.on_disconnected();
        drop(sender);
        let mut messages = vec![];
        let take = |message: Message| {
            if !matches!(message.payload, Payload::Heartbeat { .. }) {
                messages.push(message);
            }
        };
        tokio::join!(
            session.run(here, acknowledged.expect("greeted"), drop),
            other.run(there, 0, take)
        );
        messages
    }

    fn payloads(messages: &[Message]) -> Vec<&Payload> {
        messages.iter().map(|message| &message.payload).collect()
    }

    #[tokio::test]
    async fn a_switch_that_is_back_hears_of_rules_that_there_are_and_that_have_ended_until_it_knows() {
        let switch = Switch::default();
        let before = messages_of(&switch, |switch| {
            drop(switch.install(rule(1)));
            drop(switch.install(rule(2)));
        });
        let installed = [&Payload::Install(rule(1)), &Payload::Install(rule(2))];
        assert_eq!(payloads(&before.await), installed);
        drop(switch.remove(rule(1)));
        let after = [&Payload::Remove(rule(1)), &Payload::Install(rule(2))];
        let id = messages_of(&switch, |_| {}).await[0].id;
        let again = messages_of(&switch, |switch| {
            let payload = Payload::Done;
            switch.on_message(Message { id, payload });
        });
        assert_eq!(payloads(&again.await), after);
        assert_eq!(payloads(&messages_of(&switch, |_| {}).await), after[1..]);
    }
}
