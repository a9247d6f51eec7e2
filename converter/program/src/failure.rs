//! How a program fails: one line for the user, and an exit code of sysexits(3), as in every Tributary command.

use std::fmt::{self, Display};
use std::io;
use std::path::Path;

/// Exit codes, the same as those of every other Tributary command (docs/architecture.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// The work was done and its result is wrong, as with connections that a drain had to reset.
    WrongResult = 1,
    /// Wrong arguments or a wrong configuration; nothing was touched.
    Usage = 64,
    BadData = 65,
    NoInput = 66,
    /// Something that is needed is missing: a kernel feature, etcd, a running converter.
    Unavailable = 69,
    System = 71,
    InUse = 75,
    NoPermission = 77,
}

#[derive(Debug)]
pub struct Failure {
    pub exit: Exit,
    /// One line: what was attempted, what was wrong, what would be right.
    pub message: String,
}

impl Failure {
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
        }
    }

    /// For `map_err`: puts the attempt before the error.
    pub fn at<E: Display>(exit: Exit, attempted: impl Display) -> impl Fn(E) -> Self {
        move |error| Self::new(exit, format!("{attempted}: {error}"))
    }

    /// For `map_err`, of a file.
    pub fn unreadable(file: &Path) -> impl Fn(io::Error) -> Self {
        Self::at(Exit::NoInput, format!("{}: cannot be read", file.display()))
    }

    /// The same, with what was attempted before its message.
    #[must_use]
    pub fn during(self, attempted: &str) -> Self {
        Self::at(self.exit, attempted)(self.message)
    }

    /// The exit code follows from the kind of the error.
    pub fn from_io(attempted: &str, error: &io::Error) -> Self {
        let exit = match error.kind() {
            io::ErrorKind::AddrInUse => Exit::InUse,
            io::ErrorKind::PermissionDenied => Exit::NoPermission,
            io::ErrorKind::NotFound => Exit::NoInput,
            _ => Exit::System,
        };
        Self::at(exit, attempted)(error)
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}
