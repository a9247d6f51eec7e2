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

pub use gateway::{Fallback, Gateway, RouteSettings};
#[cfg(test)]
pub use handoff::BackEnd;
pub use handoff::{Choose, Handoff, HandoffRule};
pub use listener::{Convert, Intercept, Listen, ListenerKind};
pub use model::{
    Clients, Config, EarlySyn, Limits, Offload, Reuse, SharedNetwork, Targets, Timeouts, UpstreamSettings,
};
pub use read::load;
#[cfg(test)]
pub use read::parse;
pub use sizes::RequestSize;

/// Each line of a table: a text, in which `\n` ends a line, and parts of what is said of it.
#[cfg(test)]
fn cases(table: &str) -> impl Iterator<Item = (String, Vec<&str>)> {
    table.trim().lines().map(|line| {
        let (text, parts) = line.trim().split_once(" => ").expect("a case");
        (text.replace(r"\n", "\n"), parts.split(" | ").collect())
    })
}
