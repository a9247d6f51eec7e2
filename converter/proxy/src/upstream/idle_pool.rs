//! Connections that wait for a request: to servers, the client's own while it has one, then anybody's of the same listener;
//! and those to next converters.

use std::cell::RefCell;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::task::{spawn_local, unconstrained};
use tokio::time::{Instant, Interval, interval};
use tributary_proto::http::Authority;

use super::Upstream;
use super::fd_pool::{FdPermit, FdPool};
use crate::config::Reuse;

pub struct ServerConnection {
    authority: Authority,
    /// The same as text.
    pub name: Rc<str>,
    /// The connection; the size that its way was chosen by until the log has that.
    pub server: Upstream,
    /// What came and is not used yet.
    pub inbox: Vec<u8>,
    /// Nobody but the client that it was opened for may use it.
    pub is_private: bool,
    established: Instant,
    /// Since when it waits for the next request.
    rests_since: Instant,
}

/// A server that ends a connection which has rested for so long may do so at the very moment at which a request is sent.
/// Servers' own limits begin at some two seconds.
const RESTED: Duration = Duration::from_secs(1);

impl ServerConnection {
    pub fn new(authority: Authority, name: Rc<str>, mut server: Upstream) -> Self {
        let now = Instant::now();
        Self {
            inbox: std::mem::take(&mut server.early),
            // Its way is that of requests of this size.
            is_private: server.size.is_some(),
            authority,
            name,
            server,
            established: now,
            rests_since: now,
        }
    }

    /// One to the next converter, which was established at this time and waits for a transfer.
    pub(super) fn to_hop(hop: SocketAddr, server: Upstream, established: Instant) -> Self {
        let mut made = Self {
            established,
            ..Self::new(hop.into(), Rc::from(""), server)
        };
        made.rest();
        made
    }

    /// Whether it is by way of a converter from which nothing comes.
    pub fn is_cut_off(&self) -> bool {
        let hop = self.server.hop.as_ref();
        hop.is_some_and(|hop| hop.is_lost())
    }

    pub(super) fn established(&self) -> Instant {
        self.established
    }

    /// It waits for the next request: to drop it closes it in order, and it holds no memory.
    fn rest(&mut self) {
        self.server.stream.disarm();
        self.inbox = Vec::new();
        self.rests_since = Instant::now();
    }
}

/// What one client leaves between its requests: dropped with it, it goes to the listener's others.
pub struct IdleUpstream {
    connection: Option<Box<ServerConnection>>,
    pool: Rc<IdlePool>,
}

impl IdleUpstream {
    /// Nothing yet.
    pub fn of(pool: &Rc<IdlePool>) -> Self {
        Self {
            connection: None,
            pool: Rc::clone(pool),
        }
    }

    /// It waits for this client's next request.
    pub fn keep(&mut self, mut connection: Box<ServerConnection>) {
        connection.rest();
        self.release();
        self.connection = Some(connection);
    }

    /// A connection to `authority` that waits, if one can serve a request which may be sent again if that fails, or may not.
    /// In that case the client's own must have served it just now: the server will hardly end it at this moment (RFC 9112
    /// section 9.3.1). `by_its_size`: only the client's own, since a new one may go another way.
    pub fn take(
        &mut self,
        authority: &Authority,
        repeatable: bool,
        by_its_size: bool,
    ) -> Option<Box<ServerConnection>> {
        if let Some(own) = self.connection.take() {
            let can_serve = own.authority == *authority && (repeatable || own.rests_since.elapsed() < RESTED);
            if !can_serve {
                self.pool.park(own, None);
            } else if is_unspent(&own, repeatable) {
                return Some(rearmed(own));
            }
            // One that is not quiet is closed: to look took a byte of what its server said unasked.
        }
        if by_its_size {
            return None;
        }
        self.pool.take(authority, repeatable)
    }

    /// This client will not use it.
    pub fn release(&mut self) {
        if let Some(own) = self.connection.take() {
            self.pool.park(own, None);
        }
    }

    /// Closes it if its server has ended it or said something unasked (RFC 9112 section 9.5). Woken once one does.
    pub fn poll(&mut self, cx: &mut Context<'_>) {
        self.connection
            .take_if(|own| own.server.stream.poll_disturbed(cx).is_ready());
    }
}

impl Drop for IdleUpstream {
    fn drop(&mut self) {
        self.release();
    }
}

/// Whether its server has neither ended it nor said anything. Where a request may be sent again the event loop's word will do,
/// which costs nothing.
fn is_unspent(connection: &ServerConnection, repeatable: bool) -> bool {
    let stream = &connection.server.stream;
    stream.is_quiet() && (repeatable || stream.is_silent())
}

fn rearmed(mut connection: Box<ServerConnection>) -> Box<ServerConnection> {
    connection.server.stream.rearm();
    connection
}

/// How long the connections of a pool are kept.
#[derive(Clone, Copy)]
pub struct Limits {
    /// After their client has left.
    pub(super) rest: Duration,
    /// In all.
    age: Duration,
}

/// Names and routes are asked again now and then.
pub const TO_SERVERS: Limits = Limits {
    rest: Duration::from_secs(5),
    age: Duration::from_secs(60),
};

