//! What of `struct tcp_info` is asked for (`include/uapi/linux/tcp.h`).

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use crate::bytes::array;
use crate::sys::{self, TcpOption};

// Offsets in the structure, and the length that all kernels have.
const STATE: usize = 0;
const OPTIONS: usize = 5;
const SCALES: usize = 6;
const LAST_RECEIVED: usize = 52;
const PATH_MTU: usize = 60;
const ROUND_TRIP_TIME: usize = 68;
const ADVERTISED_MSS: usize = 84;
const LENGTH: usize = 136;
/// And up to what Linux 6.2 and later have.
const RECEIVE_WINDOW: usize = 232;
const MOST: usize = 236;

/// `TCP_ESTABLISHED` (`include/net/tcp_states.h`).
pub const ESTABLISHED: u8 = 1;
// Bits of the options.
pub const TIMESTAMPS: u8 = 1;
pub const SACK: u8 = 2;
pub const SCALED: u8 = 4;
/// Explicit congestion notification was agreed on, and seen (`TCPI_OPT_ECN`, `TCPI_OPT_ECN_SEEN`).
pub const ECN: u8 = 8 | 16;
/// Data in the SYN, timestamps in microseconds, a connection that began with data: nothing that a segment shows later.
pub const HARMLESS: u8 = 32 | 64 | 128;

/// The smoothed round-trip time of a connection, as the kernel has measured it.
pub fn round_trip_time(socket: impl AsFd) -> io::Result<Duration> {
    Ok(TcpInfo::of(socket.as_fd())?.round_trip_time())
}

/// What the kernel says of a connection.
pub struct TcpInfo {
    bytes: [u8; MOST],
    length: usize,
}

impl TcpInfo {
    pub fn of(socket: BorrowedFd<'_>) -> io::Result<Self> {
        let mut bytes = [0; MOST];
        let length = sys::get(socket, TcpOption::INFO, &mut bytes)?;
        if length < LENGTH {
            return Err(io::Error::other("struct tcp_info is shorter than ever"));
        }
        Ok(Self { bytes, length })
    }

    /// Its state (`include/net/tcp_states.h`).
    pub fn state(&self) -> u8 {
        self.bytes[STATE]
    }

    /// What was agreed on.
    pub fn options(&self) -> u8 {
        self.bytes[OPTIONS]
    }

    /// The other end's window scale and ours: two fields of four bits.
    pub fn scales(&self) -> (u8, u8) {
        let (low, high) = (self.bytes[SCALES] & 0xf, self.bytes[SCALES] >> 4);
        if cfg!(target_endian = "little") {
            (low, high)
        } else {
            (high, low)
        }
    }

    /// Bytes of a packet that the way to the other end takes.
    pub fn path_mtu(&self) -> u32 {
        self.number(PATH_MTU)
    }

    /// Bytes of the longest segment that the other end was told of.
    pub fn advertised_mss(&self) -> u32 {
        self.number(ADVERTISED_MSS)
    }

    /// The smoothed round-trip time.
    pub fn round_trip_time(&self) -> Duration {
        Duration::from_micros(self.number(ROUND_TRIP_TIME).into())
    }

    /// How long ago data came last, or the connection began.
    pub fn silence(&self) -> Duration {
        Duration::from_millis(self.number(LAST_RECEIVED).into())
    }

    /// Bytes that the other end may send beyond what was acknowledged last; unknown before Linux 6.2.
    pub fn receive_window(&self) -> Option<u32> {
        (self.length == MOST).then(|| self.number(RECEIVE_WINDOW))
    }

    fn number(&self, at: usize) -> u32 {
        u32::from_ne_bytes(array(&self.bytes, at))
    }
}
