//! A connection on which nothing moves: for how long, and whether only since Linux lets its receiver stand still.

use std::cell::RefCell;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::Instant;
use tributary_sys::{ReceiveMemory, SocketOption, receive_memory, set_number, unread};

use super::stream::Deadline;
use crate::kernel::sockets::{is_mptcp, optional};

/// After so long without a byte, and then after twice as long each time, but so long between two at the most.
pub const FIRST_LOOK: Duration = Duration::from_secs(1);
const BETWEEN_LOOKS: Duration = Duration::from_secs(60);
/// Bytes for what comes out of order, as the kernel doubles them (socket(7)): so many at least, and at the most. They are a
/// limit: what comes alone takes memory.
const ROOM: u32 = 4 << 20;
const MOST_ROOM: u32 = 32 << 20;
/// The kernel's own `net.core.rmem_max`, of which later ones have more.
const RMEM_MAX: u32 = 212_992;

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
    let Ok(memory) = receive_memory(stream) else {
        return;
    };
    let Some(room) = more_room(memory).filter(|_| is_mptcp(stream)) else {
        return;
    };
    // That is for CAP_NET_ADMIN. The other takes as much as net.core.rmem_max allows, be it less than there is.
    let forced = set_number(stream, SocketOption::RCVBUFFORCE, room);
    if forced.is_err() && memory.most < 2 * RMEM_MAX {
        optional("SO_RCVBUF", set_number(stream, SocketOption::RCVBUF, room));
    }
    // To be asked this has it look at the subflows again. To read would, too, and would take a reset for itself: what came
    // before would then look whole.
    let _ = unread(stream);
    // To set this tells whoever waits for what was found there.
    let _ = set_number(stream, SocketOption::RCVLOWAT, 1);
}

/// What is to be set where a buffer is full. By itself it may have grown as far as `net.ipv4.tcp_rmem` allows.
fn more_room(memory: ReceiveMemory) -> Option<i32> {
    let is_full = memory.taken > memory.most;
    let room = memory.most.max(ROOM);
    i32::try_from(room).ok().filter(|_| is_full && room <= MOST_ROOM)
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[test]
    fn a_full_buffer_is_never_set_to_less_than_it_has() {
        for (taken, most, room) in [
            (131_072, 131_072, None),
            (131_872, 131_072, Some(4 << 20)),
            (13 << 20, 12 << 20, Some(12 << 20)),
            (33 << 20, 32 << 20, Some(32 << 20)),
            (65 << 20, 64 << 20, None),
        ] {
            assert_eq!(more_room(ReceiveMemory { taken, most }), room, "{taken} of {most}");
        }
    }

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
