//! Offloads connections to the kernel once their slow start is over: it translates the segments of each of two plain TCP
//! connections into segments of the other one, and this process no longer sees them (docs/converter-offload.md).
//!
//! Compiled with the feature `offload` only; without it the settings that need it are refused.

#[cfg(feature = "offload")]
mod attempt;
#[cfg(feature = "offload")]
mod offloader;
#[cfg(feature = "offload")]
mod refusal;
#[cfg(feature = "offload")]
mod slow_start;
#[cfg(not(feature = "offload"))]
mod without;

#[cfg(feature = "offload")]
pub use offloader::Offloader;
#[cfg(not(feature = "offload"))]
pub use without::Offloader;
