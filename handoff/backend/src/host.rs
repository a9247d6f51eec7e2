//! Where fronts come in with their connections.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use handoff_link::{Identity, Sender, accepted, carry, queue};
use handoff_protocol::{Denial, Message, What};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;
use tributary_transplant::Frozen;

use crate::guest::{After, Guest, Server};
use crate::port::Port;
use crate::stay::{GivenBack, Ticket, Visit, stay};

/// What a host needs.
#[derive(Debug)]
pub struct Settings {
    /// Its certificate.
    pub identity: Identity,
    /// Where connections go on.
    pub port: Port,
    /// Guests at the same time, at most.
    pub most: usize,
    /// A guest may take so long for the next byte, either way.
    pub idle: Duration,
    /// This process' own number.
    pub number: u64,
}

/// Takes guests from fronts, and has a server serve them.
#[derive(Debug)]
pub struct Host<S> {
    settings: Settings,
    places: Arc<Semaphore>,
    server: Arc<S>,
}

impl<S: Server> Host<S> {
    /// Nobody is here yet.
    pub fn new(settings: Settings, server: Arc<S>) -> Arc<Self> {
        Arc::new(Self {
            places: Arc::new(Semaphore::new(settings.most)),
            settings,
            server,
        })
    }

    /// Takes fronts in for ever.
    pub async fn welcome(self: Arc<Self>, listener: TcpListener) {
        loop {
            let (stream, front) = accepted(|| listener.accept()).await;
            tokio::spawn(Arc::clone(&self).serve_front(stream, front));
        }
    }

    async fn serve_front(self: Arc<Self>, stream: TcpStream, front: SocketAddr) {
        let stream = match self.settings.identity.accept(stream).await {
            Ok(stream) => stream,
            Err(error) => return tracing::warn!("{front} is refused as a front: {error}"),
        };
        let (sender, outgoing) = queue();
        let mut guests = Guests::new(self, sender);
        let error = carry(stream, outgoing, |message| guests.take(message)).await;
        tracing::info!("front {front} has gone: {error}");
    }
}

/// What one front has brought. When the front goes, they finish their answers.
struct Guests<S: Server> {
    host: Arc<Host<S>>,
    front: Sender,
    here: HashMap<u64, AbortHandle>,
    given_back: Arc<GivenBack<S>>,
    last: u64,
}

impl<S: Server> Guests<S> {
    fn new(host: Arc<Host<S>>, front: Sender) -> Self {
        let guests = Self {
            host,
            front,
            here: HashMap::new(),
            given_back: Arc::default(),
            last: 0,
        };
        guests.say(guests.host.settings.number, What::Hello);
        guests
    }

    /// What is done is done when this returns: the next message may be about the same client.
    fn take(&mut self, message: Message) {
        let Message { id, what } = message;
        match what {
            What::Hand { frozen, bytes } => self.arrived(id, &frozen, bytes),
            What::Keep { turn } => self.stays(id, turn),
            What::Close { turn } => self.close(id, turn),
            What::Released => drop(self.given_back.take(id)),
            What::Abort => self.abort(id),
            // All others are a back end's own, or the switch's.
            _ => {}
        }
    }

    /// A number that was used is a message that came twice.
    fn arrived(&mut self, id: u64, frozen: &Frozen, bytes: Vec<u8>) {
        if id <= self.last {
            return;
        }
        self.last = id;
        self.here.retain(|_, task| !task.is_finished());
        match self.taken(frozen, bytes) {
            Ok(visit) => {
                // Before all that comes of it.
                self.say(id, What::Taken);
                self.serve(id, visit);
            }
            Err(denial) => self.say(id, What::Denied(denial)),
        }
    }

    fn taken(&self, frozen: &Frozen, bytes: Vec<u8>) -> Result<Visit<S>, Denial> {
        let place = Arc::clone(&self.host.places);
        let place = place.try_acquire_owned().map_err(|_| Denial::Full)?;
        let Settings { port, idle, .. } = &self.host.settings;
        let stream = port.thaw(frozen, *idle).map_err(|error| {
            tracing::warn!("the connection of {} is not taken: {error}", frozen.remote);
            Denial::System
        })?;
        Ok(Visit::new(Guest::new(stream, bytes, *idle), place))
    }

    fn ticket(&self, id: u64) -> Ticket<S> {
        Ticket {
            id,
            front: self.front.clone(),
            given_back: Arc::clone(&self.given_back),
        }
    }

    fn serve(&mut self, id: u64, visit: Visit<S>) {
        let ticket = self.ticket(id);
        let task = tokio::spawn(stay(visit, ticket, Arc::clone(&self.host.server)));
        self.here.insert(id, task.abort_handle());
    }

    fn close(&mut self, id: u64, turn: u32) {
        if let Some(visit) = self.given_back.take_kept(id, turn) {
            let ticket = self.ticket(id);
            let task = tokio::spawn(async move { ticket.close(visit).await });
            self.here.insert(id, task.abort_handle());
        }
    }

    fn stays(&mut self, id: u64, turn: u32) {
        if let Some(mut visit) = self.given_back.take_kept(id, turn) {
            // A socket that does not wake is a connection that breaks, as the first write will find.
            let _ = visit.wake();
            self.serve(id, visit);
        }
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

/// Serves clients that come by themselves, for ever: what a front relays, for one. Each may take as long as `idle` for the
/// next byte.
pub async fn serve_plain<S: Server>(
    listener: TcpListener,
    server: Arc<S>,
    most: usize,
    idle: Duration,
) {
    let places = Arc::new(Semaphore::new(most));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        let (stream, _) = accepted(|| listener.accept()).await;
        let server = Arc::clone(&server);
        tokio::spawn(async move {
            // An error of the socket's shows when it is read.
            let _ = stream.set_nodelay(true);
            serve_one(Guest::new(stream, Vec::new(), idle), server.as_ref()).await;
            drop(place);
        });
    }
}

async fn serve_one<S: Server>(mut guest: Guest, server: &S) {
    let mut kept = S::Kept::default();
    loop {
        match server.serve(&mut guest, &mut kept).await {
            After::Next => {}
            After::Close => return guest.close().await,
            After::Reset => {
                let _: io::Result<()> =
                    socket2::SockRef::from(&guest.stream).set_linger(Some(Duration::ZERO));
                return;
            }
        }
    }
}
