//! The process: its listeners and threads, what steers it, and what it answers.

mod accept;
mod activation;
mod active_config;
mod answers;
mod control;
mod drain;
mod exposition;
mod last_use;
mod pool;
mod reload;
mod run;
mod successor;
mod worker;

pub use control::{ListenerStatus, Status, ask};
pub use run::run;
