//! Accepts fronts, and the connections that they hand over.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use handoff_link::{Identity, LinkError, Sender, Session, accept_retrying, read_hello};
use handoff_protocol::{Message, Payload, Rejection};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::AbortHandle;
use tokio::time::sleep;
use tributary_offload::Checkpoint;

use crate::connection::{ClientConnection, Server};
use crate::port::Port;
use crate::serving::{FrontHandle, HandedConnection, WaitingConnections, serve};

/// How long a front may be disconnected before its session is over. A front that resumes in time gets the answers of all
/// its clients. It gives up itself earlier (`RESUME_TIMEOUT` in `handoff/front/src/back_end.rs`), counted from when it
/// notices; the rest is for a front that stalls, and notices later.
const RESUME_TIMEOUT: Duration = Duration::from_secs(12);
/// When draining: how often to check whether fronts have received everything, and for how long.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);
/// With fewer tasks, finished ones are not pruned.
const MIN_PRUNE: usize = 64;

pub struct Settings {
    pub identity: Identity,
    /// The address at which connections continue.
    pub port: Port,
    pub max_connections: u32,
    /// The longest time without a byte of a client's, in either direction.
    pub idle: Duration,
}

/// Accepts connections from fronts, and has a server serve them.
pub struct Acceptor<S: Server> {
    settings: Settings,
    permits: Arc<Semaphore>,
    server: Arc<S>,
    fronts: Mutex<FrontSessions<S>>,
}

/// By their numbers.
struct FrontSessions<S: Server> {
    sessions: HashMap<u64, Arc<FrontSession<S>>>,
    is_draining: bool,
}

impl<S: Server> Acceptor<S> {
    pub fn new(settings: Settings, server: Arc<S>) -> Arc<Self> {
        let fronts = FrontSessions {
            sessions: HashMap::new(),
            is_draining: false,
        };
        Arc::new(Self {
            permits: Arc::new(Semaphore::new(settings.max_connections as usize)),
            settings,
            server,
            fronts: Mutex::new(fronts),
        })
    }

    pub async fn accept_fronts(self: Arc<Self>, listener: TcpListener) {
        loop {
            let (stream, front) = accept_retrying(|| listener.accept()).await;
            tokio::spawn(Arc::clone(&self).serve_front(stream, front));
        }
    }

    /// Takes no more connections, tells fronts so, and waits until all connections are closed or returned.
    pub async fn drain(&self) {
        {
            let mut fronts = self.fronts();
            fronts.is_draining = true;
            fronts.sessions.values().for_each(|front| front.send_draining());
        }
        // The semaphore is never closed.
        let _ = self.permits.acquire_many(self.settings.max_connections).await;
        let flushed = async {
            while self.fronts().sessions.values().any(|front| front.sender.is_waiting()) {
                sleep(POLL_INTERVAL).await;
            }
        };
        let _ = tokio::time::timeout(FLUSH_TIMEOUT, flushed).await;
    }

    async fn serve_front(self: Arc<Self>, stream: TcpStream, address: SocketAddr) {
        let greeting = async {
            let mut stream = self.settings.identity.accept(stream).await?;
            let hello = read_hello(&mut stream).await?;
            io::Result::Ok((stream, hello))
        };
        let (stream, hello) = match greeting.await {
            Ok(greeted) => greeted,
            Err(error) => return tracing::warn!("{address} is refused as a front: {error}"),
        };
        let (front, mut newer) = self.session(hello.session);
        let Some(error) = front.run(stream, hello.acknowledged, &mut newer).await else {
            return;
        };
        tracing::info!("the connection of front {address} has ended: {error}");
        if matches!(error, LinkError::Connection(_)) {
            tokio::select! {
                _ = newer.changed() => return,
                () = sleep(RESUME_TIMEOUT) => {}
            }
        }
        self.forget(hello.session, &newer);
    }

