//! Attempts that start one after another and run side by side; the first that succeeds wins (RFC 8305 section 5).

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use tokio::time::sleep;

use super::DialError;
use super::spare::{Spare, SpareDescriptors};
use crate::bytes::stream::Stream;

/// Between the starts of two attempts (RFC 8305 section 5).
pub const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

type Outcome<S> = (SocketAddr, Result<S, DialError>);

/// An attempt on its way. The connection's own descriptor is for one at a time; the others each hold a spare one.
struct Attempt<S> {
    connecting: Pin<Box<dyn Future<Output = Outcome<S>>>>,
    spare: Option<Spare>,
}

/// The winner and its address, or what the last attempt failed with. A new one starts when the one before it failed,
/// or had its time and there is a descriptor for one more. Those that lose are dropped, and so their sockets closed.
pub async fn race<F>(
    addresses: Vec<SocketAddr>,
    spares: &SpareDescriptors,
    connect: impl Fn(SocketAddr) -> F,
) -> Result<((Stream, bool), SocketAddr), DialError>
where
    F: Future<Output = Result<(Stream, bool), DialError>> + 'static,
{
    race_of(addresses, spares, connect).await
}

async fn race_of<S, F>(
    addresses: Vec<SocketAddr>,
    spares: &SpareDescriptors,
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
        let own_is_free = running.iter().all(|attempt| attempt.spare.is_some());
        let spare = spares.one().filter(|_| !own_is_free);
        let has_room = own_is_free || spare.is_some();
        if let Some(address) = has_room.then(|| waiting.next()).flatten() {
            let attempt = connect(address);
            let connecting = Box::pin(async move { (address, attempt.await) });
            running.push(Attempt { connecting, spare });
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
async fn first<S>(running: &mut Vec<Attempt<S>>, more: bool) -> Option<Outcome<S>> {
    let mut delay = pin!(sleep(ATTEMPT_DELAY));
    poll_fn(|cx| {
        for number in 0..running.len() {
            if let Poll::Ready(result) = running[number].connecting.as_mut().poll(cx) {
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
        run_with(millis, &SpareDescriptors::new(8)).await
    }

    async fn run_with(
        millis: &[u16],
        spares: &SpareDescriptors,
    ) -> (Result<u64, &'static str>, u128) {
        let start = Instant::now();
        let addresses = millis
            .iter()
            .map(|&port| SocketAddr::from(([192, 0, 2, 1], port)))
            .collect();
        let result = race_of(addresses, spares, staged).await;
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

    #[tokio::test(start_paused = true)]
    async fn without_spare_descriptors_one_attempt_runs_at_a_time() {
        let spares = SpareDescriptors::new(0);
        let held: Vec<_> = std::iter::from_fn(|| spares.one()).collect();
        assert_eq!(run_with(&[10_000, 101], &spares).await, (Ok(101), 10_101));
        drop(held);
        assert_eq!(run_with(&[10_000, 101], &spares).await, (Ok(101), 351));
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_race_held_is_spare_again_after_it() {
        let spares = SpareDescriptors::new(4);
        assert_eq!(
            run_with(&[9_001, 9_003, 9_005, 9_007], &spares).await,
            (Ok(9_001), 9_001)
        );
        let free: Vec<_> = std::iter::from_fn(|| spares.one()).collect();
        assert_eq!(free.len(), 4);
    }
}
