//! Out of the path, with both connections at once.

use std::os::fd::BorrowedFd;
use std::{fmt, io};

use socket2::{SockFilter, SockRef};

use crate::freeze::{Frozen, Obstacle, ask_for_window, freeze, release};
use crate::kernel::{Connection, Translator};
use crate::leg::Unfit;
use crate::sys;
use crate::translation::Translation;

/// For a segment from its TCP header on: 0 bytes of it are taken if it has data or a FIN, and else all (linux/filter.h).
const NO_DATA: [SockFilter; 10] = [
    SockFilter::new(0x30, 0, 0, 13), // A = flags
    SockFilter::new(0x45, 7, 0, 1),  // FIN
    SockFilter::new(0x30, 0, 0, 12), // A = length of the header, in its upper four bits
    SockFilter::new(0x74, 0, 0, 4),
    SockFilter::new(0x64, 0, 0, 2),
    SockFilter::new(0x07, 0, 0, 0), // X = A
    SockFilter::new(0x80, 0, 0, 0), // A = length of the segment
    SockFilter::new(0x1d, 0, 1, 0), // A == X
    SockFilter::new(0x06, 0, 0, u32::MAX),
    SockFilter::new(0x06, 0, 0, 0),
];

/// Has the kernel drop the data that comes for these sockets, and take acknowledgements and resets: what is in flight from
/// here can come to rest. When this returns no data is under way to them any more, which takes some milliseconds.
/// [`release`] ends it.
pub fn deafen(sockets: &[BorrowedFd<'_>]) -> io::Result<()> {
    for socket in sockets {
        SockRef::from(socket).attach_filter(&NO_DATA)?;
    }
    sys::wait_for_packets_under_way()
}

/// Takes the states of two sockets that are deaf: an acknowledgement that comes meanwhile changes nothing of what is taken.
/// With an obstacle to either of them both go on.
pub fn freeze_both(sockets: [BorrowedFd<'_>; 2]) -> Result<[Frozen; 2], Obstacle> {
    let both = freeze(sockets[0]).and_then(|first| Ok([first, freeze(sockets[1])?]));
    if both.is_err() {
        for socket in sockets {
            release(socket)?;
        }
    }
    both
}

/// Why two frozen connections cannot be one translation.
#[derive(Debug)]
pub enum Staying {
    /// They do not fit each other.
    Unfit(Unfit),
    /// The kernel refuses: its table is full, for one.
    Kernel(io::Error),
}

impl fmt::Display for Staying {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unfit(unfit) => unfit.fmt(f),
            Self::Kernel(error) => write!(f, "the kernel refuses: {error}"),
        }
    }
}

impl std::error::Error for Staying {}

impl From<io::Error> for Staying {
    fn from(error: io::Error) -> Self {
        Self::Kernel(error)
    }
}

impl Connection {
    /// Has the kernel go on with two connections, whose frozen `sockets` are still there; `devices` are the numbers of those
    /// that go to each one's other end. Both ends are asked for their windows: the answers tell a sender that pauses.
    pub fn take_over(
        translator: &mut Translator,
        sockets: [BorrowedFd<'_>; 2],
        frozen: &[Frozen; 2],
        devices: [u32; 2],
    ) -> Result<Self, Staying> {
        let [a, b] = frozen;
        let theirs = |leg: &Frozen| match leg.clock {
            Some(_) => translator.last_timestamp(leg.leg(0).incoming()),
            None => Ok(0),
        };
        let (a, b) = (a.leg(theirs(a)?), b.leg(theirs(b)?));
        let [from_a, from_b] = Translation::between(&a, &b).map_err(Staying::Unfit)?;
        let connection = Self::begin(translator, [(from_a, devices[1]), (from_b, devices[0])])?;
        for socket in sockets {
            // An end that is not asked asks by itself, later.
            let _ = ask_for_window(socket);
        }
        Ok(connection)
    }
}
