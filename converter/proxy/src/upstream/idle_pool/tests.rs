//! Pools whose servers are sockets on loopback.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use tokio::time::{pause, sleep};

use super::*;
use crate::io::loopback;
use crate::io::stream::ResetOnDrop;

/// Runs `action` beside what it spawns, with a clock that goes on when nothing else can.
fn block_on(action: impl Future<Output = ()>) {
    loopback::block_on(async {
        pause();
        action.await;
    });
}

/// The same with a pool for what may be asked twice.
fn with_pool(action: impl AsyncFnOnce(Rc<IdlePool>)) {
    block_on(async { action(IdlePool::watched(Reuse::Safe, TO_SERVERS, FdPool::new(1000))).await });
}

fn authority(server: usize) -> Authority {
    SocketAddr::from(([192, 0, 2, 1], 8000 + u16::try_from(server).expect("few"))).into()
}

/// Our end of a connection to that server, and the server's.
fn connection(server: usize) -> (Box<ServerConnection>, TcpStream) {
    let (peer, near) = loopback::pair();
    let upstream = Upstream {
        stream: ResetOnDrop::new(near.into_tokio()),
        address: SocketAddr::from(([192, 0, 2, 1], 80)),
        early: Vec::new(),
        early_sent: false,
        size: None,
        hop: None,
        kept: None,
    };
    let new = ServerConnection::new(authority(server), "a server".into(), upstream);
    (Box::new(new), peer)
}

/// A client that has used it leaves.
fn leave(pool: &Rc<IdlePool>, connection: Box<ServerConnection>) {
    IdleUpstream::of(pool).keep(connection);
}

fn next_client(pool: &Rc<IdlePool>, server: usize, repeatable: bool) -> Option<SocketAddr> {
    let connection = IdleUpstream::of(pool).take(&authority(server), repeatable, false)?;
    Some(connection.server.stream.local_addr().expect("connected"))
}

async fn moment() {
    sleep(Duration::from_millis(1)).await;
}

fn has_ended(mut peer: &TcpStream) -> bool {
    peer.set_nonblocking(true).expect("a socket");
    matches!(peer.read(&mut [0]), Ok(0))
}

/// Clients and servers in any order: whoever asks gets a connection that waits for that server, is nobody's, and has
/// not ended; and where there is one, gets it.
#[test]
fn a_client_gets_what_waits_for_its_server_and_nothing_else() {
    with_pool(async |pool| {
        let mut waiting: [Vec<TcpStream>; 3] = Default::default();
        let mut seed = 7_u64;
        let mut any = |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) as usize % below
        };
        for _ in 0..2000 {
            let server = any(3);
            match any(6) {
                0 | 1 => {
                    let (mut connection, peer) = connection(server);
                    connection.is_private = any(4) == 0;
                    if !connection.is_private {
                        if waiting[server].len() == MOST_OF_SERVER {
                            waiting[server].remove(0);
                        }
                        waiting[server].push(peer);
                    }
                    leave(&pool, connection);
                }
                2 | 3 => {
                    let newest = waiting[server].pop();
                    let address = |peer: &TcpStream| peer.peer_addr().expect("connected");
                    let expected = newest.as_ref().map(address);
                    assert_eq!(next_client(&pool, server, true), expected);
                }
                4 if !waiting[server].is_empty() => {
                    let ends = any(waiting[server].len());
                    drop(waiting[server].remove(ends));
                    moment().await;
                }
                _ => assert_eq!(next_client(&pool, server, false), None),
            }
            let count = waiting.iter().map(Vec::len).sum::<usize>();
            moment().await;
            assert_eq!(pool.parked.borrow().len(), count);
        }
    });
}

#[test]
fn who_has_just_used_one_may_ask_for_what_must_not_be_asked_twice() {
    with_pool(async |pool| {
        for (rest, is_served) in [(Duration::ZERO, true), (RESTED, false)] {
            let mut client = IdleUpstream::of(&pool);
            let (connection, _peer) = connection(0);
            client.keep(connection);
            sleep(rest).await;
            assert_eq!(client.take(&authority(0), false, false).is_some(), is_served);
        }
    });
}

