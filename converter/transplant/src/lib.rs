//! How a converter in the middle of a chain leaves: two TCP connections that it relays between become one translation, and
//! the two ends never notice. Only IPv4, and only where both connections are plain TCP.
//!
//! A [`Leg`] is the state of one of them at a moment when nothing is in flight to its other end and nothing is unread.
//! Between two legs a [`Translation`] for each direction rewrites segments: what comes in by one leg goes out by the
//! other one, as if the converter had sent it there.
#![deny(unsafe_code)]

mod checksum;
mod leg;
mod translation;

pub use leg::{Flow, Leg, Timestamps, Unfit};
pub use translation::{Event, Outcome, Refusal, Translation};
