//! What front, back ends and switch share: sessions that survive their connections, mutual TLS with roles, and detaching a
//! client's connection from its socket.

mod accept;
mod carrier;
mod detach;
mod identity;
mod progress;
mod role;
mod send_queue;
mod session;

pub use accept::accept_retrying;
pub use detach::{DetachError, detach};
pub use identity::Identity;
pub use role::Role;
pub use send_queue::Sender;
pub use session::{Hello, LinkError, Session, read_hello};
