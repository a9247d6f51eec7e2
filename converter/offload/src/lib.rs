//! Offloads a relay's work to the kernel: the two TCP connections that a converter relays between become one translation,
//! and neither end notices. Only where both connections are plain TCP, by the same version of IP.
//!
//! 1. [`SlowStartDetector`] says when slow start is over. In a [`Pause`] both ends use up the windows that they were offered, and stop.
//!    Then [`drop_incoming_data`] has the kernel drop what data comes for both sockets all the same, as a full queue would; the ends
//!    send it again later. What is unread and in flight becomes less, until both are [`check_quiescent`].
//! 2. [`checkpoint()`] takes the state of a socket, and [`checkpoint_both`] of both, if nothing is in flight to its other end and
//!    nothing is unread. If that cannot be had whole, it says why, and [`release`] has the socket go on as if nothing had
//!    been. [`drop_all`] is for one socket alone: it has acknowledgements dropped as well.
//! 3. A [`Leg`] is the state of one of them; between two legs a [`Translation`] for each direction rewrites segments: what
//!    comes in by one leg goes out by the other one, as if the converter had sent it there.
//! 4. The `Translator` does so in the kernel, and the ends tell each other their windows: the pause is over. A `Connection`
//!    knows when it is over. Until then its sockets in repair mode stay open: no other connection gets their addresses and ports.
//! 5. A socket in repair mode that is closed sends nothing. [`restore()`] makes another one out of its state: the way back.
//!
//! A [`Checkpoint`] can also travel, as bytes: another machine goes on with the connection, if packets are led there. That takes
//! no second connection, and neither 1 nor 3: [`begin_dropping_all`], [`checkpoint()`], and [`is_unchanged`] later; there
//! [`restore_dropping_all`], and [`Checkpoint::release`] once packets are led there. [`send_probe()`] is for connections that were
//! lost on the way.
//!
//! What works in the kernel is behind the feature `kernel` (the default).
// What only the part in the kernel asks for.
#![cfg_attr(not(feature = "kernel"), allow(dead_code))]

mod bytes;
mod checkpoint;
mod checksum;
mod encode;
mod ip;
#[cfg(feature = "kernel")]
mod kernel;
mod leg;
mod pause;
mod probe;
mod restore;
mod slow_start;
#[cfg(feature = "kernel")]
mod take_over;
mod translation;

pub use checkpoint::{
    Checkpoint, NotQuiescent, Scales, begin_dropping_all, begin_dropping_data, check_quiescent, checkpoint,
    checkpoint_both, drop_all, drop_incoming_data, is_unchanged, release,
};
pub use encode::InvalidCheckpoint;
#[cfg(feature = "kernel")]
pub use kernel::{Connection, Devices, Limits, Seen, Translator};
pub use leg::{Flow, Incompatible, Leg, Timestamps};
pub use pause::Pause;
pub use probe::send_probe;
pub use restore::{restore, restore_dropping_all};
pub use slow_start::SlowStartDetector;
#[cfg(feature = "kernel")]
pub use take_over::OffloadError;
pub use translation::{Action, SenderState, Translation};
