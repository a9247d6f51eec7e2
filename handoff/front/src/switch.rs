//! The switch, as a front sees it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::SocketAddrV4;
use std::rc::Rc;
use std::time::Duration;

use handoff_link::Sender;
use handoff_protocol::{Message, Rule, What};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::standing::Far;

/// It is on this machine, or near.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// A FIN may be sent again behind the end of a connection (RFC 9293 section 3.6.1).
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Its rules are the front's: one that starts anew gets them again.
#[derive(Default)]
pub struct Switch {
    sender: RefCell<Option<Sender>>,
    next: Cell<u64>,
    asked: RefCell<HashMap<u64, oneshot::Sender<What>>>,
    rules: RefCell<HashMap<(SocketAddrV4, SocketAddrV4), Rule>>,
    /// Rules that have ended, by the number under which the switch is told; until it says that it knows.
    ended: RefCell<HashMap<u64, Rule>>,
}

impl Switch {
    /// Whether it can be asked.
    pub fn is_up(&self) -> bool {
        self.sender.borrow().is_some()
    }

    /// Asks for a rule at once; whether it has it, later.
    pub fn install(&self, rule: Rule) -> impl Future<Output = bool> + use<> {
        self.rules
            .borrow_mut()
            .insert((rule.client, rule.service), rule);
        let answer = self.ask(self.number(), What::Install(rule));
        async move { answer.await == Some(What::Done) }
    }

    /// Ends a rule at once; ready when it has ended, or the switch is away. One that is back and still has it is told then.
    pub fn remove(&self, rule: Rule) -> impl Future<Output = ()> + use<> {
        self.forget(rule);
        let id = self.number();
        self.ended.borrow_mut().insert(id, rule);
        let answer = self.ask(id, What::Remove(rule));
        async move {
            let _ = answer.await;
        }
    }

    /// Ends a rule once what both ends still say has passed. The client may have connected again by then, and whichever
    /// thread has that connection has another rule for it.
    pub async fn remove_later(self: Rc<Self>, rule: Rule) {
        self.forget(rule);
        sleep(LAST_WORDS).await;
        self.remove(rule).await;
    }

    /// One that starts anew does not get it again.
    fn forget(&self, rule: Rule) {
        let mut rules = self.rules.borrow_mut();
        let key = (rule.client, rule.service);
        if rules.get(&key) == Some(&rule) {
            rules.remove(&key);
        }
    }

    /// Of the next question.
    fn number(&self) -> u64 {
        self.next.set(self.next.get() + 1);
        self.next.get()
    }

    fn ask(&self, id: u64, what: What) -> impl Future<Output = Option<What>> + use<> {
        let (told, answer) = oneshot::channel();
        if self.say(id, what) {
            self.asked.borrow_mut().insert(id, told);
        }
        async move { timeout(ANSWER_TIMEOUT, answer).await.ok()?.ok() }
    }

    fn say(&self, id: u64, what: What) -> bool {
        let sender = self.sender.borrow();
        sender
            .as_ref()
            .is_some_and(|sender| sender.send(Message { id, what }))
    }
}

impl Far for Switch {
    /// It is told all anew.
    const PATIENCE: Duration = Duration::ZERO;

    fn name(&self) -> &'static str {
        "the switch of the hand-off"
    }

    fn is_there(&self, sender: &Sender) {
        self.sender.replace(Some(sender.clone()));
        for (&id, &rule) in self.ended.borrow().iter() {
            self.say(id, What::Remove(rule));
        }
        for &rule in self.rules.borrow().values() {
            // Nobody waits for number 0.
            self.say(0, What::Install(rule));
        }
    }

    fn said(&self, message: Message) {
        self.ended.borrow_mut().remove(&message.id);
        if let Some(told) = self.asked.borrow_mut().remove(&message.id) {
            // Who asked may have stopped waiting.
            let _ = told.send(message.what);
        }
    }

    fn is_away(&self) {
        self.sender.take();
        self.asked.take();
    }

    fn is_gone(&self) {}
}

#[cfg(test)]
mod tests {
    use handoff_link::{Session, greeted};
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

    /// What a switch is told by a connection that breaks behind `meanwhile`.
    async fn told(switch: &Switch, meanwhile: impl FnOnce(&Switch)) -> Vec<Message> {
        let (sender, mut session) = Session::new();
        let (mut here, mut there) = duplex(64 << 10);
        let (_kept, mut other) = Session::new();
        let answering = async {
            greeted(&mut there).await.expect("a greeting");
            other.answer(&mut there).await.expect("answered");
        };
        let (heard, ()) = tokio::join!(session.greet(&mut here, 1), answering);
        switch.is_there(&sender);
        meanwhile(switch);
        switch.is_away();
        drop(sender);
        let mut messages = vec![];
        let take = |message: Message| {
            if !matches!(message.what, What::Alive { .. }) {
                messages.push(message);
            }
        };
        tokio::join!(
            session.carry(here, heard.expect("greeted"), drop),
            other.carry(there, 0, take)
        );
        messages
    }

    fn whats(messages: &[Message]) -> Vec<&What> {
        messages.iter().map(|message| &message.what).collect()
    }

    #[tokio::test]
    async fn a_switch_that_is_back_hears_of_rules_that_there_are_and_that_have_ended_until_it_knows()
     {
        let switch = Switch::default();
        let before = told(&switch, |switch| {
            drop(switch.install(rule(1)));
            drop(switch.install(rule(2)));
        });
        let installed = [&What::Install(rule(1)), &What::Install(rule(2))];
        assert_eq!(whats(&before.await), installed);
        drop(switch.remove(rule(1)));
        let after = [&What::Remove(rule(1)), &What::Install(rule(2))];
        let id = told(&switch, |_| {}).await[0].id;
        let again = told(&switch, |switch| {
            let what = What::Done;
            switch.said(Message { id, what });
        });
        assert_eq!(whats(&again.await), after);
        assert_eq!(whats(&told(&switch, |_| {}).await), after[1..]);
    }
}
