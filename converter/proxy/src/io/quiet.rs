//! A connection on which nothing moves: for how long, and whether only since Linux lets its receiver stand still.

use std::cell::RefCell;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::Instant;
use tributary_sys::{SocketOption, receive_memory, set_number, unread};

use super::stream::Deadline;
use crate::kernel::sockets::{is_mptcp, optional};

/// After so long without a byte, and then after twice as long each time, but so long between two at the most.
const FIRST_LOOK: Duration = Duration::from_secs(1);
const BETWEEN_LOOKS: Duration = Duration::from_secs(60);
/// Bytes for what comes out of order, as the kernel doubles it (socket(7)). It is a limit: what comes alone takes memory.
const ROOM: i32 = 4 << 20;

/// Since when nothing has moved.
#[derive(Debug)]
pub struct Quiet {
    since: Instant,
    /// From then to the next look.
    look: Duration,
}

impl Quiet {
    /// From now on.
    pub fn begin() -> Self {
        Self {
            since: Instant::now(),
            look: FIRST_LOOK,
        }
    }

    /// The moment that something moved last.
    pub fn since(&self) -> Instant {
        self.since
    }

    /// Ready after so long. Meanwhile those of `receivers` that wait for bytes are looked at.
    pub fn poll(
        &mut self,
        cx: &mut Context<'_>,
        timer: &RefCell<Deadline>,
        limit: Duration,
        receivers: [Option<&TcpStream>; 2],
    ) -> Poll<()> {
        loop {
            ready!(timer.borrow_mut().poll_until(cx, self.since + self.look.min(limit)));
            if self.look >= limit {
                return Poll::Ready(());
            }
            self.look += self.look.min(BETWEEN_LOOKS);
            receivers.into_iter().flatten().for_each(set_going);
        }
    }
}

/// Once what came out of order has filled the receive buffer of a connection by MPTCP, Linux takes nothing more from its
/// subflows, not even the bytes that are missing (`mptcp_can_spool_backlog()`, net/mptcp/protocol.c): it would stand still for
/// good (docs/upstream/receiver-stands-still.md). With more room it goes on.
fn set_going(stream: &TcpStream) {
    if !receive_memory(stream).is_ok_and(|memory| memory.taken > memory.most) || !is_mptcp(stream) {
        return;
    }
    if set_number(stream, SocketOption::RCVBUFFORCE, ROOM).is_err() {
        // As much as net.core.rmem_max allows: that is for CAP_NET_ADMIN.
        optional("SO_RCVBUF", set_number(stream, SocketOption::RCVBUF, ROOM));
    }
    // To be asked this has it look at the subflows again. To read would, too, and would take a reset for itself: what came
    // before would then look whole.
    let _ = unread(stream);
    // To set this tells whoever waits for what was found there.
    let _ = set_number(stream, SocketOption::RCVLOWAT, 1);
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_ends_at_its_limit_however_often_it_was_looked_at() {
        let timer = RefCell::default();
        for limit in [500, 1000, 10_000, 600_000].map(Duration::from_millis) {
            let mut quiet = Quiet::begin();
            poll_fn(|cx| quiet.poll(cx, &timer, limit, [None; 2])).await;
            assert_eq!(quiet.since().elapsed(), limit);
        }
    }
}