/// The event loop has not heard of it yet.
#[test]
fn what_must_not_be_asked_twice_is_not_asked_where_the_server_has_just_ended_or_spoken() {
    let end: fn(&mut TcpStream) = |peer| peer.shutdown(Shutdown::Write).expect("open");
    let speak: fn(&mut TcpStream) = |peer| peer.write_all(b"HTTP/1.1 200 OK\r\n").expect("taken");
    for disturb in [end, speak] {
        with_pool(async |pool| {
            let mut client = IdleUpstream::of(&pool);
            let (own, mut peer) = connection(0);
            client.keep(own);
            disturb(&mut peer);
            let own = client.connection.as_ref().expect("kept");
            while own.server.stream.is_silent() {
                std::thread::yield_now();
            }
            assert!(own.server.stream.is_quiet());
            assert!(client.take(&authority(0), false, false).is_none());
        });
    }
}

#[test]
fn settings_decide_what_goes_to_the_connection_of_another_client() {
    for (reuse, repeatable, is_served) in [
        (Reuse::Never, true, false),
        (Reuse::Safe, true, true),
        (Reuse::Safe, false, false),
        (Reuse::Always, false, true),
    ] {
        block_on(async {
            let pool = IdlePool::watched(reuse, TO_SERVERS, FdPool::new(1000));
            let (connection, _peer) = connection(0);
            leave(&pool, connection);
            assert_eq!(next_client(&pool, 0, repeatable).is_some(), is_served);
        });
    }
}

#[test]
fn what_nobody_needs_is_closed_in_order_after_a_while() {
    with_pool(async |pool| {
        let (connection, peer) = connection(0);
        leave(&pool, connection);
        sleep(TO_SERVERS.rest.saturating_sub(SWEEP)).await;
        assert!(!has_ended(&peer));
        sleep(2 * SWEEP).await;
        assert!(has_ended(&peer));
        assert!(pool.is_empty());
    });
}

#[test]
fn one_client_with_many_servers_keeps_the_others_from_nothing() {
    block_on(async {
        let pool = IdlePool::watched(Reuse::Safe, TO_SERVERS, FdPool::new(4 * MOST));
        let mut peers = Vec::new();
        for number in 0..=MOST {
            let (connection, peer) = connection(number);
            leave(&pool, connection);
            peers.push(peer);
            sleep(Duration::from_millis(1)).await;
        }
        assert!(has_ended(&peers[0]) && !has_ended(&peers[1]));
        assert!(next_client(&pool, MOST, true).is_some());
        assert_eq!(pool.parked.borrow().len(), MOST - 1);
    });
}

/// Which way a new one takes may hang on the request's size.
#[test]
fn what_goes_by_its_size_takes_no_other_clients_connection() {
    with_pool(async |pool| {
        let (connection, _peer) = connection(0);
        leave(&pool, connection);
        let mut client = IdleUpstream::of(&pool);
        assert!(client.take(&authority(0), true, true).is_none());
        assert!(client.take(&authority(0), true, false).is_some());
    });
}

#[test]
fn what_is_old_goes_to_nobody_else() {
    with_pool(async |pool| {
        let (connection, _peer) = connection(0);
        sleep(TO_SERVERS.age).await;
        leave(&pool, connection);
        assert!(pool.is_empty());
    });
}

#[test]
fn what_its_server_ends_is_closed_at_once() {
    with_pool(async |pool| {
        let (connection, peer) = connection(0);
        leave(&pool, connection);
        moment().await;
        peer.shutdown(Shutdown::Write).expect("open");
        moment().await;
        assert!(has_ended(&peer));
    });
}

#[test]
fn others_find_descriptors_however_many_wait() {
    block_on(async {
        let fd_pool = FdPool::new(40);
        let pool = IdlePool::watched(Reuse::Safe, TO_SERVERS, fd_pool.clone());
        let peers: Vec<_> = (0..MOST)
            .map(|server| {
                let (connection, peer) = connection(server);
                leave(&pool, connection);
                peer
            })
            .collect();
        assert_eq!(pool.parked.borrow().len(), 10);
        assert_eq!(peers.iter().filter(|peer| has_ended(peer)).count(), MOST - 10);
        let others: Vec<_> = std::iter::from_fn(|| fd_pool.one()).collect();
        assert_eq!(others.len(), 10);
    });
}

/// Looking takes the byte: who looks next would find nothing.
#[test]
fn a_server_that_says_a_byte_unasked_is_not_asked_again() {
    with_pool(async |pool| {
        let (own, mut peer) = connection(0);
        let mut client = IdleUpstream::of(&pool);
        client.keep(own);
        peer.write_all(b"x").expect("taken");
        moment().await;
        assert!(client.take(&authority(0), true, false).is_none());
        assert!(next_client(&pool, 0, true).is_none());
    });
}
