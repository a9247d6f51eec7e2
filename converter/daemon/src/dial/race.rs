//! Attempts that start one after another and run side by side; the first that succeeds wins (RFC 8305 section 5).

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use tokio::time::sleep;

use super::DialError;
use crate::bytes::stream::Stream;

/// Between the starts of two attempts (RFC 8305 section 5).
pub const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

type Attempt<S> = Pin<Box<dyn Future<Output = (SocketAddr, Result<S, DialError>)>>>;

/// The winner and its address, or what the last attempt failed with. A new one starts when the one before it failed,
/// or had its time. Those that lose are dropped, and so their sockets closed.
pub async fn race<F>(
    addresses: Vec<SocketAddr>,
    connect: impl Fn(SocketAddr) -> F,
) -> Result<((Stream, bool), SocketAddr), DialError>
where
    F: Future<Output = Result<(Stream, bool), DialError>> + 'static,
{
    race_of(addresses, connect).await
}

async fn race_of<S, F>(
    addresses: Vec<SocketAddr>,
    connect: impl Fn(SocketAddr) -> F,
) -> Result<(S, SocketAddr), DialError>
where
    F: Future<Output = Result<S, DialError>> + 'static,
    S: 'static,
{
    let mut waiting = addresses.into_iter();
    let mut running: Vec<Attempt<S>> = Vec::new();
    let mut last = DialError::NoSuchName;
    loop {
        if let Some(address) = waiting.next() {
            let attempt = connect(address);
            running.push(Box::pin(async move { (address, attempt.await) }));
        } else if running.is_empty() {
            return Err(last);
        }
        let more = waiting.len() > 0;
        match first(&mut running, more).await {
            Some((address, Ok(stream))) => return Ok((stream, address)),
            Some((_, Err(error))) => last = error,
            None => {}
        }
    }
}

/// What ends first: one of the attempts, or, if `more` wait for their start, the time until the next one.
async fn first<S>(
    running: &mut Vec<Attempt<S>>,
    more: bool,
) -> Option<(SocketAddr, Result<S, DialError>)> {
    let mut delay = pin!(sleep(ATTEMPT_DELAY));
    poll_fn(|cx| {
        for number in 0..running.len() {
            if let Poll::Ready(result) = running[number].as_mut().poll(cx) {
                drop(running.swap_remove(number));
                return Poll::Ready(Some(result));
            }
        }
        if more {
            delay.as_mut().poll(cx).map(|()| None)
        } else {
            Poll::Pending
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    /// The last part of the address says what happens: it fails after so many milliseconds, or succeeds if odd.
    async fn staged(address: SocketAddr) -> Result<u64, DialError> {
        let SocketAddr::V4(four) = address else {
            panic!("IPv4")
        };
        let millis = u64::from(four.port());
        sleep(Duration::from_millis(millis)).await;
        if millis % 2 == 1 {
            Ok(millis)
        } else {
            Err(DialError::Reset)
        }
    }

    async fn run(millis: &[u16]) -> (Result<u64, &'static str>, u128) {
        let start = Instant::now();
        let addresses = millis
            .iter()
            .map(|&port| SocketAddr::from(([192, 0, 2, 1], port)))
            .collect();
        let result = race_of(addresses, staged).await;
        (
            result.map(|won| won.0).map_err(|error| error.name()),
            start.elapsed().as_millis(),
        )
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_that_succeeds_wins() {
        assert_eq!(run(&[5]).await, (Ok(5), 5));
        assert_eq!(run(&[10_001, 101]).await, (Ok(101), 351));
        assert_eq!(run(&[301, 101]).await, (Ok(301), 301));
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_starts_the_next_one_at_once() {
        assert_eq!(run(&[10, 21]).await, (Ok(21), 31));
        assert_eq!(run(&[10, 20, 30]).await, (Err("refused-by-server"), 60));
    }
}
