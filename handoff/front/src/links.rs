use std::cell::Cell;
use std::hash::{BuildHasher as _, RandomState};
use std::rc::Rc;

use handoff_link::Role;
use tokio::net::UnixStream;
use tokio::task::{AbortHandle, spawn_local};

use crate::back_end::BackEnd;
use crate::reconnect::reconnect_forever;
use crate::settings::{Settings, SwitchAddress};
use crate::switch::Switch;

/// The links to the switch and the back ends, until this is dropped.
pub struct Links {
    pub(crate) switch: Rc<Switch>,
    pub(crate) back_ends: Vec<Rc<BackEnd>>,
    next: Cell<u64>,
    last_rule: Cell<u64>,
    tasks: Vec<AbortHandle>,
}

impl Links {
    pub fn start(settings: &Settings) -> Rc<Self> {
        let switch = Rc::new(Switch::new(settings.switch_sessions.clone()));
        let mut tasks = vec![connect_switch(&switch, settings)];
        let mut back_ends = vec![];
        for each in &settings.back_ends {
            let back_end = BackEnd::new(each);
            let (identity, address) = (settings.identity.clone(), each.fronts);
            let connect = async move || identity.connect(address, Role::BackEnd).await;
            let reconnect = reconnect_forever(Rc::clone(&back_end), connect);
            tasks.push(spawn_local(reconnect).abort_handle());
            back_ends.push(back_end);
        }
        Rc::new(Self {
            switch,
            back_ends,
            next: Cell::new(0),
            // Random: other threads and processes begin elsewhere.
            last_rule: Cell::new(RandomState::new().hash_one(0)),
            tasks,
        })
    }

    pub fn is_up(&self, back_end: usize) -> bool {
        self.load(back_end).is_some()
    }

    /// The connections of this front, of all its threads, at this back end; `None` if it cannot take any now.
    pub fn load(&self, back_end: usize) -> Option<usize> {
        let back_end = self.back_ends.get(back_end)?;
        (self.switch.is_up() && back_end.is_up()).then(|| back_end.load())
    }

    pub(crate) fn rule_number(&self) -> u64 {
        self.last_rule.set(self.last_rule.get().wrapping_add(1));
        self.last_rule.get()
    }

    pub(crate) fn number(&self) -> u64 {
        self.next.set(self.next.get() + 1);
        self.next.get()
    }
}

fn connect_switch(switch: &Rc<Switch>, settings: &Settings) -> AbortHandle {
    let identity = settings.identity.clone();
    let switch = Rc::clone(switch);
    match settings.switch.clone() {
        SwitchAddress::Unix(file) => {
            let connect = async move || UnixStream::connect(&file).await;
            spawn_local(reconnect_forever(switch, connect)).abort_handle()
        }
        SwitchAddress::Tcp(address) => {
            let connect = async move || identity.connect(address, Role::Switch).await;
            spawn_local(reconnect_forever(switch, connect)).abort_handle()
        }
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}
