//! Relays between sockets on loopback.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream as Peer};
use std::thread::{self, JoinHandle};

use tributary_proto::convert::FrameReader;

use super::*;
use crate::io::buffers::Budget;
use crate::io::loopback;
use crate::kernel::sockets::{reset_on_close, set_up_for_reads};

/// Rows: what became of the way up, of the way down, and of the connection.
#[test]
fn a_connection_ends_by_what_its_two_ways_come_to() {
    use PipeState::{Blocked, Eof, Open, SinkReset, SourceReset};
    let (whole, client, server) = (
        Some(RelayResult::Completed),
        Some(RelayResult::ClientReset),
        Some(RelayResult::ServerReset),
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

/// What a relay uses, and where it counts.
struct Fixture {
    budget: Budget,
    up: AtomicU64,
    down: AtomicU64,
    timer: RefCell<Deadline>,
    at_half: RefCell<Vec<Subflow>>,
}

impl Fixture {
    fn new() -> Self {
        Self {
            budget: Budget::new(1 << 20),
            up: AtomicU64::default(),
            down: AtomicU64::default(),
            timer: RefCell::default(),
            at_half: RefCell::default(),
        }
    }

    /// Of a client on loopback. Limits in milliseconds: without a byte, and once one side has ended.
    fn context(&self, idle: u64, half_closed: u64) -> RelayContext<'_> {
        RelayContext {
            memory: Memory {
                budget: &self.budget,
                buffer: 64 << 10,
            },
            timer: &self.timer,
            idle: Duration::from_millis(idle),
            half_closed: Duration::from_millis(half_closed),
            up: &self.up,
            down: &self.down,
            client: None,
            at_half: &self.at_half,
            hop: None,
        }
    }

    /// Bytes that went up and down.
    fn moved(&self) -> (u64, u64) {
        let moved = [&self.up, &self.down].map(|counter| counter.load(Ordering::Relaxed));
        moved.into()
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        assert!(thread::panicking() || self.budget.used() == 0, "all memory is back");
    }
}

/// Ready when it is asked while this is so.
fn when(is_so: impl Fn() -> bool) -> impl Future<Output = ()> {
    poll_fn(move |_| if is_so() { Poll::Ready(()) } else { Poll::Pending })
}

/// The relay's ends of connections to two peers, which play their parts on threads of their own.
fn peers(
    client: impl FnOnce(Peer) + Send + 'static,
    server: impl FnOnce(Peer) + Send + 'static,
) -> ([TcpStream; 2], [JoinHandle<()>; 2]) {
    let ((client_end, near), (server_end, far)) = (loopback::pair(), loopback::pair());
    let threads = [
        thread::spawn(move || client(client_end)),
        thread::spawn(move || server(server_end)),
    ];
    ([near, far].map(loopback::Near::into_tokio), threads)
}

fn join(threads: [JoinHandle<()>; 2]) {
    for thread in threads {
        thread.join().expect("a peer that is content");
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

/// Relays between two peers. Returns how it ended, and the bytes that went up and down.
fn play(
    client: impl FnOnce(Peer) + Send + 'static,
    server: impl FnOnce(Peer) + Send + 'static,
    early: (&[u8], &[u8]),
) -> (RelayResult, u64, u64) {
    let fixture = Fixture::new();
    let ended = loopback::block_on(async {
        let ([near, far], threads) = peers(client, server);
        let context = fixture.context(500, 200);
        let mut pipes = between((&near, early.0), (&far, early.1), &context);
        let ended = relay_pipes(&mut pipes, &context).await;
        drop(pipes);
        if ended != RelayResult::Completed {
            reset_on_close(&near);
            reset_on_close(&far);
        }
        drop((near, far));
        join(threads);
        ended
    });
    let (up, down) = fixture.moved();
    (ended, up, down)
}

/// `stop` is asked when bytes have moved, and knows whether all that was read was written.
#[test]
fn a_relay_can_be_stopped_when_it_holds_nothing() {
    let fixture = Fixture::new();
    loopback::block_on(async {
        let ((mut client, near), (mut server, far)) = (loopback::pair(), loopback::pair());
        let (near, far) = (near.into_tokio(), far.into_tokio());
        let context = fixture.context(10_000, 10_000);
        client.write_all(b"asks").expect("taken");
        let flushed = Cell::new(false);
        let stop = when(|| flushed.get() && fixture.moved().0 == 4);
        let mut pipes = between((&near, b""), (&far, b""), &context);
        let relayed = relay_until(&mut pipes, &context, &flushed, stop).await;
        assert!(matches!(relayed, Relayed::Stopped(())), "{relayed:?}");
        let mut came = [0; 4];
        server.read_exact(&mut came).expect("it was written");
        assert_eq!(&came, b"asks");
    });
}

fn all_of(mut peer: &Peer) -> Vec<u8> {
    let mut all = Vec::new();
    peer.read_to_end(&mut all).expect("an end in order");
    all
}

fn reset(peer: Peer) {
    reset_on_close(&peer);
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
    assert_eq!((ended, up, down), (RelayResult::Completed, 10, 13));
}

/// All of it is there before the relay begins, so that no later event makes up for a read that stopped too soon.
#[test]
fn urgent_data_are_passed_on_in_their_place_and_hold_nothing_back() {
    let fixture = Fixture::new();
    loopback::block_on(async {
        let ((mut client, near), (mut server, far)) = (loopback::pair(), loopback::pair());
        let (near, far) = (near.into_tokio(), far.into_tokio());
        for (peer, own) in [(&mut client, &near), (&mut server, &far)] {
            set_up_for_reads(own);
            peer.write_all(b"abc").expect("taken");
            socket2::SockRef::from(&*peer).send_out_of_band(b"X").expect("taken");
            peer.write_all(b"def").expect("taken");
        }
        let context = fixture.context(10_000, 10_000);
        let all_is_through = when(|| fixture.moved() == (7, 7));
        let mut pipes = between((&near, b""), (&far, b""), &context);
        let relayed = relay_until(&mut pipes, &context, &Cell::new(false), all_is_through).await;
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
    assert_eq!((ended, down), (RelayResult::Completed, 4_000_000));
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
        assert_eq!(ended, RelayResult::ClientReset, "{clogged}");
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
    assert_eq!(ended, RelayResult::ServerReset);
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
    assert_eq!((ended, down), (RelayResult::ServerReset, 600_000));
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
    assert_eq!(ended, RelayResult::IdleTimeout);
    assert!(begun.elapsed() < Duration::from_secs(5));
    let (ended, ..) = play(wait, wait, (b"", b""));
    assert_eq!(ended, RelayResult::IdleTimeout);
}

/// Relays between two connections, of which some carry frames; returns them if both ended in order, and resets them
/// otherwise.
async fn relay_owned(client: (TcpStream, bool), server: (TcpStream, bool)) -> Option<[TcpStream; 2]> {
    let fixture = Fixture::new();
    let context = fixture.context(10_000, 10_000);
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
    if ended == RelayResult::Completed {
        return Some([client.0, server.0]);
    }
    for stream in [client.0, server.0] {
        reset_on_close(&stream);
    }
    None
}

/// One transfer by two relays, between which the `hop` carries it in frames; the hop again if it ended in order.
async fn transfer(
    hop: [TcpStream; 2],
    client: impl FnOnce(Peer) + Send + 'static,
    server: impl FnOnce(Peer) + Send + 'static,
) -> Option<[TcpStream; 2]> {
    let ([near, far], threads) = peers(client, server);
    let [here, there] = hop;
    let (first, second) = tokio::join!(
        relay_owned((near, false), (here, true)),
        relay_owned((there, true), (far, false)),
    );
    let hop = first.zip(second).map(|([near, here], [there, far])| {
        drop((near, far));
        [here, there]
    });
    join(threads);
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
        let ended = relay_owned((near.into_tokio(), false), (far.into_tokio(), true));
        assert!(ended.await.is_none());
        hearing.join().expect("a peer that is content");
    });
}
