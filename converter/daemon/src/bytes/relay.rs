//! Moves bytes between a client and a server until both have ended, one of them broke off, or nothing moved for long.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::AtomicU64;
use std::task::Poll;

use tokio::io::Interest;
use tokio::net::TcpStream;

use crate::accounting::metrics::WHOLE;
use crate::bytes::context::RelayContext;
use crate::bytes::flow::{Flow, FlowState, MessageBody};
use crate::bytes::idle_timer::IdleTimer;

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
    context: &RelayContext<'_>,
    half: impl FnOnce(),
) -> Ended {
    let up = Flow::new(client, server, context, context.up, asked);
    let down = Flow::new(server, client, context, context.down, said);
    both(up, down, context, half).await
}

/// Moves the content of one message, which `body` follows, from its writer to its reader; `early` of it came already.
pub async fn transfer(
    from: &TcpStream,
    to: &TcpStream,
    early: &[u8],
    body: MessageBody<'_>,
    context: &RelayContext<'_>,
    counter: &AtomicU64,
) -> FlowState {
    let mut flow = match Flow::of_message(from, to, early, body, context, counter) {
        Ok(flow) => flow,
        Err(over) => return over,
    };
    let mut writer_broke = pin!(from.ready(Interest::ERROR));
    let mut idle_timer = IdleTimer::begin();
    poll_fn(|cx| {
        let before = flow.moved();
        let state = flow.poll(cx);
        if state == FlowState::Clogged && writer_broke.as_mut().poll(cx).is_ready() {
            return Poll::Ready(FlowState::WriterBroke);
        }
        if state != FlowState::Open && state != FlowState::Clogged {
            return Poll::Ready(state);
        }
        if before != flow.moved() {
            idle_timer.broken();
        }
        idle_timer
            .poll_after(cx, context.idle)
            .map(|()| FlowState::Silent)
    })
    .await
}

async fn both(
    mut up: Flow<'_>,
    mut down: Flow<'_>,
    context: &RelayContext<'_>,
    half: impl FnOnce(),
) -> Ended {
    let mut half = Some(half);
    let mut client_broke = pin!(up.writer().ready(Interest::ERROR));
    let mut server_broke = pin!(down.writer().ready(Interest::ERROR));
    let mut idle_timer = IdleTimer::begin();
    poll_fn(|cx| {
        let before = (up.moved(), down.moved());
        let up_state = up.poll(cx);
        if up_state == FlowState::ReaderBroke {
            down.writer_is_dead();
        }
        let down_state = down.poll(cx);
        if down_state == FlowState::ReaderBroke {
            up.writer_is_dead();
        }
        if let Some(ended) = verdict(up_state, down_state) {
            return Poll::Ready(ended);
        }
        // A flow that does not read, since its reader is slow or its writer has ended, would not see a reset.
        if up_state != FlowState::Open && client_broke.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Ended::ClientReset);
        }
        if down_state != FlowState::Open && server_broke.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Ended::ServerReset);
        }
        if before != (up.moved(), down.moved()) {
            idle_timer.broken();
        }
        let mut limit = context.idle;
        if up_state.is_over() || down_state.is_over() {
            limit = context.half_closed;
            if let Some(half) = half.take() {
                half();
            }
        }
        idle_timer.poll_after(cx, limit).map(|()| Ended::Silent)
    })
    .await
}

/// What two flows come to. A server that broke off may have answered first, so that the way down goes on to its end,
/// and the same the other way round.
fn verdict(up: FlowState, down: FlowState) -> Option<Ended> {
    match (up, down) {
        (FlowState::Ended, FlowState::Ended) => Some(Ended::Whole),
        (FlowState::WriterBroke, _) | (FlowState::Ended, FlowState::ReaderBroke) => {
            Some(Ended::ClientReset)
        }
        (_, FlowState::WriterBroke)
        | (FlowState::ReaderBroke, FlowState::Ended | FlowState::ReaderBroke) => {
            Some(Ended::ServerReset)
        }
        _ => None,
    }
}
