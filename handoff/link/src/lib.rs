//! What front, back ends and switch share: sessions, whose messages go over one connection after another, certificates
//! (mTLS) with the role of each, and a client's connection out of its socket together with what came by it.
#![forbid(unsafe_code)]

mod accepting;
mod identity;
mod parting;
mod role;
mod session;
mod waiting;

pub use accepting::accepted;
pub use identity::Identity;
pub use parting::{Parting, part};
pub use role::Role;
pub use session::{Broken, Greeting, Session, greeted};
pub use waiting::Sender;
