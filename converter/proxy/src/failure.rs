//! How a command can fail: one line for the user, and an exit code of sysexits(3).

use std::fmt;

/// Exit codes, the same as those of every other Tributary command (docs/architecture.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// The work was done and its result is wrong, as with connections that a drain had to reset.
    WrongResult = 1,
    /// Wrong arguments or a wrong configuration; nothing was touched.
    Usage = 64,
    /// An input file is not there or cannot be read.
    NoInput = 66,
    /// Something that is needed is missing: a kernel feature, a running converter.
    Unavailable = 69,
    /// The system refused an operation.
    System = 71,
    /// A port is in use.
    InUse = 75,
    /// A privilege is missing.
    NoPermission = 77,
}

/// A failure that a user can act on.
#[derive(Debug)]
pub struct Failure {
    /// What the process ends with.
    pub exit: Exit,
    /// One line: what was attempted, what was wrong, what would be right.
    pub message: String,
}

impl Failure {
    /// A failure with this exit code and message.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
        }
    }

    /// What the system said to an attempt, with the exit code that fits it.
    pub fn from_io(attempted: &str, error: &std::io::Error) -> Self {
        let exit = match error.kind() {
            std::io::ErrorKind::AddrInUse => Exit::InUse,
            std::io::ErrorKind::PermissionDenied => Exit::NoPermission,
            std::io::ErrorKind::NotFound => Exit::NoInput,
            _ => Exit::System,
        };
        Self::new(exit, format!("{attempted}: {error}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}
