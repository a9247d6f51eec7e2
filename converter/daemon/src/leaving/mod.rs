//! Connections that are left to the kernel once their slow start is over: what comes by one of two connections of plain TCP
//! goes out by the other one, translated, and passes this process no more (docs/converter-leaving.md).
//!
//! Only with the feature `leaving`; without it no configuration asks for it.

#[cfg(feature = "leaving")]
mod departure;
#[cfg(feature = "leaving")]
mod departures;
#[cfg(feature = "leaving")]
mod slow_start;
#[cfg(feature = "leaving")]
mod stays;
#[cfg(not(feature = "leaving"))]
mod without;

#[cfg(feature = "leaving")]
pub use departures::Departures;
#[cfg(not(feature = "leaving"))]
pub use without::Departures;
