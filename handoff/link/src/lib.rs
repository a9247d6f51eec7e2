//! What front, back ends and switch share: messages over a connection that tells when its other end is gone, certificates
//! (mTLS) with the role of each, and a client's connection out of its socket together with what came by it.
#![forbid(unsafe_code)]

mod accepting;
mod channel;
mod identity;
mod parting;
mod role;

pub use accepting::accepted;
pub use channel::{Outgoing, Sender, carry, queue};
pub use identity::Identity;
pub use parting::{Parting, part};
pub use role::Role;
