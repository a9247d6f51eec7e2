//! Requests that may be handed to back ends: to which one, and whether it pays. Pure, but for [`SizeEstimator`]'s lock.

mod choice;
mod estimator;
mod expected;
mod sizes;

pub use choice::{Choice, choose, choose_unseen};
pub use estimator::{SizeEstimate, SizeEstimator};
pub use expected::Expected;
