//! Connections that come, go, half-close and die at random, with every byte checked in both directions.

mod client;
mod ends;
mod origin;
mod plan;
mod stats;

pub use client::{Options, run};
pub use origin::{OriginOptions, run_origin};
