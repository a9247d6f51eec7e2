//! Why a connection is not left.

use std::net::SocketAddr;
use std::{fmt, io};

use tributary_transplant::{Obstacle, Staying, Unfit};

/// A reason that will not pass.
#[derive(Debug)]
pub struct Stays {
    /// For metrics.
    pub name: &'static str,
    why: String,
}

impl Stays {
    /// Each time that it was tried something was still under way.
    pub fn never_at_rest() -> Self {
        Self::new("busy", "its ends did not pause")
    }

    /// The route to this end leads to a device that is not named.
    pub fn elsewhere(end: SocketAddr) -> Self {
        let why = format!("{end} is not behind a device of leaving.devices");
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

impl fmt::Display for Stays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl From<io::Error> for Stays {
    fn from(error: io::Error) -> Self {
        Obstacle::from(error).into()
    }
}

impl From<Obstacle> for Stays {
    fn from(obstacle: Obstacle) -> Self {
        Self::new(obstacle.name(), &obstacle.to_string())
    }
}

impl From<Unfit> for Stays {
    fn from(unfit: Unfit) -> Self {
        Self::new(unfit.name(), &unfit.to_string())
    }
}

impl From<Staying> for Stays {
    fn from(staying: Staying) -> Self {
        match staying {
            Staying::Unfit(unfit) => unfit.into(),
            Staying::Kernel(error) => error.into(),
        }
    }
}
