//! Why a connection was not handed over, or was lost.

use std::fmt;
use std::io;

use handoff_link::DetachError;

#[derive(Debug)]
pub enum HandoffError {
    /// It cannot be detached from its socket.
    Detach(DetachError),
    /// The switch has not installed the rule.
    Switch,
    /// The back end is away, or rejects it.
    BackEnd,
    /// Bytes arrived at the last moment, and were acknowledged here.
    TooLate,
    /// The kernel refuses to restore it.
    Kernel(io::Error),
}

impl HandoffError {
    /// The reason for relaying in metrics: more specific than the name.
    pub fn why(&self) -> &'static str {
        match self {
            Self::Detach(DetachError::NotQuiescent(reason)) => reason.name(),
            Self::Detach(DetachError::TooManyBytes) => "too-many-bytes",
            Self::Detach(DetachError::ClientClosed) => "client-closed",
            other => other.name(),
        }
    }

    /// For logs and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Detach(_) => "not-checkpointed",
            Self::Switch => "switch-away",
            Self::BackEnd => "back-end-lost",
            Self::TooLate => "too-late",
            Self::Kernel(_) => "not-restored",
        }
    }
}

impl fmt::Display for HandoffError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Detach(why) => why.fmt(f),
            Self::Switch => f.write_str("the switch has not installed the rule"),
            Self::BackEnd => f.write_str("the back end is away, or rejects it"),
            Self::TooLate => f.write_str("bytes arrived at the last moment"),
            Self::Kernel(error) => write!(f, "the kernel refuses to restore it: {error}"),
        }
    }
}
