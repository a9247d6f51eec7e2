//! The folder that `scripts/overlay enrol` makes for a node or a role.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::{Exit, Failure};

/// What is in the folder, as PEM.
pub struct IdentityFolder {
    /// `ca.pem`, the authority's certificate.
    pub authority: Vec<u8>,
    /// `node.pem`, the node's own.
    pub certificate: Vec<u8>,
    /// `node.key`.
    pub key: Vec<u8>,
}

impl IdentityFolder {
    /// Fails (66) if one of its files cannot be read, and (77) if others may read the key; the message names the file.
    pub fn read(folder: &Path) -> Result<Self, Failure> {
        let read = |name| {
            let file = folder.join(name);
            fs::read(&file).map_err(Failure::unreadable(&file))
        };
        check_mode(&folder.join("node.key"))?;
        Ok(Self {
            authority: read("ca.pem")?,
            certificate: read("node.pem")?,
            key: read("node.key")?,
        })
    }
}

/// Checks that others have no access to a key. Its group may read it: systemd passes credentials to a service by an access
/// control list, whose mask appears as the group's rights (acl(5)).
fn check_mode(key: &Path) -> Result<(), Failure> {
    const OTHERS: u32 = 0o037;
    let found = fs::metadata(key).map_err(Failure::unreadable(key))?;
    if found.permissions().mode() & OTHERS == 0 {
        return Ok(());
    }
    let message = "others may read or change it: accepted: mode 0600";
    Err(Failure::at(Exit::NoPermission, key.display())(message))
}

#[cfg(test)]
mod tests {
    use std::fs::{File, Permissions, remove_file, set_permissions};

    use super::*;

    #[test]
    fn a_key_that_others_may_read_is_refused() {
        let key = std::env::temp_dir().join(format!("identity-key-{}", std::process::id()));
        File::create(&key).expect("made");
        for (mode, is_accepted) in [
            (0o600, true),
            (0o400, true),
            (0o440, true),
            (0o644, false),
            (0o604, false),
            (0o660, false),
        ] {
            set_permissions(&key, Permissions::from_mode(mode)).expect("set");
            let checked = check_mode(&key);
            assert_eq!(checked.is_ok(), is_accepted, "{mode:o}: {checked:?}");
        }
        remove_file(&key).expect("removed");
        assert!(check_mode(&key).is_err(), "it is not there");
    }
}
