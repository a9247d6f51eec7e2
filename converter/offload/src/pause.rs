//! The other end of a connection pauses: it is offered no more than it was already.
//!
//! Nothing is lost, as it would be by dropping what is in flight: its sender need not find that out by a timer.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use tributary_sys::{SocketOption, TcpInfo, get_number, set_option};

/// The kernel takes the least that it knows instead, about a kilobyte (`tcp_set_window_clamp()` in net/ipv4/tcp.c).
const LEAST: u32 = 1;
/// The most that a window may ever be for its unit to be 256 bytes: two windows of less than [`LEAST`] then hold less than a
/// segment of 1460 bytes (`tcp_select_initial_window()` in `net/ipv4/tcp_output.c`).
const MOST: u32 = (16 << 20) - 1;
/// An acknowledgement may come so much later (`TCP_DELACK_MIN` in include/net/tcp.h).
const DELAYED: Duration = Duration::from_millis(40);

/// A window that opens no further.
#[derive(Debug)]
pub struct Pause {
    /// The most that was offered before, and that is from now on.
    before: u32,
    least: u32,
}

impl Pause {
    /// Before a socket listens or connects: its connections' windows are told in units that are small enough for the other
    /// end to be stopped, which Linux chooses by the most that it may ever offer: 32 MB by default from 6.17 on. They are
    /// never above 16 MB then.
    pub fn prepare(socket: impl AsFd) -> io::Result<()> {
        offer(socket.as_fd(), MOST)
    }

    /// Offers the other end no more. What it was offered before still comes, and is to be read.
    pub fn begin(socket: impl AsFd) -> io::Result<Self> {
        let socket = socket.as_fd();
        let before = offered(socket)?;
        offer(socket, LEAST)?;
        let (_, scale) = TcpInfo::of(socket)?.scales();
        Ok(Self {
            before,
            // Windows are told in units of the scale, and rounded up (`__tcp_select_window()` in net/ipv4/tcp_output.c).
            least: offered(socket)?.next_multiple_of(1 << scale),
        })
    }

    /// Whether the other end can send next to nothing any more, or had nothing to send for a while.
    pub fn holds(&self, socket: impl AsFd) -> io::Result<bool> {
        let socket = socket.as_fd();
        // A buffer that grows for what has come takes the window along (`tcp_rcv_space_adjust()`).
        offer(socket, LEAST)?;
        let info = TcpInfo::of(socket)?;
        let used_up = |window| window <= self.least;
        let silent = info.silence() > info.round_trip_time() + DELAYED;
        Ok(silent || info.receive_window().is_some_and(used_up))
    }

    /// Offers as much as before. The other end learns it from the next acknowledgement, or asks (RFC 9293 section 3.8.6.1).
    pub fn end(self, socket: impl AsFd) -> io::Result<()> {
        offer(socket.as_fd(), self.before)
    }
}

fn offered(socket: BorrowedFd<'_>) -> io::Result<u32> {
    get_number(socket, SocketOption::TCP_WINDOW_CLAMP)
}

fn offer(socket: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
    set_option(socket, SocketOption::TCP_WINDOW_CLAMP, &bytes.to_ne_bytes())
}
