//! Hands two checkpointed connections over to the kernel.

use std::io;
use std::os::fd::BorrowedFd;

use crate::checkpoint::{Checkpoint, ask_for_window};
use crate::kernel::{Connection, Translator};
use crate::leg::Incompatible;
use crate::translation::Translation;

/// Why two checkpointed connections cannot be one translation.
#[derive(Debug, thiserror::Error)]
pub enum OffloadError {
    #[error(transparent)]
    Incompatible(Incompatible),
    /// The kernel refuses: its table is full, for one.
    #[error("the kernel refuses: {0}")]
    Kernel(#[from] io::Error),
}

impl Connection {
    /// Has the kernel go on with two connections, whose `sockets`, in repair mode, are still there; `devices` are the numbers of those
    /// that go to each one's other end. Both ends are asked for their windows: the answers tell a sender that pauses.
    pub fn take_over(
        translator: &Translator,
        sockets: [BorrowedFd<'_>; 2],
        state: &[Checkpoint; 2],
        devices: [u32; 2],
    ) -> Result<Self, OffloadError> {
        let [a, b] = state;
        let theirs = |leg: &Checkpoint| match leg.clock {
            Some(_) => translator.last_timestamp(leg.leg(0).incoming()),
            None => Ok(0),
        };
        let (a, b) = (a.leg(theirs(a)?), b.leg(theirs(b)?));
        let [from_a, from_b] = Translation::between(&a, &b).map_err(OffloadError::Incompatible)?;
        let connection = Self::begin(translator, [(from_a, devices[1]), (from_b, devices[0])])?;
        for socket in sockets {
            // An end that is not asked asks by itself, later.
            let _ = ask_for_window(socket);
        }
        Ok(connection)
    }
}
