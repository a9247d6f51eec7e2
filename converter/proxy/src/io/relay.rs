//! Relays bytes between a client and a server until both have ended, one of them is reset, or the idle timeout.

use std::cell::{Cell, RefCell};
use std::future::{Future, pending, poll_fn};
use std::mem;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::buffers::Memory;
use super::pipe::{Early, Pipe, PipeState, Side, pipes};
use super::quiet::Quiet;
use super::stream::{Deadline, acknowledged};
use crate::io::conn::Conn;
use crate::observe::RelayResult;
use crate::offload::{Offloader, Pair};
use crate::upstream::{NextHop, Upstream};
use tributary_sys::{Multipath, Subflow};

/// Sends `reply` to the client, and relays until the end. `early` came from the client before. If the result is `Completed`,
/// the connections will be closed in order, but for one that carries frames: the next transfer may follow on the client's,
/// and the server's is kept. Otherwise both will be reset.
pub async fn relay(conn: &mut Conn, mut upstream: Upstream, reply: &[u8], mut early: Early) -> RelayResult {
    let deadline = Instant::now() + conn.config.timeouts.request;
    if conn.stream.send(reply, Some(deadline)).await.is_err() {
        return RelayResult::ClientGone;
    }
    // From now on the relay counts what waits.
    conn.permit.reserve(0);
    if upstream.early_sent {
        let sent = mem::take(&mut early.bytes).len() as u64;
        conn.stats().up.fetch_add(sent, Ordering::Relaxed);
    }
    let in_frames = early.frames.is_some();
    let said = upstream.take_early();
    let is_plain = !in_frames && said.frames.is_none();
    let context = RelayContext {
        hop: upstream.hop.as_deref(),
        ..RelayContext::of(conn)
    };
    let client = Side {
        stream: &conn.stream,
        early,
    };
    let server = Side {
        stream: &upstream.stream,
        early: said,
    };
    let mut pipes = pipes(client, server, context.memory, [context.up, context.down]);
    let offloader = conn.context.shared.offloader.as_deref();
    let offloader = offloader.filter(|_| conn.listener.listen.offload);
    if offloader.is_some() && !is_plain {
        conn.metrics().count_offload(Some("frames"));
    }
    let ended = match offloader.filter(|_| is_plain) {
        None => relay_pipes(&mut pipes, &context).await,
        // In a box, as few connections are offloaded.
        Some(offloader) => Box::pin(relay_and_offload(&mut pipes, &context, offloader, conn)).await,
    };
    let [_, trailer] = pipes.map(Pipe::into_trailer);
    if ended == RelayResult::Completed {
        if !in_frames {
            conn.stream.disarm();
        }
        upstream.finish(trailer);
    }
    ended
}

