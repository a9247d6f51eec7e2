//! One try to leave two connections: both ends pause, all that is under way comes to rest, and both sockets are frozen.
//! Meanwhile the relay goes on moving what there is.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};
use tributary_transplant::{
    Frozen, Obstacle, Pause, at_rest, begin_deafness, freeze_both, release,
    wait_for_packets_under_way,
};

/// Neither end is deaf for longer, nor paused without anything that moves.
const REST: Duration = Duration::from_secs(1);
/// Neither end is paused for longer: what waits for the other one has gone by then.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(1);

/// Two sockets on the way to be left.
pub struct Departure<'a> {
    sockets: [&'a TcpStream; 2],
    /// Whether the relay has written all that it read.
    flushed: &'a Cell<bool>,
    paused: [Pause; 2],
}

impl<'a> Departure<'a> {
    /// Both ends are offered no more than they were already.
    pub fn begin(sockets: [&'a TcpStream; 2], flushed: &'a Cell<bool>) -> io::Result<Self> {
        let [one, other] = sockets;
        Ok(Self {
            sockets,
            flushed,
            paused: [Pause::begin(one)?, Pause::begin(other)?],
        })
    }

    /// Both states, or what is in the way; then both sockets hear, and [`Self::give_up`] ends the pause.
    pub async fn freeze(&self, passed: impl Fn() -> u64) -> Result<[Frozen; 2], Obstacle> {
        self.pause(passed).await?;
        let rest = self.be_deaf().await;
        if rest.is_err() {
            self.sockets
                .iter()
                .try_for_each(|socket| release(*socket))?;
        }
        rest?;
        freeze_both(self.both())
    }

    /// They were frozen, and go on as if nothing had been.
    pub fn hear(&self, frozen: &[Frozen; 2]) -> io::Result<()> {
        let mut both = frozen.iter().zip(self.sockets);
        both.try_for_each(|(frozen, socket)| frozen.release(socket))
    }

    /// Both ends are offered as much as before.
    pub fn give_up(self) -> io::Result<()> {
        for (socket, pause) in self.sockets.iter().zip(self.paused) {
            pause.end(socket)?;
        }
        Ok(())
    }

    /// Ready when both ends pause and both connections rest; what is in the way, if that comes no nearer: to be deaf then
    /// would only have the ends send again what is dropped.
    async fn pause(&self, passed: impl Fn() -> u64) -> Result<(), Obstacle> {
        let end = Instant::now() + LONGEST_PAUSE;
        let (mut before, mut late) = (None, Instant::now() + REST);
        loop {
            let obstacle = self.obstacle();
            if obstacle.is_none() && self.hold()? {
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

    /// Has both connections take no more data; ready when both rest.
    async fn be_deaf(&self) -> Result<(), Obstacle> {
        begin_deafness(&self.both())?;
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

    fn obstacle(&self) -> Option<Obstacle> {
        let [one, other] = self.sockets;
        let rests = at_rest(one).and_then(|()| at_rest(other));
        let unwritten = (!self.flushed.get()).then_some(Obstacle::Unread(1));
        rests.err().or(unwritten)
    }

    fn hold(&self) -> io::Result<bool> {
        let mut both = self.paused.iter().zip(self.sockets);
        both.try_fold(true, |all, (pause, socket)| Ok(all & pause.holds(socket)?))
    }

    fn both(&self) -> [BorrowedFd<'_>; 2] {
        self.sockets.map(AsFd::as_fd)
    }
}
