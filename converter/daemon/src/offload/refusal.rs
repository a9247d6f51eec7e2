//! Why a connection is not offloaded.

use std::net::SocketAddr;
use std::{fmt, io};

use tributary_offload::{Incompatible, NotQuiescent, OffloadError};

/// A permanent reason.
#[derive(Debug)]
pub struct NotOffloaded {
    /// For metrics.
    pub name: &'static str,
    why: String,
}

impl NotOffloaded {
    /// In no attempt did both connections become quiescent.
    pub fn never_quiescent() -> Self {
        Self::new("busy", "its ends did not pause")
    }

    /// The route to this end leads to a device that is not in the settings.
    pub fn elsewhere(end: SocketAddr) -> Self {
        let why = format!("{end} is not behind a device of offload.devices");
        Self {
            name: "device",
            why,
        }
    }

    fn new(name: &'static str, why: &str) -> Self {
        let why = why.to_owned();
        Self { name, why }
    }
}

impl fmt::Display for NotOffloaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl From<io::Error> for NotOffloaded {
    fn from(error: io::Error) -> Self {
        NotQuiescent::from(error).into()
    }
}

impl From<NotQuiescent> for NotOffloaded {
    fn from(obstacle: NotQuiescent) -> Self {
        Self::new(obstacle.name(), &obstacle.to_string())
    }
}

impl From<Incompatible> for NotOffloaded {
    fn from(incompatible: Incompatible) -> Self {
        Self::new(incompatible.name(), &incompatible.to_string())
    }
}

impl From<OffloadError> for NotOffloaded {
    fn from(error: OffloadError) -> Self {
        match error {
            OffloadError::Incompatible(incompatible) => incompatible.into(),
            OffloadError::Kernel(error) => error.into(),
        }
    }
}
