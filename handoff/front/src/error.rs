//! Why a connection was not handed over, or was lost.

use std::io;

use handoff_link::DetachError;
use thiserror::Error;

#[derive(Debug, Error)]
pub enum HandoffError {
    /// It cannot be detached from its socket.
    #[error("{0}")]
    Detach(DetachError),
    #[error("the switch has not installed the rule")]
    Switch,
    #[error("the back end is away, or rejects it")]
    BackEnd,
    /// And were acknowledged here.
    #[error("bytes arrived at the last moment")]
    TooLate,
    #[error("the kernel refuses to restore it: {0}")]
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
