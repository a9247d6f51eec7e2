//! Waits for the end of slow start, without timers of its own.

use std::future::poll_fn;
use std::io;
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tributary_offload::{SlowStartDetector, round_trip_time};

/// No round is shorter: a relay wakes up for pieces of some hundred kilobytes.
const SHORTEST_ROUND: Duration = Duration::from_millis(10);

/// Waits until slow start is over between two sockets and at least `least` bytes have passed; `passed` counts them. It never
/// wakes its task: the relay polls it whenever it moves bytes. Returns the kernel's error, such as that of a connection that
/// was reset.
pub async fn is_over(
    sockets: [&TcpStream; 2],
    passed: impl Fn() -> u64,
    least: u64,
) -> io::Result<()> {
    let begun = Instant::now();
    let (mut detector, mut next) = (SlowStartDetector::default(), begun);
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
        if detector.watch(now - begun, passed(), round) && passed() >= least {
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
