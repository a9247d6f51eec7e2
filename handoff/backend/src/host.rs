//! Where fronts come in with their connections.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use handoff_link::{Broken, Identity, Sender, Session, accepted, greeted};
use handoff_protocol::{Denial, Message, What};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::AbortHandle;
use tokio::time::sleep;
use tributary_offload::Checkpoint;

use crate::guest::{Guest, Server};
use crate::port::Port;
use crate::stay::{GivenBack, Ticket, Visit, stay};

/// A front may be out of reach for so long: one that takes up its session again has all of its clients' answers. It gives
/// them up itself after less (`PATIENCE` in `handoff/front/src/back_end.rs`), counted from when it notices; the rest is for a
/// front that stalls, and notices later.
const PATIENCE: Duration = Duration::from_secs(12);
/// Between two looks whether fronts have heard all, and how long they may take when this process ends.
const LOOK: Duration = Duration::from_millis(10);
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Below so many tasks nobody looks which have finished.
const FEW: usize = 64;

/// What a host needs.
#[derive(Debug)]
pub struct Settings {
    /// Its certificate.
    pub identity: Identity,
    /// Where connections go on.
    pub port: Port,
    /// Guests at the same time, at most.
    pub most: u32,
    /// A guest may take so long for the next byte, either way.
    pub idle: Duration,
}

/// Takes guests from fronts, and has a server serve them.
pub struct Host<S: Server> {
    settings: Settings,
    places: Arc<Semaphore>,
    server: Arc<S>,
    fronts: Mutex<Fronts<S>>,
}

/// The sessions with fronts, by their numbers.
struct Fronts<S: Server> {
    known: HashMap<u64, Arc<Front<S>>>,
    is_leaving: bool,
}

impl<S: Server> Host<S> {
    /// Nobody is here yet.
    pub fn new(settings: Settings, server: Arc<S>) -> Arc<Self> {
        let fronts = Fronts {
            known: HashMap::new(),
            is_leaving: false,
        };
        Arc::new(Self {
            places: Arc::new(Semaphore::new(settings.most as usize)),
            settings,
            server,
            fronts: Mutex::new(fronts),
        })
    }

    /// Takes fronts in for ever.
    pub async fn welcome(self: Arc<Self>, listener: TcpListener) {
        loop {
            let (stream, front) = accepted(|| listener.accept()).await;
            tokio::spawn(Arc::clone(&self).serve_front(stream, front));
        }
    }

    /// Takes no more guests, and has fronts go elsewhere; ready when all guests have gone.
    pub async fn leave(&self) {
        {
            let mut fronts = self.fronts();
            fronts.is_leaving = true;
            fronts.known.values().for_each(|front| front.say_leaving());
        }
        // It is never closed.
        let _ = self.places.acquire_many(self.settings.most).await;
        let heard = async {
            while self
                .fronts()
                .known
                .values()
                .any(|front| front.say.is_waiting())
            {
                sleep(LOOK).await;
            }
        };
        let _ = tokio::time::timeout(LAST_WORDS, heard).await;
    }

    async fn serve_front(self: Arc<Self>, stream: TcpStream, address: SocketAddr) {
        let greeted = async {
            let mut stream = self.settings.identity.accept(stream).await?;
            let greeting = greeted(&mut stream).await?;
            io::Result::Ok((stream, greeting))
        };
        let (stream, greeting) = match greeted.await {
            Ok(greeted) => greeted,
            Err(error) => return tracing::warn!("{address} is refused as a front: {error}"),
        };
        let (front, mut newer) = self.front(greeting.session);
        let Some(broken) = front.carry(stream, greeting.taken, &mut newer).await else {
            return;
        };
        tracing::info!("the connection of front {address} has ended: {broken}");
        if matches!(broken, Broken::Connection(_)) {
            tokio::select! {
                _ = newer.changed() => return,
                () = sleep(PATIENCE) => {}
            }
        }
        self.forget(greeting.session, &newer);
    }

    /// A front's session, which goes on by another connection, or begins; with what changes when there is a newer one.
    fn front(self: &Arc<Self>, session: u64) -> (Arc<Front<S>>, watch::Receiver<()>) {
        let mut fronts = self.fronts();
        let is_leaving = fronts.is_leaving;
        let front = fronts.known.entry(session).or_insert_with(|| {
            let front = Front::new(Arc::clone(self));
            if is_leaving {
                front.say_leaving();
            }
            Arc::new(front)
        });
        front.connections.send_replace(());
        (Arc::clone(front), front.connections.subscribe())
    }

    /// Unless there is a newer connection.
    fn forget(&self, session: u64, newer: &watch::Receiver<()>) {
        let mut fronts = self.fronts();
        if newer.has_changed().is_ok_and(|changed| !changed) {
            fronts.known.remove(&session);
        }
    }

    fn fronts(&self) -> MutexGuard<'_, Fronts<S>> {
        self.fronts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session with a front.
struct Front<S: Server> {
    say: Sender,
    /// Tells of each connection that comes for it: the one before is to end.
    connections: watch::Sender<()>,
    /// Whoever carries it.
    state: tokio::sync::Mutex<State<S>>,
}

/// The session ends before its guests are told so.
struct State<S: Server> {
    session: Session,
    guests: Guests<S>,
}

impl<S: Server> Front<S> {
    fn new(host: Arc<Host<S>>) -> Self {
        let (sender, session) = Session::new();
        let guests = Guests::new(host, sender.clone());
        Self {
            say: sender,
            connections: watch::Sender::new(()),
            state: tokio::sync::Mutex::new(State { session, guests }),
        }
    }

