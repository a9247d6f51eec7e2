//! Relays bytes between a client and a server until both have ended, one of them is reset, or the idle timeout.

use std::cell::{Cell, RefCell};
use std::future::{Future, pending, poll_fn};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::pin::pin;
use std::sync::atomic::AtomicU64;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::buffers::{Budget, BufferedWriter, LITTLE};
use super::stream::{IdleTimer, poll_read};
use crate::io::conn::Conn;
use crate::kernel::sockets;
use crate::observe::RelayResult;
use crate::offload::{Offloader, Pair};
use crate::upstream::Upstream;
use tributary_sys::{Multipath, Subflow};

/// Sends `reply` to the client, and relays until the end. `early` was read from the client before. Unless the result is
/// `Completed`, both connections will be reset.
pub async fn relay(
    conn: &mut Conn,
    upstream: &mut Upstream,
    reply: &[u8],
    early: Vec<u8>,
) -> RelayResult {
    let deadline = Instant::now() + conn.config.timeouts.request;
    if conn.stream.send(reply, Some(deadline)).await.is_err() {
        return RelayResult::ClientGone;
    }
    // From now on the relay counts what waits.
    conn.permit.reserve(0);
    let asked = if upstream.early_sent {
        Vec::new()
    } else {
        early
    };
    let said = std::mem::take(&mut upstream.early);
    let context = RelayContext::of(conn);
    let pipes = pipes(&conn.stream, &upstream.stream, asked, said, &context);
    let offloader = conn.context.shared.offloader.as_deref();
    let ended = match offloader.filter(|_| conn.listener.listen.offload) {
        None => relay_pipes(pipes, &context).await,
        Some(offloader) => relay_and_offload(pipes, &context, offloader, conn).await,
    };
    if ended == RelayResult::Completed {
        conn.stream.disarm();
        upstream.stream.disarm();
    }
    ended
}

/// Relays until the end.
async fn relay_pipes(pipes: [Pipe<'_>; 2], context: &RelayContext<'_>) -> RelayResult {
    let never = pending::<RelayResult>();
    match relay_until(pipes, context, &Cell::new(false), never).await {
        Relayed::Finished(ended) | Relayed::Stopped(ended) => ended,
    }
}

/// Relays until the end, in the kernel once slow start is over and if that is possible.
async fn relay_and_offload(
    pipes: [Pipe<'_>; 2],
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
        Relayed::Finished(ended) => ended,
        Relayed::Stopped(taken_over) => {
            let timeouts = &conn.config.timeouts;
            offloader.watch(&pair, taken_over, timeouts).await
        }
    }
}

/// The two pipes between a client and a server: up and down.
pub fn pipes<'a>(
    client: &'a TcpStream,
    server: &'a TcpStream,
    asked: Vec<u8>,
    said: Vec<u8>,
    context: &'a RelayContext<'a>,
) -> [Pipe<'a>; 2] {
    [
        Pipe::new(client, server, context, context.up, asked),
        Pipe::new(server, client, context, context.down, said),
    ]
}

/// Why a relay is over.
#[derive(Debug)]
pub enum Relayed<T> {
    /// It ended by itself.
    Finished(RelayResult),
    /// It was stopped, with this value.
    Stopped(T),
}

