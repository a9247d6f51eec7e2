//! A command's failure: one line, and an exit code of sysexits(3), as in every Tributary command.

/// sysexits(3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitCode {
    /// Wrong arguments.
    Usage = 64,
    /// A file has what is not accepted.
    BadData = 65,
    /// A file cannot be read.
    NoInput = 66,
    /// Something needed is missing, such as etcd.
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
    pub exit: ExitCode,
    /// The attempt, what was wrong, and what is accepted.
    pub line: String,
}

impl Failure {
    pub fn new(exit: ExitCode, line: impl Into<String>) -> Self {
        Self {
            exit,
            line: line.into(),
        }
    }

    /// The exit code follows from the kind of the error.
    pub fn from_io(attempted: &str, error: &std::io::Error) -> Self {
        let exit = match error.kind() {
            std::io::ErrorKind::AddrInUse => ExitCode::InUse,
            std::io::ErrorKind::PermissionDenied => ExitCode::NoPermission,
            std::io::ErrorKind::NotFound => ExitCode::Unavailable,
            _ => ExitCode::System,
        };
        Self::new(exit, format!("{attempted}: {error}"))
    }
}