    /// A front's session, new or resumed on another connection, and what tells of a newer connection.
    fn session(self: &Arc<Self>, session: u64) -> (Arc<FrontSession<S>>, watch::Receiver<()>) {
        let mut fronts = self.fronts();
        let is_draining = fronts.is_draining;
        let front = fronts.sessions.entry(session).or_insert_with(|| {
            let front = FrontSession::new(Arc::clone(self));
            if is_draining {
                front.send_draining();
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
            fronts.sessions.remove(&session);
        }
    }

    fn fronts(&self) -> MutexGuard<'_, FrontSessions<S>> {
        self.fronts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct FrontSession<S: Server> {
    sender: Sender,
    /// Tells of each connection of the session: the previous one then ends.
    connections: watch::Sender<()>,
    /// Locked by the connection that carries the session.
    state: tokio::sync::Mutex<State<S>>,
}

/// Fields are dropped in this order: the session ends before its connections learn of it.
struct State<S: Server> {
    session: Session,
    handed: HandedConnections<S>,
}

impl<S: Server> FrontSession<S> {
    fn new(acceptor: Arc<Acceptor<S>>) -> Self {
        let (sender, session) = Session::new();
        let handed = HandedConnections::new(acceptor, sender.clone());
        Self {
            sender,
            connections: watch::Sender::new(()),
            state: tokio::sync::Mutex::new(State { session, handed }),
        }
    }

    fn send_draining(&self) {
        let payload = Payload::Draining;
        self.sender.send(Message { id: 0, payload });
    }

    /// Runs until the connection breaks; `None` if there is a newer one.
    async fn run(
        &self,
        mut stream: impl AsyncRead + AsyncWrite + Unpin,
        acknowledged: u64,
        newer: &mut watch::Receiver<()>,
    ) -> Option<LinkError> {
        let carried = async {
            let mut state = self.state.lock().await;
            let State { session, handed } = &mut *state;
            match session.accept(&mut stream).await {
                Ok(()) => session.run(stream, acknowledged, |message| handed.take(message)).await,
                Err(error) => error.into(),
            }
        };
        tokio::select! {
            error = carried => Some(error),
            _ = newer.changed() => None,
        }
    }
}

/// The connections of one front. After its session they finish their answers.
struct HandedConnections<S: Server> {
    acceptor: Arc<Acceptor<S>>,
    front: Sender,
    tasks: HashMap<u64, AbortHandle>,
    /// With so many tasks, finished ones are pruned.
    prune_at: usize,
    waiting: Arc<WaitingConnections<S>>,
}

impl<S: Server> HandedConnections<S> {
    fn new(acceptor: Arc<Acceptor<S>>, front: Sender) -> Self {
        Self {
            acceptor,
            front,
            tasks: HashMap::new(),
            prune_at: MIN_PRUNE,
            waiting: Arc::default(),
        }
    }

    fn take(&mut self, message: Message) {
        let Message { id, payload } = message;
        match payload {
            Payload::HandOver { checkpoint, bytes } => self.hand_over(id, checkpoint, bytes),
            Payload::Serve => self.serve(id, Some(Payload::Accepted)),
            Payload::Keep => self.serve(id, None),
            Payload::Close => self.close(id),
            Payload::Release => self.release(id),
            Payload::Abort => self.abort(id),
            // Only back ends or switches send the others.
            _ => {}
        }
    }

    /// Restored when this returns: the next message may be about the same client. Meanwhile the switch gets the rule.
    fn hand_over(&mut self, id: u64, checkpoint: Box<Checkpoint>, bytes: Vec<u8>) {
        match self.restore(checkpoint, bytes) {
            Ok(handed) => self.waiting.put(id, handed),
            Err(rejection) => self.send(id, Payload::Rejected(rejection)),
        }
    }

    fn restore(&self, checkpoint: Box<Checkpoint>, bytes: Vec<u8>) -> Result<HandedConnection<S>, Rejection> {
        if self.acceptor.fronts().is_draining {
            return Err(Rejection::Draining);
        }
        let permit = Arc::clone(&self.acceptor.permits).try_acquire_owned();
        let permit = permit.map_err(|_| Rejection::Full)?;
        let restored = self.acceptor.settings.restore(checkpoint, bytes, permit);
        restored.map_err(|error| {
            tracing::warn!("the connection of a client is not accepted: {error}");
            Rejection::System
        })
    }

    fn session(&self, id: u64) -> FrontHandle<S> {
        FrontHandle {
            id,
            front: self.front.clone(),
            waiting: Arc::clone(&self.waiting),
        }
    }

    /// Runs a task for a connection until it is aborted.
    fn spawn(&mut self, id: u64, work: impl Future<Output = ()> + Send + 'static) {
        if self.tasks.len() >= self.prune_at {
            self.tasks.retain(|_, task| !task.is_finished());
            // Pruning then costs constant time per connection.
            self.prune_at = MIN_PRUNE.max(2 * self.tasks.len());
        }
        self.tasks.insert(id, tokio::spawn(work).abort_handle());
    }

    /// Serves the next request of a connection that has waited; the `reply` comes before any other message about it.
    fn serve(&mut self, id: u64, reply: Option<Payload>) {
        let Some(mut handed) = self.waiting.take(id) else {
            return;
        };
        // If the socket cannot leave repair mode the first write fails.
        let _ = handed.resume();
        let (front, server) = (self.session(id), Arc::clone(&self.acceptor.server));
        self.spawn(id, async move {
            if let Some(reply) = reply {
                front.send(reply);
            }
            serve(handed, front, server).await;
        });
    }

    fn close(&mut self, id: u64) {
        if let Some(handed) = self.waiting.take(id) {
            let front = self.session(id);
            self.spawn(id, async move { front.close(handed).await });
        }
    }

    /// Closed when this returns: the next message may be about the same client.
    fn release(&mut self, id: u64) {
        let has_all = self.waiting.take(id).is_none_or(HandedConnection::release);
        let late = Payload::Rejected(Rejection::Late);
        self.send(id, if has_all { Payload::Done } else { late });
    }

    fn abort(&mut self, id: u64) {
        if let Some(task) = self.tasks.remove(&id) {
            task.abort();
        }
        if let Some(mut handed) = self.waiting.take(id) {
            // Otherwise it would close silently.
            let _ = handed.resume();
        }
    }

    fn send(&self, id: u64, payload: Payload) {
        // A front that does not receive it loses all of them.
        self.front.send(Message { id, payload });
    }
}

impl<S: Server> Drop for HandedConnections<S> {
    fn drop(&mut self) {
        for handed in self.waiting.take_all() {
            tokio::spawn(handed.end());
        }
    }
}

impl Settings {
    fn restore<S: Server>(
        &self,
        checkpoint: Box<Checkpoint>,
        bytes: Vec<u8>,
        permit: OwnedSemaphorePermit,
    ) -> io::Result<HandedConnection<S>> {
        let stream = self.port.restore(&checkpoint, self.idle)?;
        // Not the back end's own address: the client connected to the front's.
        let ends = [checkpoint.remote, checkpoint.local];
        let client = ClientConnection::new(stream, ends, bytes, self.idle);
        Ok(HandedConnection::new(client, checkpoint, permit))
    }
}
