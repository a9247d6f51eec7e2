//! The switch of a request hand-off: by rules of fronts, packets of a client to a service go to a back end, and its packets
//! go to the client as the service's. The program for tc(8) of `tributary-offload` rewrites them.
//!
//! [`Rules`] decides what is to be changed, and knows of no kernel; [`Switch`] changes it, for fronts that come in by
//! [`serve`]. [`guard`] keeps what no rule is for from getting to clients.
#![forbid(unsafe_code)]

mod guard;
mod kernel;
mod rules;
mod serve;

pub use guard::{guard, ruleset};
pub use kernel::Switch;
pub use rules::{Change, Configured, Limits, Rules};
pub use serve::serve;
