//! All standing connections of a front.

use std::cell::Cell;
use std::net::{SocketAddr, SocketAddrV4};
use std::path::PathBuf;
use std::rc::Rc;

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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackEnd {
    /// For the log.
    pub name: String,
    /// Where it takes fronts in.
    pub fronts: SocketAddr,
    /// Where connections go on that are handed to it.
    pub hand_off: SocketAddrV4,
}

/// The connections. They end with this.
pub struct Links {
    pub(crate) switch: Rc<Switch>,
    pub(crate) back_ends: Vec<Rc<back_end::BackEnd>>,
    next: Cell<u64>,
    tasks: Vec<AbortHandle>,
}

impl Links {
    /// Begins to connect.
    pub fn start(settings: &Settings) -> Rc<Self> {
        let switch = Rc::new(Switch::default());
        let mut tasks = vec![stand_by_switch(Rc::clone(&switch), settings)];
        let mut back_ends = vec![];
        for each in &settings.back_ends {
            let back_end = back_end::BackEnd::new(&each.name, each.hand_off);
            let (identity, address) = (settings.identity.clone(), each.fronts);
            let standing = stand(Rc::clone(&back_end), async move || {
                identity.connect(address, Role::BackEnd).await
            });
            tasks.push(spawn_local(standing).abort_handle());
            back_ends.push(back_end);
        }
        Rc::new(Self {
            switch,
            back_ends,
            next: Cell::new(0),
            tasks,
        })
    }

    /// Whether connections can be handed to this back end now.
    pub fn is_up(&self, back_end: usize) -> bool {
        self.switch.is_up()
            && self
                .back_ends
                .get(back_end)
                .is_some_and(|each| each.is_up())
    }

    /// Of the next hand-over.
    pub(crate) fn number(&self) -> u64 {
        self.next.set(self.next.get() + 1);
        self.next.get()
    }
}

fn stand_by_switch(switch: Rc<Switch>, settings: &Settings) -> AbortHandle {
    let identity = settings.identity.clone();
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
