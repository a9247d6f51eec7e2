//! The ways a command can fail, with the exit codes of the other Tributary commands (sysexits.h).

use std::{fmt, io};

/// Why a command failed.
#[derive(Debug)]
pub enum Failure {
    /// The work was done, and what came out is wrong: exit 1.
    Wrong(String),
    /// Something needed is missing, such as a server that answers: exit 69.
    Unavailable(String),
}

impl Failure {
    /// The exit code that goes with it.
    pub fn code(&self) -> u8 {
        match self {
            Self::Wrong(_) => 1,
            Self::Unavailable(_) => 69,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wrong(why) | Self::Unavailable(why) => to.write_str(why),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Unavailable(error.to_string())
    }
}

/// Says what was attempted when an operation failed.
pub trait Attempt<T> {
    /// `Unavailable` with `what` in front of the error.
    fn attempt(self, what: impl fmt::Display) -> Result<T, Failure>;
}

impl<T> Attempt<T> for io::Result<T> {
    fn attempt(self, what: impl fmt::Display) -> Result<T, Failure> {
        self.map_err(|error| Failure::Unavailable(format!("{what}: {error}")))
    }
}
