//! How a converter in the middle of a chain leaves: two TCP connections that it relays between become one translation, and
//! the two ends never notice. Only IPv4, and only where both connections are plain TCP.
//!
//! 1. [`at_rest`] says when it is worth trying. [`hold`] has the kernel drop what comes for both sockets, as a full queue
//!    would; the ends send it again later.
//! 2. [`freeze()`] takes the state of each, if nothing is in flight to its other end and nothing is unread. If that cannot
//!    be had whole, it says why, and [`release`] has the socket go on as if nothing had been.
//! 3. A [`Leg`] is the state of one of them; between two legs a [`Translation`] for each direction rewrites segments: what
//!    comes in by one leg goes out by the other one, as if the converter had sent it there.
//! 4. The [`Translator`] does so in the kernel. The sockets are closed when it has begun; a [`Connection`] knows when it is
//!    over.
//! 5. A frozen socket that is closed sends nothing. [`thaw()`] makes another one out of its state: the way back.
#![deny(unsafe_code)]

mod bytes;
mod checksum;
mod freeze;
mod kernel;
mod leg;
mod sys;
mod tcp_info;
mod thaw;
mod translation;

pub use freeze::{Frozen, Obstacle, Scales, at_rest, freeze, hold, release};
pub use kernel::{Action, Connection, Limits, Seen, Translator};
pub use leg::{Flow, Leg, Timestamps, Unfit};
pub use thaw::thaw;
pub use translation::{Event, Outcome, Refusal, Translation};
