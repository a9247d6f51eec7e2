//! Checks the process's capabilities (capabilities(7)).

pub use rustix::thread::CapabilitySet;
use rustix::thread::capabilities;

use crate::{Exit, Failure};

/// Fails without all of `wanted`: later the kernel would refuse with a less helpful error.
pub fn require(wanted: CapabilitySet) -> Result<(), Failure> {
    let own = capabilities(None).map_err(Failure::at(Exit::System, "capabilities"))?;
    let missing = missing(wanted, own.effective);
    if missing.is_empty() {
        return Ok(());
    }
    let (missing, wanted) = (names(missing), names(wanted));
    let message = format!("{missing}: missing: accepted: a process with {wanted}, as root has them");
    Err(Failure::new(Exit::NoPermission, message))
}

/// `CAP_SYS_ADMIN` includes the two that were split from it.
fn missing(wanted: CapabilitySet, effective: CapabilitySet) -> CapabilitySet {
    let implied = if effective.contains(CapabilitySet::SYS_ADMIN) {
        CapabilitySet::BPF | CapabilitySet::PERFMON
    } else {
        CapabilitySet::empty()
    };
    wanted - effective - implied
}

fn names(set: CapabilitySet) -> String {
    let names: Vec<_> = set.iter_names().map(|(name, _)| format!("CAP_{name}")).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanted_and_not_there_is_missing() {
        let wanted = CapabilitySet::NET_ADMIN | CapabilitySet::BPF | CapabilitySet::PERFMON;
        let some = CapabilitySet::NET_ADMIN | CapabilitySet::BPF | CapabilitySet::CHOWN;
        assert_eq!(missing(wanted, wanted), CapabilitySet::empty());
        assert_eq!(missing(wanted, some), CapabilitySet::PERFMON);
        assert_eq!(
            names(missing(wanted, CapabilitySet::empty())),
            "CAP_NET_ADMIN, CAP_PERFMON, CAP_BPF"
        );
        assert_eq!(missing(wanted, CapabilitySet::SYS_ADMIN), CapabilitySet::NET_ADMIN);
    }
}