async fn relay_pipes(pipes: &mut [Pipe<'_>; 2], context: &RelayContext<'_>) -> RelayResult {
    let never = pending::<RelayResult>();
    match relay_until(pipes, context, &Cell::new(false), never).await {
        Relayed::Finished(ended) | Relayed::Stopped(ended) => {
            deliver(pipes, ended, context.half_closed).await;
            ended
        }
    }
}

/// What came before a reset is delivered before that is passed on (RFC 9110 section 9.3.6), which would discard it. Waits
/// until the other side has it, or acknowledges nothing for so long.
async fn deliver([up, down]: &[Pipe<'_>; 2], ended: RelayResult, most: Duration) {
    let pipe = match ended {
        RelayResult::ClientReset => up,
        RelayResult::ServerReset => down,
        _ => return,
    };
    // Otherwise its sink has taken nothing for so long already.
    if pipe.is_flushed() {
        acknowledged(pipe.sink(), most).await;
    }
}

/// Relays until the end, in the kernel once slow start is over and if that is possible.
async fn relay_and_offload(
    pipes: &mut [Pipe<'_>; 2],
    context: &RelayContext<'_>,
    offloader: &Offloader,
    conn: &Conn,
) -> RelayResult {
    let pair = Pair {
        sockets: pipes.each_ref().map(Pipe::source),
        marks: [None, conn.config.upstream.mark],
        counters: [context.up, context.down],
    };
    let flushed = Cell::new(false);
    let offload = offloader.offload(&pair, &flushed, conn.metrics());
    match relay_until(pipes, context, &flushed, offload).await {
        Relayed::Finished(ended) => {
            deliver(pipes, ended, context.half_closed).await;
            ended
        }
        Relayed::Stopped(taken_over) => {
            let timeouts = &conn.config.timeouts;
            offloader.watch(&pair, taken_over, timeouts).await
        }
    }
}

#[derive(Debug)]
pub enum Relayed<T> {
    Finished(RelayResult),
    /// It was stopped, with this value.
    Stopped(T),
}

/// Relays until the end or until `stop` is ready, which is polled whenever bytes may have moved. At these times `flushed` says
/// whether all that was read has been written, in both directions.
pub async fn relay_until<T>(
    [up, down]: &mut [Pipe<'_>; 2],
    context: &RelayContext<'_>,
    flushed: &Cell<bool>,
    stop: impl Future<Output = T>,
) -> Relayed<T> {
    let mut is_half = false;
    let mut stop = pin!(stop);
    let mut client_broke = pin!(up.source().ready(Interest::ERROR));
    let mut server_broke = pin!(down.source().ready(Interest::ERROR));
    let (mut client_is_broken, mut server_is_broken) = (false, false);
    let mut quiet = Quiet::begin();
    poll_fn(|cx| {
        let before = (up.moved(), down.moved());
        let up_state = up.poll(cx);
        down.take_note(up_state);
        let down_state = down.poll(cx);
        up.take_note(down_state);
        if before.1 != down.moved() {
            context.heard();
        }
        if let Some(ended) = verdict(up_state, down_state) {
            return Poll::Ready(Relayed::Finished(ended));
        }
        flushed.set(up_state == PipeState::Open && down_state == PipeState::Open);
        if let Poll::Ready(why) = stop.as_mut().poll(cx) {
            return Poll::Ready(Relayed::Stopped(why));
        }
        // A pipe that does not read, since its reader is slow or its writer has ended, would not see a reset. One whose
        // reader is slow comes to it behind what came before.
        let was_broken = client_is_broken || server_is_broken;
        if !client_is_broken && up_state != PipeState::Open {
            client_is_broken = client_broke.as_mut().poll(cx).is_ready();
        }
        if client_is_broken && up_state.is_over() {
            return Poll::Ready(Relayed::Finished(RelayResult::ClientReset));
        }
        if !server_is_broken && down_state != PipeState::Open {
            server_is_broken = server_broke.as_mut().poll(cx).is_ready();
        }
        if server_is_broken && down_state.is_over() {
            return Poll::Ready(Relayed::Finished(RelayResult::ServerReset));
        }
        let is_broken = client_is_broken || server_is_broken;
        if is_broken != was_broken || before != (up.moved(), down.moved()) {
            quiet = Quiet::begin();
        }
        let mut limit = context.idle;
        if is_broken {
            limit = context.half_closed;
        }
        if up_state.is_over() || down_state.is_over() {
            limit = context.half_closed;
            if !mem::replace(&mut is_half, true) {
                context.keep_subflows(up.source());
            }
        }
        let waiting = [(&*up, up_state), (&*down, down_state)]
            .map(|(pipe, state)| (state == PipeState::Open).then(|| pipe.source()));
        let silent = quiet.poll(cx, context.timer, limit, waiting);
        silent.map(|()| {
            Relayed::Finished(match (client_is_broken, server_is_broken) {
                (true, _) => RelayResult::ClientReset,
                (_, true) => RelayResult::ServerReset,
                _ => RelayResult::IdleTimeout,
            })
        })
    })
    .await
}

/// What two pipes come to. A server that broke off may have answered first, so that the way down goes on to its end,
/// and the same the other way round.
fn verdict(up: PipeState, down: PipeState) -> Option<RelayResult> {
    match (up, down) {
        (PipeState::Eof, PipeState::Eof) => Some(RelayResult::Completed),
        (PipeState::SourceReset, _) | (PipeState::Eof, PipeState::SinkReset) => Some(RelayResult::ClientReset),
        (_, PipeState::SourceReset) | (PipeState::SinkReset, PipeState::Eof | PipeState::SinkReset) => {
            Some(RelayResult::ServerReset)
        }
        _ => None,
    }
}

/// What a relay may use, and where it counts.
#[derive(Debug)]
pub struct RelayContext<'a> {
    /// For bytes on their way.
    pub memory: Memory<'a>,
    /// The client's.
    pub timer: &'a RefCell<Deadline>,
    /// Without a byte in either direction.
    pub idle: Duration,
    /// The same, once one side has ended.
    pub half_closed: Duration,
    /// Bytes that reached the server.
    pub up: &'a AtomicU64,
    /// Bytes that reached the client.
    pub down: &'a AtomicU64,
    /// The client's address, if its connection is one of MPTCP.
    pub client: Option<IpAddr>,
    /// For the client's subflows when the first direction ends.
    pub at_half: &'a RefCell<Vec<Subflow>>,
    /// The converter that the server's connection goes by, if it does.
    pub hop: Option<&'a NextHop>,
}

impl<'a> RelayContext<'a> {
    /// That of this client's connection.
    pub fn of(conn: &'a Conn) -> Self {
        Self {
            memory: Memory {
                budget: conn.permit.budget(),
                buffer: conn.config.limits.buffer,
            },
            timer: &conn.stream.timer,
            idle: conn.config.timeouts.idle,
            half_closed: conn.config.timeouts.half_closed,
            up: &conn.stats().up,
            down: &conn.stats().down,
            client: conn.is_mptcp.then(|| conn.client.ip()),
            at_half: &conn.at_half,
            hop: None,
        }
    }

    pub fn heard(&self) {
        if let Some(hop) = self.hop {
            hop.heard();
        }
    }

    fn keep_subflows(&self, client: &TcpStream) {
        let multipath = self.client.and_then(|address| Multipath::of(client.as_fd(), address));
        self.at_half.replace(multipath.unwrap_or_default().subflows);
    }
}

#[cfg(test)]
mod tests;
