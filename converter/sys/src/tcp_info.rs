//! What of `struct tcp_info` is asked for (`include/uapi/linux/tcp.h`).

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use crate::options::{SocketOption, get_option};

// Offsets in the structure, and the length that all kernels have.
const STATE: usize = 0;
const OPTIONS: usize = 5;
const SCALES: usize = 6;
const LAST_RECEIVED: usize = 52;
const PATH_MTU: usize = 60;
const ROUND_TRIP_TIME: usize = 68;
const ADVERTISED_MSS: usize = 84;
const SEGMENTS_SENT_AGAIN: usize = 100; // tcpi_total_retrans
const BYTES_RECEIVED: usize = 128;
const BYTES_SENT: usize = 200;
const BYTES_SENT_AGAIN: usize = 208; // tcpi_bytes_retrans
const LENGTH: usize = 136;
/// And up to what Linux 6.2 and later have.
const RECEIVE_WINDOW: usize = 232;
const MOST: usize = 236;

/// What the kernel says of a connection.
#[derive(Debug)]
pub struct TcpInfo {
    bytes: [u8; MOST],
    length: usize,
}

impl From<&[u8]> for TcpInfo {
    /// Of the structure, or as much of it as there is: what is missing counts 0.
    fn from(structure: &[u8]) -> Self {
        let (mut bytes, length) = ([0; MOST], structure.len().min(MOST));
        bytes[..length].copy_from_slice(&structure[..length]);
        Self { bytes, length }
    }
}

impl TcpInfo {
    /// `TCP_ESTABLISHED` (`include/net/tcp_states.h`).
    pub const ESTABLISHED: u8 = 1;
    /// Of the options: timestamps (RFC 7323).
    pub const TIMESTAMPS: u8 = 1;
    /// Of the options: selective acknowledgements (RFC 2018).
    pub const SACK: u8 = 2;
    /// Of the options: scaled windows (RFC 7323).
    pub const SCALED: u8 = 4;
    /// Explicit congestion notification was agreed on, and seen (`TCPI_OPT_ECN`, `TCPI_OPT_ECN_SEEN`).
    pub const ECN: u8 = 8 | 16;
    /// Data in the SYN, timestamps in microseconds, a connection that began with data: nothing that a segment shows later.
    pub const HARMLESS: u8 = 32 | 64 | 128;

    /// As it is now; of a connection of MPTCP its first subflow (net/mptcp/sockopt.c).
    pub fn of(socket: impl AsFd) -> io::Result<Self> {
        let mut bytes = [0; MOST];
        let length = get_option(socket, SocketOption::TCP_INFO, &mut bytes)?;
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

    /// Bytes that were sent, those that were sent again included; 0 before Linux 4.19.
    pub fn bytes_sent(&self) -> u64 {
        u64::from_ne_bytes(array(&self.bytes, BYTES_SENT))
    }

    /// Bytes that were sent again; 0 before Linux 4.19.
    pub fn bytes_sent_again(&self) -> u64 {
        u64::from_ne_bytes(array(&self.bytes, BYTES_SENT_AGAIN))
    }

    /// Bytes that came, each once.
    pub fn bytes_received(&self) -> u64 {
        u64::from_ne_bytes(array(&self.bytes, BYTES_RECEIVED))
    }

    /// Segments that were sent again.
    pub fn segments_sent_again(&self) -> u32 {
        self.number(SEGMENTS_SENT_AGAIN)
    }

    fn number(&self, at: usize) -> u32 {
        u32::from_ne_bytes(array(&self.bytes, at))
    }
}

/// So many bytes from `at` on, which are there.
pub fn array<const SIZE: usize>(bytes: &[u8], at: usize) -> [u8; SIZE] {
    std::array::from_fn(|index| bytes[at + index])
}
