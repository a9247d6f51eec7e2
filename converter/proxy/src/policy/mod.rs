//! Who may come in, what may be reached, and how often.

pub mod admission;
pub mod convert;
pub mod handoff;
pub mod logins;
pub mod rate_limit;
pub mod targets;
