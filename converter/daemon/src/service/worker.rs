//! One thread that accepts and carries connections. Every thread waits on every listener: who is idle accepts.

use std::cell::RefCell;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, LocalSet, spawn_local};
use tokio::time::sleep;

use tributary_wire::http::{Limits, Pseudonym};

use super::plan::{Bound, Plan};
use crate::accounts::Accounts;
use crate::admission::Admission;
use crate::cookies::Cookies;
use crate::dial::{Dialer, Names};
use crate::early::Early;
use crate::listeners;
use crate::rate_limit::RateLimit;
use crate::route::Routes;
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
    /// Connections that were begun when a SYN came.
    pub early: Arc<Early>,
    /// For RFC 8803.
    pub cookies: Arc<Cookies>,
    /// This process' name in HTTP's Via.
    pub pseudonym: Pseudonym,
    /// The number of this process, in `pseudonym` and in Convert messages, which no other has.
    pub number: u64,
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

/// The thread's whole life. Tells `reach` of each phase that it came to, and what of it could not be done.
pub fn work(
    shared: &Shared,
    mut phase: watch::Receiver<Phase>,
    reach: &mpsc::UnboundedSender<io::Result<()>>,
) {
    let life = async {
        let routes = Rc::new(Routes::open()?);
        let draining = watch::Sender::new(false);
        let mut doors = Vec::new();
        loop {
            let now = phase.borrow_and_update().clone();
            let came = match now {
                Phase::Serving(plan) => {
                    let surroundings = surroundings(&plan, shared, &routes, draining.subscribe());
                    serve(&plan, &Rc::new(surroundings), &mut doors).await
                }
                Phase::Draining => {
                    close(std::mem::take(&mut doors)).await;
                    draining.send_replace(true);
                    Ok(())
                }
                Phase::Ended => return Ok(()),
            };
            // Without the main thread there is no next phase either.
            let _ = reach.send(came);
            if phase.changed().await.is_err() {
                return Ok(());
            }
        }
    };
    let lived = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .and_then(|runtime| LocalSet::new().block_on(&runtime, life));
    if lived.is_err() {
        let _ = reach.send(lived);
    }
}

fn surroundings(
    plan: &Plan,
    shared: &Shared,
    routes: &Rc<Routes>,
    draining: watch::Receiver<bool>,
) -> Surroundings {
    let names = Names::new(&plan.config.names.servers);
    Surroundings {
        dialer: Dialer::new(
            names,
            Rc::clone(routes),
            Arc::clone(&plan.next_hops),
            shared.number,
        ),
        accounts: Arc::clone(&shared.accounts),
        admission: Arc::clone(&shared.admission),
        early: Arc::clone(&shared.early),
        cookies: Arc::clone(&shared.cookies),
        errors: RateLimit::per_second(ERRORS),
        http: Limits {
            head: plan.config.limits.head,
            ..Limits::new(shared.pseudonym.clone())
        },
        draining,
    }
}

/// Goes by `plan`: the doors that it has too stay open, and take no descriptor anew. The first error; all that works
/// is done.
async fn serve(
    plan: &Arc<Plan>,
    surroundings: &Rc<Surroundings>,
    doors: &mut Vec<Door>,
) -> io::Result<()> {
    let mut result = Ok(());
    let mut old = std::mem::take(doors);
    for bound in &plan.bound {
        let entrance = Rc::new(Entrance::new(plan, bound, surroundings));
        let same = |door: &Door| Arc::ptr_eq(&door.socket, &bound.socket);
        if let Some(at) = old.iter().position(same) {
            old[at].entrance.replace(entrance);
            doors.push(old.swap_remove(at));
            continue;
        }
        match Door::open(&bound.socket, entrance) {
            Ok(door) => doors.push(door),
            Err(error) => result = result.and(Err(error)),
        }
    }
    close(old).await;
    result
}

/// Ends when nobody accepts there any more, and no listening socket is held.
async fn close(doors: Vec<Door>) {
    for door in doors {
        door.accepting.abort();
        // It was cancelled: that is no error here.
        let _ = door.accepting.await;
    }
}

/// A listening socket at which this thread accepts.
struct Door {
    socket: Arc<TcpListener>,
    /// Where those who are accepted go.
    entrance: Rc<RefCell<Rc<Entrance>>>,
    accepting: JoinHandle<()>,
}

impl Door {
    /// Raises what dup(2) does.
    fn open(socket: &Arc<TcpListener>, entrance: Rc<Entrance>) -> io::Result<Self> {
        let listener = tokio::net::TcpListener::from_std(socket.try_clone()?)?;
        let entrance = Rc::new(RefCell::new(entrance));
        Ok(Self {
            socket: Arc::clone(socket),
            entrance: Rc::clone(&entrance),
            accepting: spawn_local(accept(listener, entrance)),
        })
    }
}

async fn accept(listener: tokio::net::TcpListener, entrance: Rc<RefCell<Rc<Entrance>>>) {
    loop {
        let accepted = listener.accept().await;
        let entrance = Rc::clone(&entrance.borrow());
        match accepted {
            Ok((stream, client)) => entrance.enter(stream, sockets::canonical(client)),
            Err(error) if lacks_resources(&error) => {
                entrance.surroundings.accounts.metrics.accept_pauses.inc();
                sleep(PAUSE).await;
            }
            // This one connection ended before it was accepted (accept(2)).
            Err(_) => {}
        }
    }
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
            label: Arc::clone(&bound.label),
            counters: Arc::clone(&bound.counters),
        };
        Self {
            plan: Arc::clone(plan),
            listener: Rc::new(listener),
            surroundings: Rc::clone(surroundings),
            told: Rc::new(()),
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
