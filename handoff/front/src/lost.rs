//! Why a connection was not handed over, or lost.

use std::fmt;
use std::io;

use handoff_link::Parting;

/// What went wrong.
#[derive(Debug)]
pub enum Lost {
    /// Its state cannot be had.
    Parting(Parting),
    /// The switch does not lead it there.
    Switch,
    /// The back end is away, or does not take it.
    BackEnd,
    /// Something came at the last moment, and was acknowledged here.
    TooLate,
    /// The kernel refuses to go on with it.
    Kernel(io::Error),
}

impl Lost {
    /// What was in the way, for metrics: more of it than the name, where the connection stayed in its socket.
    pub fn why(&self) -> &'static str {
        match self {
            Self::Parting(Parting::NotQuiescent(obstacle)) => obstacle.name(),
            Self::Parting(Parting::TooMuch) => "too-much",
            Self::Parting(Parting::Gone) => "gone",
            other => other.name(),
        }
    }

    /// For logs and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Parting(_) => "not-checkpointed",
            Self::Switch => "switch-away",
            Self::BackEnd => "back-end-lost",
            Self::TooLate => "too-late",
            Self::Kernel(_) => "not-restored",
        }
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Parting(why) => why.fmt(f),
            Self::Switch => f.write_str("the switch does not lead it there"),
            Self::BackEnd => f.write_str("the back end is away, or does not take it"),
            Self::TooLate => f.write_str("something came at the last moment"),
            Self::Kernel(error) => write!(f, "the kernel refuses to go on with it: {error}"),
        }
    }
}
