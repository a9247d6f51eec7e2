//! Connections to servers: names resolved, every address checked before a packet leaves, the quickest one taken.

mod addresses;
mod attempt;
mod dialer;
mod error;
mod expected_size;
mod fd_pool;
mod hop_error;
mod names;
mod next_hop;
mod next_hops;
mod order;
mod race;
mod route_table;
mod server;
mod target;
mod via_gateway;

pub use attempt::PendingConnect;
pub use dialer::Dialer;
pub use error::DialError;
pub use expected_size::{ExpectedSize, KnownBy};
pub use fd_pool::{FdPermit, FdPool};
pub use names::{Names, SystemFiles};
pub use next_hops::NextHops;
pub use server::{DialOptions, Server};
pub use target::Target;
