//! Waits for the end of slow start, at no cost for connections on which nothing moves.

use std::future::poll_fn;
use std::io;
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tributary_transplant::{Steady, round_trip_time};

/// No round is shorter: a relay wakes up for pieces of some hundred kilobytes.
const SHORTEST_ROUND: Duration = Duration::from_millis(10);

/// Ready when slow start is over on the way between two sockets and at least so many bytes have passed; `passed` tells how
/// many. It wakes up for nothing by itself: who moves bytes polls it. Raises what the kernel does, as for a connection that
/// was reset.
pub async fn is_over(
    sockets: [&TcpStream; 2],
    passed: impl Fn() -> u64,
    least: u64,
) -> io::Result<()> {
    let begun = Instant::now();
    let (mut steady, mut next) = (Steady::default(), begun);
    poll_fn(|_| {
        let now = Instant::now();
        if now < next {
            return Poll::Pending;
        }
        let round = match round(sockets) {
            Ok(round) => round,
            Err(error) => return Poll::Ready(Err(error)),
        };
        next = now + round;
        if steady.watch(now - begun, passed(), round) && passed() >= least {
            Poll::Ready(Ok(()))
        } else {
            Poll::Pending
        }
    })
    .await
}

/// As long as a byte from one end to the other and its acknowledgement take, at least.
fn round([one, other]: [&TcpStream; 2]) -> io::Result<Duration> {
    Ok((round_trip_time(one)? + round_trip_time(other)?).max(SHORTEST_ROUND))
}
