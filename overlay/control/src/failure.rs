//! How the command can fail: one line, and an exit code of sysexits(3), the same as those of every other command.

/// The exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Wrong arguments.
    Usage = 64,
    /// A file has what is not accepted.
    BadData = 65,
    /// A file cannot be read.
    NoInput = 66,
    /// Something needed is missing: etcd.
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
    /// What was attempted, what was wrong, what would be right.
    pub line: String,
}

impl Failure {
    /// A failure with this exit code and line.
    pub fn new(exit: Exit, line: impl Into<String>) -> Self {
        Self {
            exit,
            line: line.into(),
        }
    }

    /// What the system said to an attempt.
    pub fn from_io(attempted: &str, error: &std::io::Error) -> Self {
        let exit = match error.kind() {
            std::io::ErrorKind::AddrInUse => Exit::InUse,
            std::io::ErrorKind::PermissionDenied => Exit::NoPermission,
            std::io::ErrorKind::NotFound => Exit::Unavailable,
            _ => Exit::System,
        };
        Self::new(exit, format!("{attempted}: {error}"))
    }
}
