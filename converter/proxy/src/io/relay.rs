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

/// Relays until the end.
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
        if up_state == PipeState::SinkReset {
            down.mark_source_dead();
        }
        let down_state = down.poll(cx);
        if down_state == PipeState::SinkReset {
            up.mark_source_dead();
        }
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

    /// Something came from the server.
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
mod tests {
    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpStream as Peer};
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;
    use std::time::Duration;

    use tributary_proto::convert::FrameReader;

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

    /// That of a client on loopback; `limits` without a byte, and once one side has ended.
    fn context<'a>(
        budget: &'a Budget,
        [up, down]: [&'a AtomicU64; 2],
        [idle, half_closed]: [Duration; 2],
        (timer, at_half): &'a (RefCell<Deadline>, RefCell<Vec<Subflow>>),
    ) -> RelayContext<'a> {
        RelayContext {
            memory: Memory {
                budget,
                buffer: 64 << 10,
            },
            timer,
            idle,
            half_closed,
            up,
            down,
            client: None,
            at_half,
            hop: None,
        }
    }

    /// The pipes between two sockets, of which each has said something before.
    fn between<'a>(
        client: (&'a TcpStream, &[u8]),
        server: (&'a TcpStream, &[u8]),
        context: &RelayContext<'a>,
    ) -> [Pipe<'a>; 2] {
        let [client, server] = [client, server].map(|(stream, said)| Side {
            stream,
            early: said.to_vec().into(),
        });
        pipes(client, server, context.memory, [context.up, context.down])
    }

    /// Relays between two pairs of sockets; `client` and `server` play their parts on threads of their own.
    fn play(
        client: impl FnOnce(Peer) + Send + 'static,
        server: impl FnOnce(Peer) + Send + 'static,
        early: (&[u8], &[u8]),
    ) -> (super::RelayResult, u64, u64) {
        let (budget, up, down) = (Budget::new(1 << 20), AtomicU64::default(), AtomicU64::default());
        let ended = loopback::block_on(async {
            let (client_end, near) = loopback::pair();
            let (server_end, far) = loopback::pair();
            let threads = [
                thread::spawn(move || client(client_end)),
                thread::spawn(move || server(server_end)),
            ];
            let own = (RefCell::default(), RefCell::default());
            let limits = [Duration::from_millis(500), Duration::from_millis(200)];
            let context = context(&budget, [&up, &down], limits, &own);
            let (near, far) = (near.into_tokio(), far.into_tokio());
            let mut pipes = between((&near, early.0), (&far, early.1), &context);
            let ended = relay_pipes(&mut pipes, &context).await;
            drop(pipes);
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
        (ended, up.load(Ordering::Relaxed), down.load(Ordering::Relaxed))
    }

    /// `stop` is asked when bytes have moved, and knows whether all that was read was written.
    #[test]
    fn a_relay_can_be_stopped_when_it_holds_nothing() {
        let (budget, up, down) = (Budget::new(1 << 20), AtomicU64::default(), AtomicU64::default());
        loopback::block_on(async {
            let ((mut client, near), (mut server, far)) = (loopback::pair(), loopback::pair());
            let (near, far) = (near.into_tokio(), far.into_tokio());
            let own = (RefCell::default(), RefCell::default());
            let limits = [Duration::from_secs(10), Duration::from_secs(10)];
            let context = context(&budget, [&up, &down], limits, &own);
            client.write_all(b"asks").expect("taken");
            let flushed = Cell::new(false);
            let stop = poll_fn(|_| {
                if flushed.get() && up.load(Ordering::Relaxed) == 4 {
                    Poll::Ready("enough")
                } else {
                    Poll::Pending
                }
            });
            let mut pipes = between((&near, b""), (&far, b""), &context);
            let relayed = relay_until(&mut pipes, &context, &flushed, stop).await;
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
        let (budget, up, down) = (Budget::new(1 << 20), AtomicU64::default(), AtomicU64::default());
        loopback::block_on(async {
            let (mut client, near) = loopback::pair();
            let (mut server, far) = loopback::pair();
            let (near, far) = (near.into_tokio(), far.into_tokio());
            for (peer, own) in [(&mut client, &near), (&mut server, &far)] {
                crate::kernel::sockets::set_up_for_reads(own);
                peer.write_all(b"abc").expect("taken");
                socket2::SockRef::from(&*peer).send_out_of_band(b"X").expect("taken");
                peer.write_all(b"def").expect("taken");
            }
            let own = (RefCell::default(), RefCell::default());
            let limits = [Duration::from_secs(10), Duration::from_secs(10)];
            let context = context(&budget, [&up, &down], limits, &own);
            let flushed = Cell::new(false);
            let all_is_through = poll_fn(|_| {
                if up.load(Ordering::Relaxed) == 7 && down.load(Ordering::Relaxed) == 7 {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            });
            let mut pipes = between((&near, b""), (&far, b""), &context);
            let relayed = relay_until(&mut pipes, &context, &flushed, all_is_through).await;
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
                        client.set_nonblocking(true).expect("a socket that does not wait");
                        while client.write(&vec![7; 65536]).is_ok() {}
                        thread::sleep(Duration::from_millis(100));
                    }
                    reset(client);
                },
                |mut server| {
                    thread::sleep(Duration::from_millis(300));
                    server.read_to_end(&mut Vec::new()).expect_err("a reset is no end");
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
    fn what_came_before_a_reset_gets_to_a_slow_reader() {
        let (ended, _, down) = play(
            |mut client| {
                thread::sleep(Duration::from_millis(100));
                let mut came = vec![0; 600_000];
                client.read_exact(&mut came).expect("what came before");
                client.read_exact(&mut [0]).expect_err("a reset is no end");
            },
            |mut server| {
                server.write_all(&vec![7; 600_000]).expect("taken");
                while tributary_sys::unacknowledged(&server).expect("a socket") > 0 {
                    thread::sleep(Duration::from_millis(1));
                }
                reset(server);
            },
            (b"", b""),
        );
        assert_eq!((ended, down), (super::RelayResult::ServerReset, 600_000));
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

    /// Relays between two connections, of which some carry frames; returns them if both ended in order, and resets them
    /// otherwise.
    async fn relay_owned(
        client: (TcpStream, bool),
        server: (TcpStream, bool),
        budget: &Budget,
    ) -> Option<[TcpStream; 2]> {
        let (up, down) = (AtomicU64::default(), AtomicU64::default());
        let own = (RefCell::default(), RefCell::default());
        let limits = [Duration::from_secs(10), Duration::from_secs(10)];
        let context = context(budget, [&up, &down], limits, &own);
        let sides = [&client, &server].map(|(stream, in_frames)| Side {
            stream,
            early: Early {
                frames: in_frames.then(FrameReader::default),
                ..Early::default()
            },
        });
        let [one, other] = sides;
        let mut pipes = pipes(one, other, context.memory, [context.up, context.down]);
        let ended = relay_pipes(&mut pipes, &context).await;
        drop(pipes);
        if ended == super::RelayResult::Completed {
            return Some([client.0, server.0]);
        }
        for stream in [client.0, server.0] {
            crate::kernel::sockets::reset_on_close(&stream);
        }
        None
    }

    /// One transfer by two relays, between which the `hop` carries it in frames; the hop again if it ended in order.
    async fn transfer(
        hop: [TcpStream; 2],
        client: impl FnOnce(Peer) + Send + 'static,
        server: impl FnOnce(Peer) + Send + 'static,
    ) -> Option<[TcpStream; 2]> {
        let budget = Budget::new(1 << 20);
        let ((client_end, near), (server_end, far)) = (loopback::pair(), loopback::pair());
        let threads = [
            thread::spawn(move || client(client_end)),
            thread::spawn(move || server(server_end)),
        ];
        let [here, there] = hop;
        let (first, second) = tokio::join!(
            relay_owned((near.into_tokio(), false), (here, true), &budget),
            relay_owned((there, true), (far.into_tokio(), false), &budget),
        );
        let hop = first.zip(second).map(|([near, here], [there, far])| {
            drop((near, far));
            [here, there]
        });
        for thread in threads {
            thread.join().expect("a peer that is content");
        }
        assert_eq!(budget.used(), 0, "all memory is back");
        hop
    }

    fn hop() -> [TcpStream; 2] {
        let (peer, near) = loopback::pair();
        peer.set_nonblocking(true).expect("a socket");
        [near.into_tokio(), TcpStream::from_std(peer).expect("a socket")]
    }

    #[test]
    fn a_hop_carries_one_transfer_after_another_and_each_way_ends_alone() {
        loopback::block_on(async {
            let mut hop = hop();
            for size in [0_u32, 1, 4_000_000, 10] {
                let bytes: Vec<u8> = (0..size).map(|n| (n % 251) as u8).collect();
                let expected = bytes.clone();
                let client = move |mut client: Peer| {
                    client.write_all(b"asks").expect("taken");
                    client.shutdown(Shutdown::Write).expect("open");
                    thread::sleep(Duration::from_millis(50));
                    assert_eq!(all_of(&client), expected);
                };
                let server = move |mut server: Peer| {
                    assert_eq!(all_of(&server), b"asks");
                    server.write_all(&bytes).expect("taken");
                };
                hop = transfer(hop, client, server).await.expect("an end in order");
            }
        });
    }

    #[test]
    fn a_reset_of_either_side_goes_through_a_hop() {
        let breaks = |peer: Peer| {
            thread::sleep(Duration::from_millis(50));
            reset(peer);
        };
        let hears = |mut peer: Peer| {
            peer.write_all(b"part").expect("taken");
            peer.read_to_end(&mut Vec::new()).expect_err("a reset is no end");
        };
        loopback::block_on(async {
            assert!(transfer(hop(), breaks, hears).await.is_none());
            assert!(transfer(hop(), hears, breaks).await.is_none());
        });
    }

    #[test]
    fn a_hop_that_ends_within_a_transfer_is_no_end_of_it() {
        let hears = |mut peer: Peer| {
            peer.read_to_end(&mut Vec::new()).expect_err("a reset is no end");
        };
        loopback::block_on(async {
            let (client, near) = loopback::pair();
            let (mut other, far) = loopback::pair();
            let hearing = thread::spawn(move || hears(client));
            // A frame whose content does not come, and then the end of the connection.
            other.write_all(&[0, 0, 0, 9, b'x']).expect("taken");
            drop(other);
            let budget = Budget::new(1 << 20);
            let ended = relay_owned((near.into_tokio(), false), (far.into_tokio(), true), &budget);
            assert!(ended.await.is_none());
            hearing.join().expect("a peer that is content");
        });
    }
}
