//! One thread that accepts and carries connections. Every thread waits on every listener: who is idle accepts.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::{JoinHandle, LocalSet, spawn_local};
use tokio::time::sleep;

use tributary_wire::http::{Limits, Pseudonym};

use super::plan::{Bound, Plan};
use crate::accounts::Accounts;
use crate::admission::Admission;
use crate::cookies::Cookies;
use crate::dial::{Dialer, Names};
use crate::listeners;
use crate::rate_limit::RateLimit;
use crate::session::{Listener, Session, Surroundings};
use crate::sockets;
use crate::streams::Stream;

/// How long accepting pauses when there are no descriptors or no memory left.
const PAUSE: Duration = Duration::from_millis(100);
/// Refused clients that are told so at the same time, by each thread; more are reset.
const TOLD: usize = 256;
/// Convert errors a second, by each thread.
const ERRORS: u32 = 1000;

/// What all threads share.
#[derive(Debug)]
pub struct Shared {
    /// Connections and counters.
    pub accounts: Arc<Accounts>,
    /// Places and memory.
    pub admission: Arc<Admission>,
    /// For RFC 8803.
    pub cookies: Arc<Cookies>,
    /// This process' name in HTTP's Via.
    pub pseudonym: Pseudonym,
}

/// What the threads are to do.
#[derive(Clone, Debug)]
pub enum Phase {
    /// Accept by this plan.
    Serving(Arc<Plan>),
    /// Accept nobody; go on with those who are in.
    Draining,
    /// Reset who is still in, and end.
    Ended,
}

/// The thread's whole life.
pub fn work(shared: &Shared, mut phase: watch::Receiver<Phase>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    LocalSet::new().block_on(&runtime, async {
        let mut acceptors: Vec<Acceptor> = Vec::new();
        let draining = watch::Sender::new(false);
        loop {
            let now = phase.borrow_and_update().clone();
            match now {
                Phase::Serving(plan) => acceptors = start(&plan, shared, draining.subscribe())?,
                Phase::Draining => {
                    acceptors.clear();
                    draining.send_replace(true);
                }
                Phase::Ended => return Ok(()),
            }
            if phase.changed().await.is_err() {
                return Ok(());
            }
        }
    })
}

/// Ends when it is dropped.
struct Acceptor(JoinHandle<()>);

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn start(
    plan: &Arc<Plan>,
    shared: &Shared,
    draining: watch::Receiver<bool>,
) -> io::Result<Vec<Acceptor>> {
    let names = Names::new(&plan.config.names.servers);
    let surroundings = Rc::new(Surroundings {
        dialer: Dialer::new(names)?,
        accounts: Arc::clone(&shared.accounts),
        admission: Arc::clone(&shared.admission),
        cookies: Arc::clone(&shared.cookies),
        errors: RateLimit::per_second(ERRORS),
        http: Limits {
            head: plan.config.limits.head,
            ..Limits::new(shared.pseudonym.clone())
        },
        draining,
    });
    let entrance = |bound: &Arc<Bound>| {
        let entrance = Rc::new(Entrance::new(plan, bound, &surroundings));
        let socket: TcpListener = bound.socket.try_clone()?;
        let listener = tokio::net::TcpListener::from_std(socket)?;
        Ok(Acceptor(spawn_local(entrance.accept(listener))))
    };
    plan.bound.iter().map(entrance).collect()
}

/// One listener, as one thread serves it.
struct Entrance {
    plan: Arc<Plan>,
    listener: Rc<Listener>,
    surroundings: Rc<Surroundings>,
    /// Counts by its clones the refused clients that are being told.
    told: Rc<()>,
}

impl Entrance {
    fn new(plan: &Arc<Plan>, bound: &Bound, surroundings: &Rc<Surroundings>) -> Self {
        let listener = Listener {
            listen: bound.listen.clone(),
            label: bound.label.clone(),
            counters: Arc::clone(&bound.counters),
        };
        Self {
            plan: Arc::clone(plan),
            listener: Rc::new(listener),
            surroundings: Rc::clone(surroundings),
            told: Rc::new(()),
        }
    }

    async fn accept(self: Rc<Self>, listener: tokio::net::TcpListener) {
        loop {
            match listener.accept().await {
                Ok((stream, client)) => self.enter(stream, sockets::canonical(client)),
                Err(error) if lacks_resources(&error) => {
                    self.surroundings.accounts.metrics.accept_pauses.inc();
                    sleep(PAUSE).await;
                }
                // This one connection ended before it was accepted (accept(2)).
                Err(_) => {}
            }
        }
    }

    fn enter(&self, stream: TcpStream, client: SocketAddr) {
        self.listener.counters.accepted.inc();
        let stream = Stream::new(stream);
        match self
            .surroundings
            .admission
            .admit(client.ip(), &self.plan.config, self.plan.most)
        {
            Ok(ticket) => {
                let config = Arc::clone(&self.plan.config);
                let (listener, surroundings) =
                    (Rc::clone(&self.listener), Rc::clone(&self.surroundings));
                let session = Session::new(stream, client, listener, config, surroundings, ticket);
                spawn_local(listeners::serve(session));
            }
            Err(refusal) => {
                self.listener.counters.outcome(refusal.name());
                if let Some(last) = listeners::refuse(self.listener.listen.kind, refusal) {
                    self.tell(stream, last);
                }
            }
        }
    }

    fn tell(&self, stream: Stream, last: Vec<u8>) {
        if Rc::strong_count(&self.told) <= TOLD {
            let told = Rc::clone(&self.told);
            spawn_local(async move {
                stream.end_with(&last).await;
                drop(told);
            });
        }
    }
}

fn lacks_resources(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
    )
}
