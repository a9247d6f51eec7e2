//! What an operator writes: one TOML file, checked whole before anything is touched.

mod check;
mod gateway;
mod handoff;
mod model;
mod offload;
mod read;
mod routes_file;
mod sizes;
mod units;

pub use gateway::{Fallback, Gateway, RouteSettings, Via};
pub use handoff::{BackEnd, Choose, Handoff, HandoffRule};
pub use model::{
    Clients, Config, Control, EarlySyn, Http, Intercept, Limits, Listen, ListenerKind, Log,
    Metrics, Names, Targets, Timeouts, UpstreamSettings,
};
pub use offload::Offload;
pub use read::{load, parse};
pub use sizes::RequestSize;
