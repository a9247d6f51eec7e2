//! The switch of a request hand-off: by rules of fronts it forwards packets of a client for a service to a back end, and
//! that one's packets to the client as the service's. An eBPF program for tc(8) rewrites them.
//!
//! [`Rules`] decides what changes, and does no I/O; [`Switch`] changes the kernel's tables for the fronts that [`serve`]
//! serves. [`Guard`] drops stray packets.

mod guard;
mod kernel;
mod rules;
mod serve;

pub use guard::Guard;
pub use kernel::Switch;
pub use rules::{Change, Rules, RulesConfig};
pub use serve::serve;
