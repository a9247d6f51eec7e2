//! How a converter in the middle of a chain leaves: two TCP connections that it relays between become one translation, and
//! the two ends never notice. Only where both connections are plain TCP, by the same version of IP.
//!
//! 1. [`Steady`] says when slow start is over. In a [`Pause`] both ends use up the windows that they were offered, and stop.
//!    Then [`deafen`] has the kernel drop what data comes for both sockets all the same, as a full queue would; the ends
//!    send it again later. What is unread and in flight becomes less, until both are [`at_rest`].
//! 2. [`freeze()`] takes the state of a socket, and [`freeze_both`] of both, if nothing is in flight to its other end and
//!    nothing is unread. If that cannot be had whole, it says why, and [`release`] has the socket go on as if nothing had
//!    been. [`hold`] is for one socket alone: it has acknowledgements dropped as well.
//! 3. A [`Leg`] is the state of one of them; between two legs a [`Translation`] for each direction rewrites segments: what
//!    comes in by one leg goes out by the other one, as if the converter had sent it there.
//! 4. The `Translator` does so in the kernel, and the ends tell each other their windows: the pause is over. A `Connection`
//!    knows when it is over. Until then its frozen sockets stay open: no other connection gets their addresses and ports.
//! 5. A frozen socket that is closed sends nothing. [`thaw()`] makes another one out of its state: the way back.
//!
//! A [`Frozen`] can also travel, as bytes: another machine goes on with the connection, if packets are led there. That takes
//! no second connection, and neither 1 nor 3: [`hold_at_once`], [`freeze()`], and [`keeps_still`] later. [`provoke()`] is
//! for connections that were lost on the way.
//!
//! What works in the kernel is behind the feature `kernel` (the default).
#![deny(unsafe_code)]
// What only the part in the kernel asks for.
#![cfg_attr(not(feature = "kernel"), allow(dead_code))]

mod bytes;
mod checksum;
#[cfg(feature = "kernel")]
mod departure;
mod freeze;
mod ip;
#[cfg(feature = "kernel")]
mod kernel;
mod leg;
mod pause;
mod provoke;
mod steady;
mod sys;
mod tcp_info;
mod thaw;
mod translation;
mod travel;

#[cfg(feature = "kernel")]
pub use departure::Staying;
pub use freeze::{
    Frozen, Obstacle, Scales, at_rest, begin_deafness, deafen, freeze, freeze_both, hold,
    hold_at_once, keeps_still, release,
};
#[cfg(feature = "kernel")]
pub use kernel::{Action, Connection, Devices, Limits, Seen, Translator};
pub use leg::{Flow, Leg, Timestamps, Unfit};
pub use pause::Pause;
pub use provoke::provoke;
pub use steady::Steady;
pub use sys::{unacknowledged, wait_for_packets_under_way};
pub use tcp_info::round_trip_time;
pub use thaw::thaw;
pub use translation::{Event, Outcome, Refusal, Said, Translation};
pub use travel::NotFrozen;
