//! Out of the path, with both connections at once.

use std::os::fd::BorrowedFd;
use std::{fmt, io};

use crate::freeze::{Frozen, ask_for_window};
use crate::kernel::{Connection, Translator};
use crate::leg::Unfit;
use crate::translation::Translation;

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
        translator: &Translator,
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
