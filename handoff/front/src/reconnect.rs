//! Keeps a remote end connected: resumes its session on a new connection, and begins a new session when the old one is
//! over.

use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::rc::Rc;
use std::time::Duration;

use handoff_link::{LinkError, Sender, Session};
use handoff_protocol::{Message, Payload};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, sleep, timeout_at};

/// Between two attempts to connect, and for one.
const RECONNECT_DELAY: Duration = Duration::from_millis(200);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// The events of a remote end.
pub trait RemoteEnd {
    /// A session that cannot be resumed within this time is over.
    const RESUME_TIMEOUT: Duration;
    /// For the log.
    fn name(&self) -> &str;
    /// It is connected, for the first time or again; `sender` is that of the session.
    fn on_connected(&self, sender: &Sender);
    fn on_message(&self, message: Message);
    fn on_disconnected(&self);
    /// The session is over: the remote end has lost its state.
    fn on_session_end(&self);
}

pub async fn reconnect_forever<F: RemoteEnd, S: AsyncRead + AsyncWrite + Unpin>(
    remote: Rc<F>,
    connect: impl AsyncFn() -> io::Result<S>,
) {
    // The first failure is logged, and each end of a session.
    let mut should_log = true;
    loop {
        let (error, had_begun) = session(remote.as_ref(), &connect).await;
        if should_log || had_begun {
            tracing::warn!("{} is away: {error}", remote.name());
        }
        should_log = false;
        sleep(RECONNECT_DELAY).await;
    }
}

/// Runs one session. Returns why it ended, and whether it had begun.
async fn session<F: RemoteEnd, S: AsyncRead + AsyncWrite + Unpin>(
    remote: &F,
    connect: &impl AsyncFn() -> io::Result<S>,
) -> (LinkError, bool) {
    let (sender, mut session) = Session::new();
    let number = RandomState::new().hash_one(0);
    let mut until = Instant::now() + CONNECT_TIMEOUT;
    loop {
        let attempt_ends = until.min(Instant::now() + CONNECT_TIMEOUT);
        let connected = timeout_at(attempt_ends, connected(connect, &session, number)).await;
        let error = match connected {
            Ok(Ok((stream, acknowledged))) => {
                remote.on_connected(&sender);
                let take = |message: Message| {
                    if !matches!(message.payload, Payload::Heartbeat { .. }) {
                        remote.on_message(message);
                    }
                };
                let error = session.run(stream, acknowledged, take).await;
                remote.on_disconnected();
                until = Instant::now() + F::RESUME_TIMEOUT;
                error
            }
            Ok(Err(error)) => error,
            Err(_) => io::Error::from(io::ErrorKind::TimedOut).into(),
        };
        let had_begun = session.has_begun();
        if !had_begun || is_over(&error) || until <= Instant::now() {
            if had_begun {
                remote.on_session_end();
            }
            return (error, had_begun);
        }
        tracing::info!("{} is disconnected: {error}", remote.name());
        sleep(RECONNECT_DELAY).await;
    }
}

/// If a machine refuses the connection, the process is gone.
fn is_over(error: &LinkError) -> bool {
    match error {
        LinkError::Session(_) => true,
        LinkError::Connection(error) => error.kind() == io::ErrorKind::ConnectionRefused,
    }
}

/// Connects; returns also the last message that the remote end received.
async fn connected<S: AsyncRead + AsyncWrite + Unpin>(
    connect: &impl AsyncFn() -> io::Result<S>,
    session: &Session,
    number: u64,
) -> Result<(S, u64), LinkError> {
    let mut stream = connect().await?;
    let acknowledged = session.connect(&mut stream, number).await?;
    Ok((stream, acknowledged))
}
