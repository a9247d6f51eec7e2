//! A session that is begun again whenever it is over, over a connection that is made again whenever it breaks.

use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::rc::Rc;
use std::time::Duration;

use handoff_link::{Broken, Sender, Session};
use handoff_protocol::{Message, What};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, sleep, timeout_at};

/// Between two attempts to connect, and for one.
const PAUSE: Duration = Duration::from_millis(200);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// What to do about the other end.
pub trait Far {
    /// It may be out of reach for so long. Then the session with it is over.
    const PATIENCE: Duration;
    /// For the log.
    fn name(&self) -> &str;
    /// It is there, for the first time or again; what is sent to it in this session goes this way.
    fn is_there(&self, sender: &Sender);
    /// It said this.
    fn said(&self, message: Message);
    /// It is out of reach.
    fn is_away(&self);
    /// The session is over: it knows nothing any more of what it was told.
    fn is_gone(&self);
}

/// Keeps `far` connected, for ever.
pub async fn stand<F: Far, S: AsyncRead + AsyncWrite + Unpin>(
    far: Rc<F>,
    connect: impl AsyncFn() -> io::Result<S>,
) {
    // The first time, and each time that it was there, is worth a line.
    let mut worth_telling = true;
    loop {
        let (broken, was_there) = session(far.as_ref(), &connect).await;
        if worth_telling || was_there {
            tracing::warn!("{} is away: {broken}", far.name());
        }
        worth_telling = false;
        sleep(PAUSE).await;
    }
}

/// One session. Why it is over, and whether it had begun.
async fn session<F: Far, S: AsyncRead + AsyncWrite + Unpin>(
    far: &F,
    connect: &impl AsyncFn() -> io::Result<S>,
) -> (Broken, bool) {
    let (sender, mut session) = Session::new();
    let number = RandomState::new().hash_one(0);
    let mut until = Instant::now() + CONNECT_TIMEOUT;
    loop {
        let attempt_ends = until.min(Instant::now() + CONNECT_TIMEOUT);
        let connected = timeout_at(attempt_ends, connected(connect, &session, number)).await;
        let broken = match connected {
            Ok(Ok((stream, heard))) => {
                far.is_there(&sender);
                let take = |message: Message| {
                    if !matches!(message.what, What::Alive { .. }) {
                        far.said(message);
                    }
                };
                let broken = session.carry(stream, heard, take).await;
                far.is_away();
                until = Instant::now() + F::PATIENCE;
                broken
            }
            Ok(Err(broken)) => broken,
            Err(_) => io::Error::from(io::ErrorKind::TimedOut).into(),
        };
        let has_begun = session.is_known();
        if !has_begun || is_over(&broken) || until <= Instant::now() {
            if has_begun {
                far.is_gone();
            }
            return (broken, has_begun);
        }
        tracing::info!("{} is out of reach: {broken}", far.name());
        sleep(PAUSE).await;
    }
}

/// A machine that is there and refuses to connect has no such process any more.
fn is_over(broken: &Broken) -> bool {
    match broken {
        Broken::Session(_) => true,
        Broken::Connection(error) => error.kind() == io::ErrorKind::ConnectionRefused,
    }
}

/// A connection, and which message its other end took last.
async fn connected<S: AsyncRead + AsyncWrite + Unpin>(
    connect: &impl AsyncFn() -> io::Result<S>,
    session: &Session,
    number: u64,
) -> Result<(S, u64), Broken> {
    let mut stream = connect().await?;
    let heard = session.greet(&mut stream, number).await?;
    Ok((stream, heard))
}
