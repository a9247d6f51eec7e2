//! What front, back ends and switch share: messages over a connection that tells when its other end is gone, certificates
//! (mTLS), and a client's connection out of its socket together with what came by it.
#![forbid(unsafe_code)]

mod channel;
mod identity;
mod parting;

pub use channel::{QUEUE, Sender, carry};
pub use identity::Identity;
pub use parting::{Parting, part};
