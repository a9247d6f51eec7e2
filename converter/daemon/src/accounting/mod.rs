//! What is known of the connections: those that are open, and what became of the others.

pub mod access_log;
pub mod handoff_counters;
pub mod kernel_counters;
pub mod line;
pub mod metrics;
pub mod outcome;
pub mod registry;