/// Relays until the end or until `stop` is ready, which is polled whenever bytes may have moved. At these times `flushed` says
/// whether all that was read has been written, in both directions.
pub async fn relay_until<T>(
    [mut up, mut down]: [Pipe<'_>; 2],
    context: &RelayContext<'_>,
    flushed: &Cell<bool>,
    stop: impl Future<Output = T>,
) -> Relayed<T> {
    let mut is_half = false;
    let mut stop = pin!(stop);
    let mut client_broke = pin!(up.source().ready(Interest::ERROR));
    let mut server_broke = pin!(down.source().ready(Interest::ERROR));
    let mut idle_timer = IdleTimer::default();
    poll_fn(|cx| {
        let before = (up.moved(), down.moved());
        let up_state = up.poll(cx);
        if up_state == PipeState::SinkReset {
            down.mark_source_dead();
        }
        let down_state = down.poll(cx);
        if down_state == PipeState::SinkReset {
            up.mark_source_dead();
        }
        if let Some(ended) = verdict(up_state, down_state) {
            return Poll::Ready(Relayed::Finished(ended));
        }
        flushed.set(up_state == PipeState::Open && down_state == PipeState::Open);
        if let Poll::Ready(why) = stop.as_mut().poll(cx) {
            return Poll::Ready(Relayed::Stopped(why));
        }
        // A pipe that does not read, since its reader is slow or its writer has ended, would not see a reset.
        if up_state != PipeState::Open && client_broke.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Relayed::Finished(RelayResult::ClientReset));
        }
        if down_state != PipeState::Open && server_broke.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Relayed::Finished(RelayResult::ServerReset));
        }
        if before != (up.moved(), down.moved()) {
            idle_timer.restart();
        }
        let mut limit = context.idle;
        if up_state.is_over() || down_state.is_over() {
            limit = context.half_closed;
            if !std::mem::replace(&mut is_half, true) {
                context.keep_subflows(up.source());
            }
        }
        let silent = idle_timer.poll_after(cx, limit);
        silent.map(|()| Relayed::Finished(RelayResult::IdleTimeout))
    })
    .await
}

/// What two pipes come to. A server that broke off may have answered first, so that the way down goes on to its end,
/// and the same the other way round.
fn verdict(up: PipeState, down: PipeState) -> Option<RelayResult> {
    match (up, down) {
        (PipeState::Eof, PipeState::Eof) => Some(RelayResult::Completed),
        (PipeState::SourceReset, _) | (PipeState::Eof, PipeState::SinkReset) => {
            Some(RelayResult::ClientReset)
        }
        (_, PipeState::SourceReset)
        | (PipeState::SinkReset, PipeState::Eof | PipeState::SinkReset) => {
            Some(RelayResult::ServerReset)
        }
        _ => None,
    }
}

/// What a relay may use, and where it counts.
#[derive(Debug)]
pub struct RelayContext<'a> {
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
    /// The client's address.
    pub client: IpAddr,
    /// For the client's subflows when the first direction ends.
    pub at_half: &'a RefCell<Vec<Subflow>>,
}

impl<'a> RelayContext<'a> {
    /// That of this client's connection.
    pub fn of(conn: &'a Conn) -> Self {
        Self {
            budget: conn.permit.budget(),
            buffer: conn.config.limits.buffer,
            idle: conn.config.timeouts.idle,
            half_closed: conn.config.timeouts.half_closed,
            up: &conn.stats().up,
            down: &conn.stats().down,
            client: conn.client.ip(),
            at_half: &conn.at_half,
        }
    }

    fn keep_subflows(&self, client: &TcpStream) {
        let multipath = Multipath::of(client.as_fd(), self.client);
        self.at_half.replace(multipath.unwrap_or_default().subflows);
    }

    /// How much to read at a time for this reader. What it does not take of it is kept for it.
    pub fn read_size(&self, sink: &BufferedWriter<'_>) -> usize {
        if self.budget.is_exhausted() {
            LITTLE.min(self.buffer)
        } else {
            self.buffer.min(sink.room())
        }
    }
}

/// How often a pipe may fill its buffer before others have their turn.
pub const TURNS: usize = 8;

/// The state of a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PipeState {
    /// It waits for bytes.
    Open,
    /// Its sink has not taken everything yet.
    Blocked,
    /// Its source ended, and its sink has been given all data and the end.
    Eof,
    /// Its source was reset.
    SourceReset,
    /// Its sink was reset.
    SinkReset,
}

impl PipeState {
    /// Whether its sink gets nothing more, while the other direction may go on.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Eof | Self::SinkReset)
    }
}

