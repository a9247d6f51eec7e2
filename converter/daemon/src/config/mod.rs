//! What an operator writes: one TOML file, checked whole before anything is touched.

mod check;
mod gateway;
mod handoff;
mod listener;
mod model;
mod read;
mod routes_file;
mod sizes;
mod units;

pub use gateway::{Fallback, Gateway, RouteSettings, Via};
pub use handoff::{BackEnd, Choose, Handoff, HandoffRule};
pub use listener::{Convert, Intercept, Listen, ListenerKind, Socks5, Tproxy};
pub use model::{
    Clients, Config, Control, EarlySyn, Http, Limits, Log, Metrics, Names, Offload, Targets,
    Timeouts, UpstreamSettings,
};
pub use read::{load, parse};
pub use sizes::RequestSize;
