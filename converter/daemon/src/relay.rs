//! Moves bytes between a client and a server until both have ended, one of them broke off, or nothing moved for long.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::AtomicU64;
use std::task::Poll;
use std::time::Duration;

use tokio::io::Interest;
use tokio::net::TcpStream;

use crate::buffers::Budget;
use crate::flow::{Content, Flow, State};
use crate::metrics::WHOLE;
use crate::silence::Silence;

/// How a relay ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Both sides ended their direction.
    Whole,
    /// The client broke off.
    ClientReset,
    /// The server broke off.
    ServerReset,
    /// Nothing moved for too long.
    Silent,
}

/// What a relay may use, and where it counts.
#[derive(Debug)]
pub struct Terms<'a> {
    /// For bytes that a slow reader leaves.
    pub budget: &'a Budget,
    /// Bytes moved at a time.
    pub buffer: usize,
    /// Without a byte in either direction.
    pub idle: Duration,
    /// The same, once one side has ended.
    pub half_closed: Duration,
    /// Bytes that reached the server.
    pub up: &'a AtomicU64,
    /// Bytes that reached the client.
    pub down: &'a AtomicU64,
}

impl Ended {
    /// For logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Whole => WHOLE,
            Self::ClientReset => "client-reset",
            Self::ServerReset => "server-reset",
            Self::Silent => "silent",
        }
    }
}

/// Relays until the end. `asked` came from the client already and goes to the server first, and `said` the other way
/// round. `half` is called once, when the first of the two directions ends. What has not ended whole is for the caller
/// to reset.
pub async fn relay(
    client: &TcpStream,
    server: &TcpStream,
    asked: &[u8],
    said: &[u8],
    terms: &Terms<'_>,
    half: impl FnOnce(),
) -> Ended {
    let up = Flow::new(client, server, terms, terms.up, asked);
    let down = Flow::new(server, client, terms, terms.down, said);
    both(up, down, terms, half).await
}

/// Moves the content of one message, which `content` follows, from its writer to its reader; `early` of it came already.
pub async fn transfer(
    from: &TcpStream,
    to: &TcpStream,
    early: &[u8],
    content: Content<'_>,
    terms: &Terms<'_>,
    counter: &AtomicU64,
) -> State {
    let mut flow = match Flow::of_content(from, to, early, content, terms, counter) {
        Ok(flow) => flow,
        Err(over) => return over,
    };
    let mut writer_broke = pin!(from.ready(Interest::ERROR));
    let mut silence = Silence::begin();
    poll_fn(|cx| {
        let before = flow.moved();
        let state = flow.poll(cx);
        if state == State::Clogged && writer_broke.as_mut().poll(cx).is_ready() {
            return Poll::Ready(State::WriterBroke);
        }
        if state != State::Open && state != State::Clogged {
            return Poll::Ready(state);
        }
        if before != flow.moved() {
            silence.broken();
        }
        silence.poll_after(cx, terms.idle).map(|()| State::Silent)
    })
    .await
}

async fn both(
    mut up: Flow<'_>,
    mut down: Flow<'_>,
    terms: &Terms<'_>,
    half: impl FnOnce(),
) -> Ended {
    let mut half = Some(half);
    let mut client_broke = pin!(up.writer().ready(Interest::ERROR));
    let mut server_broke = pin!(down.writer().ready(Interest::ERROR));
    let mut silence = Silence::begin();
    poll_fn(|cx| {
        let before = (up.moved(), down.moved());
        let up_state = up.poll(cx);
        if up_state == State::ReaderBroke {
            down.writer_is_dead();
        }
        let down_state = down.poll(cx);
        if down_state == State::ReaderBroke {
            up.writer_is_dead();
        }
        if let Some(ended) = verdict(up_state, down_state) {
            return Poll::Ready(ended);
        }
        // A flow that does not read, since its reader is slow or its writer has ended, would not see a reset.
        if up_state != State::Open && client_broke.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Ended::ClientReset);
        }
        if down_state != State::Open && server_broke.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Ended::ServerReset);
        }
        if before != (up.moved(), down.moved()) {
            silence.broken();
        }
        let mut patience = terms.idle;
        if up_state.is_over() || down_state.is_over() {
            patience = terms.half_closed;
            if let Some(half) = half.take() {
                half();
            }
        }
        silence.poll_after(cx, patience).map(|()| Ended::Silent)
    })
    .await
}

/// What two flows come to. A server that broke off may have answered first, so that the way down goes on to its end,
/// and the same the other way round.
fn verdict(up: State, down: State) -> Option<Ended> {
    match (up, down) {
        (State::Ended, State::Ended) => Some(Ended::Whole),
        (State::WriterBroke, _) | (State::Ended, State::ReaderBroke) => Some(Ended::ClientReset),
        (_, State::WriterBroke) | (State::ReaderBroke, State::Ended | State::ReaderBroke) => {
            Some(Ended::ServerReset)
        }
        _ => None,
    }
}
