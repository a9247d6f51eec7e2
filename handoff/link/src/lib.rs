//! What front, back ends and switch share: messages over a connection that tells when its other end is gone, certificates
//! (mTLS) with the role of each, and a client's connection out of its socket together with what came by it.
#![forbid(unsafe_code)]

use std::time::Duration;

mod channel;
mod identity;
mod parting;
mod role;

pub use channel::{Outgoing, Sender, carry, queue};
pub use identity::Identity;
pub use parting::{Parting, part};
pub use role::Role;

/// After an attempt to accept that failed: without a descriptor the next one fails at once, too (accept(2), `EMFILE`).
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
