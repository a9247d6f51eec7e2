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
        let answer = self.ask(What::Install(rule));
        async move { answer.await == Some(What::Done) }
    }

    /// Ends a rule at once; ready when it has ended, or the switch is away.
    pub fn remove(&self, rule: Rule) -> impl Future<Output = ()> + use<> {
        self.forget(rule);
        let answer = self.ask(What::Remove(rule));
        async move {
            // Without a switch there is no rule.
            let _ = answer.await;
        }
    }

    /// Ends a rule once what both ends still say has passed, unless there is one for the same client by then.
    pub async fn remove_later(self: Rc<Self>, rule: Rule) {
        self.forget(rule);
        sleep(LAST_WORDS).await;
        let key = (rule.client, rule.service);
        if !self.rules.borrow().contains_key(&key) {
            self.remove(rule).await;
        }
    }

    /// One that starts anew does not get it again.
    fn forget(&self, rule: Rule) {
        let mut rules = self.rules.borrow_mut();
        let key = (rule.client, rule.service);
        if rules.get(&key) == Some(&rule) {
            rules.remove(&key);
        }
    }

    fn ask(&self, what: What) -> impl Future<Output = Option<What>> + use<> {
        let (told, answer) = oneshot::channel();
        let id = self.next.get() + 1;
        self.next.set(id);
        if self.say(id, what) {
            self.asked.borrow_mut().insert(id, told);
        }
        async move { timeout(ANSWER_TIMEOUT, answer).await.ok()?.ok() }
    }

    fn say(&self, id: u64, what: What) -> bool {
        let sender = self.sender.borrow();
        let sent = sender
            .as_ref()
            .map(|sender| sender.try_send(Message { id, what }));
        matches!(sent, Some(Ok(())))
    }
}

impl Far for Switch {
    fn name(&self) -> &'static str {
        "the switch of the hand-off"
    }

    fn is_there(&self, sender: &Sender) {
        self.sender.replace(Some(sender.clone()));
        for &rule in self.rules.borrow().values() {
            // Nobody waits for number 0.
            self.say(0, What::Install(rule));
        }
    }

    fn said(&self, message: Message) {
        if let Some(told) = self.asked.borrow_mut().remove(&message.id) {
            // Who asked may have stopped waiting.
            let _ = told.send(message.what);
        }
    }

    fn is_gone(&self) {
        self.sender.take();
        self.asked.take();
    }
}
