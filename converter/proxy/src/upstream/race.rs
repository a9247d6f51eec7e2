//! Attempts that start one after another and run side by side; the first that succeeds wins (RFC 8305 section 5).

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use super::DialError;
use super::fd_pool::{FdPermit, FdPool};

/// Between the starts of two attempts (RFC 8305 section 5).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

type Outcome<S> = (SocketAddr, Result<S, DialError>);

/// An attempt on its way. The connection's own descriptor is for one at a time; the others each hold a spare one.
struct Attempt<S> {
    connecting: Pin<Box<dyn Future<Output = Outcome<S>>>>,
    spare: Option<FdPermit>,
}

/// The winner and its address, or what the last attempt failed with: none where there was no address. A new one starts when
/// the one before it failed, or had its time, and there is a descriptor for one more, at the `next` address, which may have
/// to be waited for. Those that lose are dropped, and so their sockets closed.
pub async fn race<S, F>(
    mut next: impl AsyncFnMut() -> Option<SocketAddr>,
    fd_pool: &FdPool,
    connect: impl Fn(SocketAddr) -> F,
) -> Result<(S, SocketAddr), Option<DialError>>
where
    F: Future<Output = Result<S, DialError>> + 'static,
    S: 'static,
{
    let mut running: Vec<Attempt<S>> = Vec::new();
    let mut last = None;
    let mut not_before = Instant::now();
    let mut has_more = true;
    while has_more || !running.is_empty() {
        let own_is_free = running.iter().all(|attempt| attempt.spare.is_some());
        let start = async {
            sleep_until(not_before).await;
            let spare = if own_is_free {
                None
            } else {
                Some(wait_for_one(fd_pool).await)
            };
            (next().await, spare)
        };
        tokio::select! {
            biased;
            ended = first(&mut running), if !running.is_empty() => match ended {
                (address, Ok(stream)) => return Ok((stream, address)),
                (_, Err(error)) => {
                    last = Some(error);
                    not_before = Instant::now();
                }
            },
            (address, spare) = start, if has_more => {
                if let Some(address) = address {
                    let attempt = connect(address);
                    let connecting = Box::pin(async move { (address, attempt.await) });
                    running.push(Attempt { connecting, spare });
                }
                has_more = address.is_some();
                not_before = Instant::now() + ATTEMPT_DELAY;
            }
        }
    }
    Err(last)
}

async fn wait_for_one(fd_pool: &FdPool) -> FdPermit {
    loop {
        if let Some(spare) = fd_pool.one() {
            return spare;
        }
        sleep(ATTEMPT_DELAY).await;
    }
}

/// The one of the attempts that ends first.
async fn first<S>(running: &mut Vec<Attempt<S>>) -> Outcome<S> {
    poll_fn(|cx| {
        for number in 0..running.len() {
            if let Poll::Ready(result) = running[number].connecting.as_mut().poll(cx) {
                drop(running.swap_remove(number));
                return Poll::Ready(result);
            }
        }
        Poll::Pending
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The last part of the address says what happens: it fails after so many milliseconds, or succeeds if odd.
    async fn staged(address: SocketAddr) -> Result<u64, DialError> {
        let SocketAddr::V4(four) = address else { panic!("IPv4") };
        let millis = u64::from(four.port());
        sleep(Duration::from_millis(millis)).await;
        if millis % 2 == 1 {
            Ok(millis)
        } else {
            Err(DialError::Reset)
        }
    }

    async fn run(millis: &[u16]) -> (Result<u64, &'static str>, u128) {
        run_with(millis, &FdPool::new(16)).await
    }

    async fn run_with(millis: &[u16], fd_pool: &FdPool) -> (Result<u64, &'static str>, u128) {
        let addresses = millis.iter().map(|&port| (0, port)).collect();
        run_late(addresses, fd_pool).await
    }

    /// Each address is known so many milliseconds after it is waited for.
    async fn run_late(addresses: Vec<(u64, u16)>, fd_pool: &FdPool) -> (Result<u64, &'static str>, u128) {
        let start = Instant::now();
        let mut addresses = addresses.into_iter();
        let mut known_at = None;
        let mut waiting = None;
        let next = async || {
            if waiting.is_none() {
                waiting = addresses.next();
                known_at = waiting.map(|(late, _)| Instant::now() + Duration::from_millis(late));
            }
            sleep_until(known_at?).await;
            let (_, port) = waiting.take()?;
            Some(SocketAddr::from(([192, 0, 2, 1], port)))
        };
        let result = race(next, fd_pool, staged).await;
        (
            result
                .map(|won| won.0)
                .map_err(|error| error.map_or("nobody", |error| error.name())),
            start.elapsed().as_millis(),
        )
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_that_is_known_late_joins_while_attempts_go_on() {
        let fd_pool = FdPool::new(8);
        let late = run_late(vec![(0, 10_000), (300, 101)], &fd_pool).await;
        assert_eq!(late, (Ok(101), 250 + 300 + 101));
        // Nothing is left to wait for but the answer.
        let late = run_late(vec![(0, 10), (300, 101)], &fd_pool).await;
        assert_eq!(late, (Ok(101), 10 + 300 + 101));
        // The first one wins while the answer is waited for.
        let late = run_late(vec![(0, 401), (300, 101)], &fd_pool).await;
        assert_eq!(late, (Ok(401), 401));
        assert_eq!(run_late(Vec::new(), &fd_pool).await, (Err("nobody"), 0));
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
        let fd_pool = FdPool::new(2);
        let held: Vec<_> = std::iter::from_fn(|| fd_pool.one()).collect();
        assert_eq!(run_with(&[10_000, 101], &fd_pool).await, (Ok(101), 10_101));
        drop(held);
        assert_eq!(run_with(&[10_000, 101], &fd_pool).await, (Ok(101), 351));
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_race_held_is_spare_again_after_it() {
        let fd_pool = FdPool::new(8);
        assert_eq!(
            run_with(&[9_001, 9_003, 9_005, 9_007], &fd_pool).await,
            (Ok(9_001), 9_001)
        );
        let free: Vec<_> = std::iter::from_fn(|| fd_pool.one()).collect();
        assert_eq!(free.len(), 4);
    }
}
