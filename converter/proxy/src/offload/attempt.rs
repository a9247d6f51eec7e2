//! One attempt to offload two connections: both ends pause, all data in flight is delivered, and both sockets are
//! checkpointed. Meanwhile the relay goes on moving data.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::task::Poll;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};
use tributary_offload::{
    Checkpoint, NotQuiescent, Pause, SlowStartDetector, begin_dropping_data, check_quiescent, checkpoint_both, release,
};
use tributary_sys::{TcpInfo, wait_for_packets_under_way};

/// How long data of either end is dropped at most, and how long a pause without progress lasts.
const REST: Duration = Duration::from_secs(1);
/// How long both ends are paused at most.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(1);

/// Two sockets that are to be offloaded.
pub struct OffloadAttempt<'a> {
    sockets: [&'a TcpStream; 2],
    /// Whether the relay has written all that it read.
    flushed: &'a Cell<bool>,
    paused: [Pause; 2],
}

impl<'a> OffloadAttempt<'a> {
    /// Stops opening the windows that both ends are offered.
    pub fn begin(sockets: [&'a TcpStream; 2], flushed: &'a Cell<bool>) -> io::Result<Self> {
        let [one, other] = sockets;
        Ok(Self {
            sockets,
            flushed,
            paused: [Pause::begin(one)?, Pause::begin(other)?],
        })
    }

    /// Checkpoints both sockets. On an error both receive data again, and [`Self::give_up`] ends the pause.
    pub async fn checkpoint(&self, passed: impl Fn() -> u64) -> Result<[Checkpoint; 2], NotQuiescent> {
        self.pause(passed).await?;
        let rest = self.drop_incoming_data().await;
        if rest.is_err() {
            self.sockets.iter().try_for_each(|socket| release(*socket))?;
        }
        rest?;
        checkpoint_both(self.both())
    }

    /// Takes both sockets out of repair mode: the connections go on as before.
    pub fn resume(&self, state: &[Checkpoint; 2]) -> io::Result<()> {
        let mut both = state.iter().zip(self.sockets);
        both.try_for_each(|(state, socket)| state.release(socket))
    }

    pub fn give_up(self) -> io::Result<()> {
        for (socket, pause) in self.sockets.iter().zip(self.paused) {
            pause.end(socket)?;
        }
        Ok(())
    }

    /// Waits until both ends pause and both connections are quiescent. Returns what is in the way once there is no more
    /// progress: to drop data then would only have the ends send it again.
    async fn pause(&self, passed: impl Fn() -> u64) -> Result<(), NotQuiescent> {
        let end = Instant::now() + LONGEST_PAUSE;
        let (mut before, mut late) = (None, Instant::now() + REST);
        loop {
            let obstacle = self.obstacle();
            if obstacle.is_none() && self.is_paused()? {
                return Ok(());
            }
            if Instant::now() >= late.min(end) {
                return obstacle.map_or(Ok(()), Err);
            }
            let state = (passed(), obstacle.map(|obstacle| obstacle.to_string()));
            if before.as_ref() != Some(&state) {
                (before, late) = (Some(state), Instant::now() + REST);
            }
            sleep(LOOK).await;
        }
    }

    /// Drops incoming data of both connections, and waits until both are quiescent.
    async fn drop_incoming_data(&self) -> Result<(), NotQuiescent> {
        begin_dropping_data(&self.both())?;
        let waited = spawn_blocking(wait_for_packets_under_way).await;
        waited.map_err(io::Error::other)??;
        let late = Instant::now() + REST;
        loop {
            match self.obstacle() {
                None => return Ok(()),
                Some(obstacle) if obstacle.may_pass() && Instant::now() < late => {}
                Some(obstacle) => return Err(obstacle),
            }
            sleep(LOOK).await;
        }
    }

    fn obstacle(&self) -> Option<NotQuiescent> {
        let [one, other] = self.sockets;
        let rests = check_quiescent(one).and_then(|()| check_quiescent(other));
        let unwritten = (!self.flushed.get()).then_some(NotQuiescent::Unread(1));
        rests.err().or(unwritten)
    }

    fn is_paused(&self) -> io::Result<bool> {
        let mut both = self.paused.iter().zip(self.sockets);
        both.try_fold(true, |all, (pause, socket)| Ok(all & pause.holds(socket)?))
    }

    fn both(&self) -> [BorrowedFd<'_>; 2] {
        self.sockets.map(AsFd::as_fd)
    }
}

/// No round is shorter: a relay wakes up for pieces of some hundred kilobytes.
const SHORTEST_ROUND: Duration = Duration::from_millis(10);

/// Waits until slow start is over between two sockets and at least `least` bytes have passed; `passed` counts them, and
/// `flushed` says whether the relay has written all that it read. It never wakes its task: the relay polls it whenever it
/// moves bytes. Returns the kernel's error, such as that of a connection that was reset.
pub async fn slow_start_is_over(
    sockets: [&TcpStream; 2],
    passed: impl Fn() -> u64,
    flushed: &Cell<bool>,
    least: u64,
) -> io::Result<()> {
    let begun = Instant::now();
    let (mut detector, mut next, mut longest) = (SlowStartDetector::default(), begun, SHORTEST_ROUND);
    poll_fn(|_| {
        let now = Instant::now();
        detector.hear(now - begun, passed(), flushed.get(), longest);
        if now < next {
            return Poll::Pending;
        }
        let round = match round(sockets) {
            Ok(round) => round,
            Err(error) => return Poll::Ready(Err(error)),
        };
        (next, longest) = (now + round, longest.max(round));
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
    let [one, other] = [one, other].map(TcpInfo::of);
    Ok((one?.round_trip_time() + other?.round_trip_time()).max(SHORTEST_ROUND))
}
