//! Connections to servers: names resolved, every address checked before a packet leaves, the quickest one taken.

mod attempt;
mod dialer;
mod error;
mod names;
mod next_hop;
mod next_hops;
mod order;
mod race;
mod server;
mod spare;
mod target;

pub use attempt::PendingDial;
pub use dialer::Dialer;
pub use error::DialError;
pub use names::Names;
pub use next_hops::NextHops;
pub use server::{DialOptions, Server};
pub use spare::{Spare, SpareDescriptors};
pub use target::Target;
