//! Who may come in, what may be reached, and how often.

pub mod admission;
pub mod chains;
pub mod cookies;
pub mod handoff;
pub mod rate_limit;
pub mod targets;