    fn say_leaving(&self) {
        let what = What::Leaving;
        self.say.send(Message { id: 0, what });
    }

    /// Until the connection breaks; `None` if a newer one has come.
    async fn carry(
        &self,
        mut stream: impl AsyncRead + AsyncWrite + Unpin,
        heard: u64,
        newer: &mut watch::Receiver<()>,
    ) -> Option<Broken> {
        let carried = async {
            let mut state = self.state.lock().await;
            let State { session, guests } = &mut *state;
            match session.answer(&mut stream).await {
                Ok(()) => {
                    session
                        .carry(stream, heard, |message| guests.take(message))
                        .await
                }
                Err(error) => error.into(),
            }
        };
        tokio::select! {
            broken = carried => Some(broken),
            _ = newer.changed() => None,
        }
    }
}

/// What one front has brought. When its session is over, they finish their answers.
struct Guests<S: Server> {
    host: Arc<Host<S>>,
    front: Sender,
    here: HashMap<u64, AbortHandle>,
    /// With so many here, it is time to look which have finished.
    many: usize,
    given_back: Arc<GivenBack<S>>,
}

impl<S: Server> Guests<S> {
    fn new(host: Arc<Host<S>>, front: Sender) -> Self {
        Self {
            host,
            front,
            here: HashMap::new(),
            many: FEW,
            given_back: Arc::default(),
        }
    }

    fn take(&mut self, message: Message) {
        let Message { id, what } = message;
        match what {
            What::Hand { frozen, bytes } => self.arrived(id, frozen, bytes),
            What::Keep => self.stays(id),
            What::Close => self.close(id),
            What::Released => self.released(id),
            What::Abort => self.abort(id),
            // All others are a back end's own, or the switch's.
            _ => {}
        }
    }

    fn arrived(&mut self, id: u64, frozen: Box<Checkpoint>, bytes: Vec<u8>) {
        if self.host.fronts().is_leaving {
            return self.say(id, What::Denied(Denial::Leaving));
        }
        let Ok(place) = Arc::clone(&self.host.places).try_acquire_owned() else {
            return self.say(id, What::Denied(Denial::Full));
        };
        let (host, ticket) = (Arc::clone(&self.host), self.ticket(id));
        // Many may come at the same time, and all others' messages behind them.
        self.spawn(id, async move {
            match host.settings.thaw(&frozen, bytes, place) {
                Ok(visit) => {
                    // Before all that comes of it.
                    ticket.say(What::Taken);
                    stay(visit, ticket, Arc::clone(&host.server)).await;
                }
                Err(error) => {
                    tracing::warn!("the connection of {} is not taken: {error}", frozen.remote);
                    ticket.say(What::Denied(Denial::System));
                }
            }
        });
    }

    fn ticket(&self, id: u64) -> Ticket<S> {
        Ticket {
            id,
            front: self.front.clone(),
            given_back: Arc::clone(&self.given_back),
        }
    }

    /// Does something about a guest, until it is aborted.
    fn spawn(&mut self, id: u64, work: impl Future<Output = ()> + Send + 'static) {
        if self.here.len() >= self.many {
            self.here.retain(|_, task| !task.is_finished());
            // So that each look is paid for by as many guests that came.
            self.many = FEW.max(2 * self.here.len());
        }
        self.here.insert(id, tokio::spawn(work).abort_handle());
    }

    fn serve(&mut self, id: u64, visit: Visit<S>) {
        let (ticket, server) = (self.ticket(id), Arc::clone(&self.host.server));
        self.spawn(id, stay(visit, ticket, server));
    }

    fn close(&mut self, id: u64) {
        if let Some(visit) = self.given_back.take(id) {
            let ticket = self.ticket(id);
            self.spawn(id, async move { ticket.close(visit).await });
        }
    }

    fn stays(&mut self, id: u64) {
        if let Some(mut visit) = self.given_back.take(id) {
            // A socket that does not wake is a connection that breaks, as the first write will find.
            let _ = visit.wake();
            self.serve(id, visit);
        }
    }

    /// It is gone when this returns: the next message may be about the same client.
    fn released(&mut self, id: u64) {
        let has_all = self.given_back.take(id).is_none_or(Visit::let_go);
        let late = What::Denied(Denial::Late);
        self.say(id, if has_all { What::Done } else { late });
    }

    fn abort(&mut self, id: u64) {
        if let Some(task) = self.here.remove(&id) {
            task.abort();
        }
        if let Some(mut visit) = self.given_back.take(id) {
            // Otherwise its end would say nothing.
            let _ = visit.wake();
        }
    }

    fn say(&self, id: u64, what: What) {
        // Of a front that does not take it, all are given up.
        self.front.send(Message { id, what });
    }
}

impl<S: Server> Drop for Guests<S> {
    fn drop(&mut self) {
        for visit in self.given_back.take_all() {
            tokio::spawn(visit.end());
        }
    }
}

impl Settings {
    fn thaw<S: Server>(
        &self,
        frozen: &Checkpoint,
        bytes: Vec<u8>,
        place: OwnedSemaphorePermit,
    ) -> io::Result<Visit<S>> {
        let stream = self.port.thaw(frozen, self.idle)?;
        // Not this end's own: the client connected to the front's.
        let ends = [frozen.remote, frozen.local];
        let guest = Guest::new(stream, ends, bytes, self.idle);
        Ok(Visit::new(guest, place))
    }
}
