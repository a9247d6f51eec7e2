//! The command line, and how a running converter's status is shown.

pub mod arguments;
pub mod report;
pub mod top;
