//! Requests that may be handed to back ends: to which one, and whether it pays. Pure, but for [`Learned`]'s locks.

mod choice;
mod expected;
mod learned;
mod sizes;

pub use choice::{Choice, choose, choose_unseen};
pub use expected::Expected;
pub use learned::{Learned, Question};