/// A congestion window may rest for five minutes (RFC 7661 section 4.4); the next converter waits for three times as long
/// as this. What has fallen back from MPTCP, or goes by a route that is no longer the best, does so for ten minutes.
pub const TO_HOPS: Limits = Limits {
    rest: Duration::from_secs(10),
    age: Duration::from_secs(600),
};

const SWEEP: Duration = Duration::from_secs(1);
/// To one server, and in all.
const MOST_OF_SERVER: usize = 64;
const MOST: usize = 256;

/// Of one thread: needs no lock. That of servers' connections is one listener's, and never another one's. Each connection in
/// it takes a descriptor beyond the two that every client's is sure of.
pub struct IdlePool {
    reuse: Reuse,
    limits: Limits,
    fd_pool: FdPool,
    /// In the order in which their clients left: few enough to be looked through.
    parked: RefCell<Vec<(Box<ServerConnection>, FdPermit)>>,
    /// Of [`watch`].
    waker: RefCell<Waker>,
}

impl IdlePool {
    /// An empty one, which is watched from now on. To be called on a thread that serves.
    pub fn watched(reuse: Reuse, limits: Limits, fd_pool: FdPool) -> Rc<Self> {
        let pool = Rc::new(Self {
            reuse,
            limits,
            fd_pool,
            parked: RefCell::default(),
            waker: RefCell::new(Waker::noop().clone()),
        });
        if reuse != Reuse::Never {
            spawn_local(watch(Rc::downgrade(&pool)));
        }
        pool
    }

    /// The right to one more descriptor, if many are free.
    pub(super) fn fd_permit(&self) -> Option<FdPermit> {
        self.fd_pool.one_of_many()
    }

    /// Keeps a connection that waits, if there is room, and a `permit` or one to be had; closes it otherwise.
    pub(super) fn park(&self, connection: Box<ServerConnection>, permit: Option<FdPermit>) {
        let mut parked = self.parked.borrow_mut();
        let may_serve = !connection.is_private && connection.established.elapsed() < self.limits.age;
        if self.reuse == Reuse::Never || !may_serve {
            return;
        }
        let for_same = |(other, _): &(Box<ServerConnection>, _)| other.authority == connection.authority;
        let of_server = parked.iter().filter(|each| for_same(each)).count();
        if of_server >= MOST_OF_SERVER {
            let oldest = parked.iter().position(for_same);
            oldest.map(|at| parked.remove(at));
        } else if parked.len() >= MOST {
            parked.remove(0);
        }
        let Some(permit) = permit.or_else(|| self.fd_permit()) else {
            return;
        };
        let waker = self.waker.borrow();
        if is_disturbed(&connection, &mut Context::from_waker(&waker)) {
            return;
        }
        parked.push((connection, permit));
        if parked.len() == 1 {
            waker.wake_by_ref();
        }
    }

    /// The one that was used last: those that nobody needs any more grow old.
    pub(super) fn take(&self, authority: &Authority, repeatable: bool) -> Option<Box<ServerConnection>> {
        if !repeatable && self.reuse != Reuse::Always {
            return None;
        }
        let mut parked = self.parked.borrow_mut();
        while let Some(at) = parked.iter().rposition(|(each, _)| each.authority == *authority) {
            let (connection, _) = parked.remove(at);
            if connection.server.stream.is_silent() {
                return Some(rearmed(connection));
            }
        }
        None
    }

    /// Closes those to this server that wait.
    pub(super) fn discard(&self, authority: &Authority) {
        let mut parked = self.parked.borrow_mut();
        parked.retain(|(each, _)| each.authority != *authority);
    }

    /// Closes those that their servers have ended, and those that nobody has used for too long.
    fn sweep(&self, cx: &mut Context<'_>) {
        self.parked.borrow_mut().retain(|(connection, _)| {
            connection.rests_since.elapsed() < self.limits.rest && !is_disturbed(connection, cx)
        });
    }

    fn is_empty(&self) -> bool {
        self.parked.borrow().is_empty()
    }
}

impl Drop for IdlePool {
    /// [`watch`] ends.
    fn drop(&mut self) {
        self.waker.borrow().wake_by_ref();
    }
}

/// Woken once it is. Not within the task's budget: when that is used up, nothing would watch the connection.
fn is_disturbed(connection: &ServerConnection, cx: &mut Context<'_>) -> bool {
    let stream = &connection.server.stream;
    let disturbed = unconstrained(poll_fn(|cx| stream.poll_disturbed(cx)));
    pin!(disturbed).poll(cx).is_ready()
}

/// Sweeps the pool whenever one of its servers has something to say, and each second while it has any; sleeps otherwise.
async fn watch(pool: Weak<IdlePool>) {
    let mut ticks: Option<Interval> = None;
    poll_fn(|cx| {
        let Some(pool) = pool.upgrade() else {
            return Poll::Ready(());
        };
        pool.waker.borrow_mut().clone_from(cx.waker());
        pool.sweep(cx);
        if pool.is_empty() {
            ticks = None;
        } else {
            let ticks = ticks.get_or_insert_with(|| interval(SWEEP));
            while ticks.poll_tick(cx).is_ready() {}
        }
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests;
