//! Connections to servers: names resolved, every address checked before a packet leaves, the quickest one taken.

mod addresses;
mod attempt;
mod by_gateway;
mod dialer;
mod error;
mod expected_size;
mod hop_error;
mod names;
mod next_hop;
mod next_hops;
mod order;
mod race;
mod route_table;
mod server;
mod spare;
mod target;

pub use attempt::PendingDial;
pub use dialer::Dialer;
pub use error::DialError;
pub use expected_size::{ExpectedSize, KnownBy};
pub use names::{Names, SystemFiles};
pub use next_hops::NextHops;
pub use server::{DialOptions, Server};
pub use spare::{Spare, SpareDescriptors};
pub use target::Target;