/// One direction.
pub struct Pipe<'a> {
    from: &'a TcpStream,
    to: &'a TcpStream,
    sink: BufferedWriter<'a>,
    over: Option<PipeState>,
    source_is_dead: bool,
    context: &'a RelayContext<'a>,
}

impl<'a> Pipe<'a> {
    /// Makes a pipe; `early` was read from the source before.
    pub fn new(
        from: &'a TcpStream,
        to: &'a TcpStream,
        context: &'a RelayContext<'a>,
        counter: &'a AtomicU64,
        early: Vec<u8>,
    ) -> Self {
        let mut sink = BufferedWriter::new(to, context.budget, counter);
        sink.queue(early);
        Self {
            from,
            to,
            sink,
            over: None,
            source_is_dead: false,
            context,
        }
    }

    /// The socket that bytes are read from.
    pub fn source(&self) -> &'a TcpStream {
        self.from
    }

    /// A write to the source failed and consumed the error that a read would have returned: the end of its data is no
    /// orderly end.
    pub fn mark_source_dead(&mut self) {
        self.source_is_dead = true;
    }

    /// Bytes that reached the sink.
    pub fn moved(&self) -> u64 {
        self.sink.moved()
    }

    /// Moves what can be moved now.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> PipeState {
        if let Some(over) = self.over {
            return over;
        }
        match self.poll_moving(cx) {
            Poll::Ready(over) => {
                self.over = Some(over);
                over
            }
            Poll::Pending if self.sink.is_flushed() => PipeState::Open,
            Poll::Pending => PipeState::Blocked,
        }
    }

    fn poll_moving(&mut self, cx: &mut Context<'_>) -> Poll<PipeState> {
        for _ in 0..TURNS {
            if ready!(self.sink.poll_flush(cx)).is_err() {
                return Poll::Ready(PipeState::SinkReset);
            }
            match ready!(self.poll_read(cx)) {
                Ok(0) => return Poll::Ready(self.end()),
                Ok(_) => {}
                Err(over) => return Poll::Ready(over),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Reads once, and writes as much as the sink takes at once.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, PipeState>> {
        let (from, sink) = (self.from, &mut self.sink);
        let size = self.context.read_size(sink);
        let read = poll_read(from, cx, size, |bytes| {
            sink.write(bytes).map(|()| bytes.len())
        });
        read.map(|read| match read {
            Ok(passed) => passed.map_err(|_| PipeState::SinkReset),
            Err(_) => Err(PipeState::SourceReset),
        })
    }

    /// The source ended: ends the sink, too.
    fn end(&self) -> PipeState {
        if self.source_is_dead {
            PipeState::SourceReset
        } else if sockets::end_writing(self.to).is_ok() {
            PipeState::Eof
        } else {
            PipeState::SinkReset
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpStream as Peer};
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::io::buffers::Budget;
    use crate::io::loopback;

    /// Rows: what became of the way up, of the way down, and of the connection.
    #[test]
    fn a_connection_ends_by_what_its_two_ways_come_to() {
        use PipeState::{Blocked, Eof, Open, SinkReset, SourceReset};
        let (whole, client, server) = (
            Some(super::RelayResult::Completed),
            Some(super::RelayResult::ClientReset),
            Some(super::RelayResult::ServerReset),
        );
        for (up, down, verdict_) in [
            (Open, Open, None),
            (Open, Blocked, None),
            (Blocked, Blocked, None),
            (Eof, Open, None),
            (Open, Eof, None),
            (Eof, Blocked, None),
            (Eof, Eof, whole),
            // The client is gone: nothing that the server says has a reader.
            (SourceReset, Open, client),
            (SourceReset, Blocked, client),
            (SourceReset, Eof, client),
            (SourceReset, SourceReset, client),
            (Eof, SinkReset, client),
            // The server takes no more, and may have said why.
            (SinkReset, Open, None),
            (SinkReset, Blocked, None),
            (SinkReset, Eof, server),
            (SinkReset, SourceReset, server),
            (SinkReset, SinkReset, server),
            (Open, SourceReset, server),
            (Eof, SourceReset, server),
            (Blocked, SourceReset, server),
            // The client takes no more, and may still have something to say.
            (Open, SinkReset, None),
        ] {
            assert_eq!(verdict(up, down), verdict_, "{up:?} {down:?}");
        }
    }

    /// Relays between two pairs of sockets; `client` and `server` play their parts on threads of their own.
    fn play(
        client: impl FnOnce(Peer) + Send + 'static,
        server: impl FnOnce(Peer) + Send + 'static,
        early: (&[u8], &[u8]),
    ) -> (super::RelayResult, u64, u64) {
        let (budget, up, down) = (
            Budget::new(1 << 20),
            AtomicU64::default(),
            AtomicU64::default(),
        );
        let ended = loopback::block_on(async {
            let (client_end, near) = loopback::pair();
            let (server_end, far) = loopback::pair();
            let threads = [
                thread::spawn(move || client(client_end)),
                thread::spawn(move || server(server_end)),
            ];
            let context = RelayContext {
                budget: &budget,
                buffer: 64 << 10,
                idle: Duration::from_millis(500),
                half_closed: Duration::from_millis(200),
                up: &up,
                down: &down,
                client: IpAddr::from([127, 0, 0, 1]),
                at_half: &RefCell::default(),
            };
            let (near, far) = (near.into_tokio(), far.into_tokio());
            let early = [early.0.to_vec(), early.1.to_vec()];
            let [asked, said] = early;
            let ended = relay_pipes(pipes(&near, &far, asked, said, &context), &context).await;
            if ended != super::RelayResult::Completed {
                crate::kernel::sockets::reset_on_close(&near);
                crate::kernel::sockets::reset_on_close(&far);
            }
            drop((near, far));
            for thread in threads {
                thread.join().expect("a peer that is content");
            }
            ended
        });
        assert_eq!(budget.used(), 0, "all memory is back");
        (
            ended,
            up.load(Ordering::Relaxed),
            down.load(Ordering::Relaxed),
        )
    }

    /// `stop` is asked when bytes have moved, and knows whether all that was read was written.
    #[test]
    fn a_relay_can_be_stopped_when_it_holds_nothing() {
        let (budget, up, down) = (
            Budget::new(1 << 20),
            AtomicU64::default(),
            AtomicU64::default(),
        );
        loopback::block_on(async {
            let ((mut client, near), (mut server, far)) = (loopback::pair(), loopback::pair());
            let (near, far) = (near.into_tokio(), far.into_tokio());
            let context = RelayContext {
                budget: &budget,
                buffer: 64 << 10,
                idle: Duration::from_secs(10),
                half_closed: Duration::from_secs(10),
                up: &up,
                down: &down,
                client: IpAddr::from([127, 0, 0, 1]),
                at_half: &RefCell::default(),
            };
            client.write_all(b"asks").expect("taken");
            let flushed = Cell::new(false);
            let stop = poll_fn(|_| {
                if flushed.get() && up.load(Ordering::Relaxed) == 4 {
                    Poll::Ready("enough")
                } else {
                    Poll::Pending
                }
            });
            let pipes = pipes(&near, &far, Vec::new(), Vec::new(), &context);
            let relayed = relay_until(pipes, &context, &flushed, stop).await;
            assert!(matches!(relayed, Relayed::Stopped("enough")), "{relayed:?}");
            let mut came = [0; 4];
            server.read_exact(&mut came).expect("it was written");
            assert_eq!(&came, b"asks");
        });
        assert_eq!(budget.used(), 0);
    }

    fn all_of(mut peer: &Peer) -> Vec<u8> {
        let mut all = Vec::new();
        peer.read_to_end(&mut all).expect("an end in order");
        all
    }

    fn reset(peer: Peer) {
        crate::kernel::sockets::reset_on_close(&peer);
        drop(peer);
    }

    #[test]
    fn what_came_early_goes_first_and_each_way_ends_alone() {
        let (ended, up, down) = play(
            |mut client| {
                client.write_all(b"asks").expect("taken");
                client.shutdown(Shutdown::Write).expect("open");
                assert_eq!(all_of(&client), b"HELLO answers");
            },
            |mut server| {
                assert_eq!(all_of(&server), b"early asks");
                server.write_all(b" answers").expect("taken");
            },
            (b"early ", b"HELLO"),
        );
        assert_eq!((ended, up, down), (super::RelayResult::Completed, 10, 13));
    }

    /// All of it is there before the relay begins, so that no later event makes up for a read that stopped too soon.
    #[test]
    fn urgent_data_are_passed_on_in_their_place_and_hold_nothing_back() {
        let (budget, up, down) = (
            Budget::new(1 << 20),
            AtomicU64::default(),
            AtomicU64::default(),
        );
        loopback::block_on(async {
            let (mut client, near) = loopback::pair();
            let (mut server, far) = loopback::pair();
            let (near, far) = (near.into_tokio(), far.into_tokio());
            for (peer, own) in [(&mut client, &near), (&mut server, &far)] {
                crate::kernel::sockets::set_up_for_reads(own);
                peer.write_all(b"abc").expect("taken");
                socket2::SockRef::from(&*peer)
                    .send_out_of_band(b"X")
                    .expect("taken");
                peer.write_all(b"def").expect("taken");
            }
            let context = RelayContext {
                budget: &budget,
                buffer: 64 << 10,
                idle: Duration::from_secs(10),
                half_closed: Duration::from_secs(10),
                up: &up,
                down: &down,
                client: IpAddr::from([127, 0, 0, 1]),
                at_half: &RefCell::default(),
            };
            let flushed = Cell::new(false);
            let all_is_through = poll_fn(|_| {
                if up.load(Ordering::Relaxed) == 7 && down.load(Ordering::Relaxed) == 7 {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            });
            let pipes = pipes(&near, &far, Vec::new(), Vec::new(), &context);
            let relayed = relay_until(pipes, &context, &flushed, all_is_through).await;
            assert!(matches!(relayed, Relayed::Stopped(())), "{relayed:?}");
            for mut peer in [client, server] {
                let mut came = [0; 7];
                peer.read_exact(&mut came).expect("it was written");
                assert_eq!(&came, b"abcXdef");
            }
        });
    }

    #[test]
    fn megabytes_go_through_whole_though_the_reader_is_slow() {
        let bytes: Vec<u8> = (0..4_000_000_u32).map(|n| (n % 251) as u8).collect();
        let expected = bytes.clone();
        let (ended, _, down) = play(
            move |client| {
                client.shutdown(Shutdown::Write).expect("open");
                thread::sleep(Duration::from_millis(100));
                assert_eq!(all_of(&client), expected);
            },
            move |mut server| {
                server.write_all(&bytes).expect("taken");
                server.shutdown(Shutdown::Write).expect("open");
                assert_eq!(all_of(&server), b"");
            },
            (b"", b""),
        );
        assert_eq!((ended, down), (super::RelayResult::Completed, 4_000_000));
    }

    #[test]
    fn a_reset_is_told_the_other_side_also_while_that_does_not_read() {
        for clogged in [false, true] {
            let (ended, ..) = play(
                move |mut client| {
                    if clogged {
                        client
                            .set_nonblocking(true)
                            .expect("a socket that does not wait");
                        while client.write(&vec![7; 65536]).is_ok() {}
                        thread::sleep(Duration::from_millis(100));
                    }
                    reset(client);
                },
                |mut server| {
                    thread::sleep(Duration::from_millis(300));
                    server
                        .read_to_end(&mut Vec::new())
                        .expect_err("a reset is no end");
                },
                (b"", b""),
            );
            assert_eq!(ended, super::RelayResult::ClientReset, "{clogged}");
        }
    }

    #[test]
    fn a_server_that_resets_behind_its_answer_is_heard() {
        let (ended, ..) = play(
            |mut client| {
                client.write_all(b"ask").expect("taken");
                let mut answer = [0; 6];
                client.read_exact(&mut answer).expect("the answer");
                assert_eq!(&answer, b"answer");
                client.read_exact(&mut [0]).expect_err("a reset is no end");
            },
            |mut server| {
                server.read_exact(&mut [0; 3]).expect("the question");
                server.write_all(b"answer").expect("taken");
                thread::sleep(Duration::from_millis(100));
                reset(server);
            },
            (b"", b""),
        );
        assert_eq!(ended, super::RelayResult::ServerReset);
    }

    #[test]
    fn silence_ends_it_sooner_once_one_side_has_ended() {
        let begun = std::time::Instant::now();
        let wait = |peer: Peer| drop((&peer).read_to_end(&mut Vec::new()));
        let (ended, ..) = play(
            |client| {
                client.shutdown(Shutdown::Write).expect("open");
                drop((&client).read_to_end(&mut Vec::new()));
            },
            move |server| {
                wait(server.try_clone().expect("a descriptor"));
                thread::sleep(Duration::from_millis(400));
            },
            (b"", b""),
        );
        assert_eq!(ended, super::RelayResult::IdleTimeout);
        assert!(begun.elapsed() < Duration::from_secs(5));
        let (ended, ..) = play(wait, wait, (b"", b""));
        assert_eq!(ended, super::RelayResult::IdleTimeout);
    }
}

#[cfg(test)]
mod pipe_tests {
    use std::future::poll_fn;
    use std::io::{Read, Write};
    use std::net::Shutdown;
    use std::time::Duration;

    use super::*;
    use crate::io::buffers::Budget;
    use crate::io::loopback;

    /// A pipe whose sink stalls holds no more than it has read once.
    #[test]
    fn a_stalled_reader_stops_its_writer() {
        let (budget, counter, other) = (
            Budget::new(1 << 30),
            AtomicU64::default(),
            AtomicU64::default(),
        );
        loopback::block_on(async {
            let (mut writer, near) = loopback::pair();
            let (mut reader, far) = loopback::pair();
            let (near, far) = (near.into_tokio(), far.into_tokio());
            let context = RelayContext {
                budget: &budget,
                buffer: 64 << 10,
                idle: Duration::MAX,
                half_closed: Duration::MAX,
                up: &counter,
                down: &other,
                client: IpAddr::from([127, 0, 0, 1]),
                at_half: &RefCell::default(),
            };
            let mut pipe = Pipe::new(&near, &far, &context, &counter, b"early ".to_vec());
            writer.set_nonblocking(true).expect("a socket");
            let mut sent = 0;
            while let Ok(count) = writer.write(&vec![7; 1 << 16]) {
                sent += count;
                for _ in 0..3 {
                    poll_fn(|cx| Poll::Ready(pipe.poll(cx))).await;
                    tokio::task::yield_now().await;
                }
                assert!(budget.used() <= 64 << 10, "{}", budget.used());
            }
            assert_eq!(
                poll_fn(|cx| Poll::Ready(pipe.poll(cx))).await,
                PipeState::Blocked
            );
            writer.shutdown(Shutdown::Write).expect("open");
            let read = std::thread::spawn(move || {
                let mut all = Vec::new();
                reader.read_to_end(&mut all).expect("an end in order");
                all
            });
            let over = poll_fn(|cx| match pipe.poll(cx) {
                PipeState::Open | PipeState::Blocked => Poll::Pending,
                over => Poll::Ready(over),
            });
            assert_eq!(over.await, PipeState::Eof);
            let all = read.join().expect("a reader");
            assert!(all.starts_with(b"early \x07"));
            assert_eq!(all.len(), 6 + sent);
            assert_eq!(pipe.moved(), all.len() as u64);
        });
        assert_eq!(budget.used(), 0);
    }
}
