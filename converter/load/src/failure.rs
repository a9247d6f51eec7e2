//! How a command fails, with the exit codes of the other Tributary commands.

use std::{fmt, io};

use tributary_program::Exit;
pub use tributary_program::Failure;

/// The work was done, and what came out is wrong: exit 1.
pub fn wrong(why: impl Into<String>) -> Failure {
    Failure::new(Exit::WrongResult, why)
}

/// Something needed is missing, such as a server that answers: exit 69.
pub fn unavailable(why: impl Into<String>) -> Failure {
    Failure::new(Exit::Unavailable, why)
}

/// Says what was attempted when an operation failed.
pub trait Attempt<T> {
    /// [`unavailable`] with `what` in front of the error.
    fn attempt(self, what: impl fmt::Display) -> Result<T, Failure>;
}

impl<T> Attempt<T> for io::Result<T> {
    fn attempt(self, what: impl fmt::Display) -> Result<T, Failure> {
        self.map_err(Failure::at(Exit::Unavailable, what))
    }
}
