//! Addresses that are no targets: the list `guard/forbidden-targets.toml`, which Squid goes by as well, and what it says of an
//! address. Pure.
#![forbid(unsafe_code)]

mod ranges;
mod verdict;

pub use ranges::{Range, Ranges, ranges};
pub use verdict::{Verdict, embedded_ipv4, verdict};
