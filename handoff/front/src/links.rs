//! All standing connections of a front.

use std::cell::Cell;
use std::hash::{BuildHasher as _, RandomState};
use std::net::{SocketAddr, SocketAddrV4};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use handoff_link::{Identity, Role};
use tokio::net::UnixStream;
use tokio::task::{AbortHandle, spawn_local};

use crate::back_end;
use crate::standing::stand;
use crate::switch::Switch;

/// Where the switch and the back ends are.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The front's certificate.
    pub identity: Identity,
    /// Where the switch is.
    pub switch: Place,
    /// The back ends; they go by their numbers in this list.
    pub back_ends: Vec<BackEnd>,
}

/// Where a switch is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// On this machine: a Unix socket.
    File(PathBuf),
    /// Elsewhere, by mTLS.
    Address(SocketAddr),
}

/// Where a back end is.
#[derive(Clone, Debug)]
pub struct BackEnd {
    /// For the log.
    pub name: String,
    /// Where it takes fronts in.
    pub fronts: SocketAddr,
    /// Where connections go on that are handed to it.
    pub hand_off: SocketAddrV4,
    /// How many connections all threads with these settings have there.
    pub connections: Arc<AtomicUsize>,
}

/// The connections. They end with this.
pub struct Links {
    pub(crate) switch: Rc<Switch>,
    pub(crate) back_ends: Vec<Rc<back_end::BackEnd>>,
    next: Cell<u64>,
    next_rule: Cell<u64>,
    tasks: Vec<AbortHandle>,
}

impl Links {
    /// Begins to connect.
    pub fn start(settings: &Settings) -> Rc<Self> {
        let switch = Rc::new(Switch::default());
        let mut tasks = vec![stand_by_switch(&switch, settings)];
        let mut back_ends = vec![];
        for each in &settings.back_ends {
            let back_end = back_end::BackEnd::new(each);
            let (identity, address) = (settings.identity.clone(), each.fronts);
            let connect = async move || identity.connect(address, Role::BackEnd).await;
            let standing = stand(Rc::clone(&back_end), connect);
            tasks.push(spawn_local(standing).abort_handle());
            back_ends.push(back_end);
        }
        Rc::new(Self {
            switch,
            back_ends,
            next: Cell::new(0),
            // From anywhere: those of another thread or process are elsewhere.
            next_rule: Cell::new(RandomState::new().hash_one(0)),
            tasks,
        })
    }

    /// Whether connections can be handed to this back end now.
    pub fn is_up(&self, back_end: usize) -> bool {
        self.load(back_end).is_some()
    }

    /// How many connections of this front, of all its threads, are at this back end; `None` if none can be handed to it now.
    pub fn load(&self, back_end: usize) -> Option<usize> {
        let back_end = self.back_ends.get(back_end)?;
        (self.switch.is_up() && back_end.is_up()).then(|| back_end.load())
    }

    /// Of the next rule.
    pub(crate) fn rule_number(&self) -> u64 {
        self.next_rule.set(self.next_rule.get().wrapping_add(1));
        self.next_rule.get()
    }

    /// Of the next hand-over.
    pub(crate) fn number(&self) -> u64 {
        self.next.set(self.next.get() + 1);
        self.next.get()
    }
}

fn stand_by_switch(switch: &Rc<Switch>, settings: &Settings) -> AbortHandle {
    let identity = settings.identity.clone();
    let switch = Rc::clone(switch);
    match settings.switch.clone() {
        Place::File(file) => {
            let connect = async move || UnixStream::connect(&file).await;
            spawn_local(stand(switch, connect)).abort_handle()
        }
        Place::Address(address) => {
            let connect = async move || identity.connect(address, Role::Switch).await;
            spawn_local(stand(switch, connect)).abort_handle()
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
