//! Socket options that a kernel may not know, on MPTCP sockets above all: those that only make connections quicker, and those
//! without which a connection would not be what the configuration says.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Mutex, PoisonError};

static REFUSED: Mutex<BTreeSet<&str>> = Mutex::new(BTreeSet::new());

/// Goes on without an option that was not `set`, and logs that once for each `name`.
pub fn optional(name: &'static str, set: io::Result<()>) {
    let Err(error) = set else {
        return;
    };
    let mut refused = REFUSED.lock().unwrap_or_else(PoisonError::into_inner);
    if refused.insert(name) {
        tracing::warn!("the kernel refuses {name}: {error}; going on without it");
    }
}

/// Raises why an option was not `set`, with its `name`.
pub fn needed(name: &str, set: io::Result<()>) -> io::Result<()> {
    set.map_err(|error| io::Error::new(error.kind(), format!("{name}: {error}")))
}
