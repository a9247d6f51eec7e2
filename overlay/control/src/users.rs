//! etcd's users and roles, read and changed as [`crate::permissions`] says. Takes the identity of etcd's user root.

use std::collections::BTreeSet;

use etcd_client::{AuthClient, PermissionType, UserAddOptions};
use serde::Serialize;

use crate::failure::{Exit, Failure};
use crate::lost::Lost;
use crate::members::Members;
use crate::name::Name;
use crate::permissions::{self, ADMINISTRATOR, Known, Part, Permission, Step, keys_of};
use crate::store::{Store, answered};

/// What was done, or would be.
#[derive(Debug, Serialize)]
pub struct Changes {
    dry_run: bool,
    changes: Vec<String>,
}

/// Have etcd allow these names what they need for this part, and nobody anything else.
///
/// Exits with 75 if a name has another part, with 77 if we are not root, with 69 without etcd.
pub async fn authorize(
    members: &Members,
    part: Part,
    names: &[Name],
    dry_run: bool,
) -> Result<Changes, Failure> {
    let plan = |known: &Known| {
        permissions::authorize(part, names, known).map_err(|line| Failure::new(Exit::InUse, line))
    };
    change(members, names, plan, dry_run).await
}

/// Have etcd allow these names nothing any more, and remove what they wrote.
///
/// Exits with 64 if etcd does not know a name, with 77 if we are not root, with 69 without etcd.
pub async fn revoke(members: &Members, names: &[Name], dry_run: bool) -> Result<Changes, Failure> {
    let plan = |known: &Known| {
        permissions::revoke(names, known).map_err(|line| Failure::new(Exit::Usage, line))
    };
    change(members, names, plan, dry_run).await
}

async fn change(
    members: &Members,
    names: &[Name],
    plan: impl Fn(&Known) -> Result<Vec<Step>, Failure>,
    dry_run: bool,
) -> Result<Changes, Failure> {
    let away = |lost: Lost| lost.failure(members);
    let store = Store::connect(members).await.map_err(away)?;
    let steps = plan(&known(&store, names).await.map_err(away)?)?;
    if !dry_run {
        for step in &steps {
            perform(&store, step).await.map_err(away)?;
        }
    }
    Ok(Changes {
        dry_run,
        changes: steps.iter().map(Step::to_string).collect(),
    })
}

async fn known(store: &Store, names: &[Name]) -> Result<Known, Lost> {
    let mut auth = store.auth();
    let mut known = Known {
        enabled: enabled(&mut auth).await,
        ..Known::default()
    };
    let asked: BTreeSet<&str> = names
        .iter()
        .map(Name::as_str)
        .chain([ADMINISTRATOR])
        .collect();
    for user in answered(auth.user_list()).await?.users() {
        if asked.contains(user.as_str()) {
            let found = answered(auth.user_get(user)).await?;
            known.users.insert(user.clone(), found.roles().to_vec());
        }
    }
    for role in answered(auth.role_list()).await?.roles() {
        if asked.contains(role.as_str()) {
            let found = answered(auth.role_get(role)).await?;
            let allowed = found.permissions().iter().map(read).collect::<Option<_>>();
            known.roles.insert(role.clone(), allowed);
        }
    }
    Ok(known)
}

/// etcd 3.4 has no question for this; but root, who has no password, cannot log in, and etcd says why.
async fn enabled(auth: &mut AuthClient) -> bool {
    match answered(auth.authenticate(ADMINISTRATOR.into(), String::new())).await {
        Ok(_) => true,
        Err(lost) => !lost.to_string().ends_with("authentication is not enabled"),
    }
}

/// None for one that no role of ours has.
fn read(found: &etcd_client::Permission) -> Option<Permission> {
    let key = String::from_utf8_lossy(found.key()).into_owned();
    let one = found.range_end().is_empty();
    match PermissionType::try_from(found.get_type()) {
        Ok(PermissionType::Read) if found.is_prefix() => Some(Permission::Read(key)),
        Ok(PermissionType::Write) if found.is_prefix() => Some(Permission::WriteBelow(key)),
        Ok(PermissionType::Write) if one => Some(Permission::Write(key)),
        _ => None,
    }
}

fn written(permission: &Permission) -> etcd_client::Permission {
    match permission {
        Permission::Read(prefix) => etcd_client::Permission::read(prefix.as_str()).with_prefix(),
        Permission::Write(key) => etcd_client::Permission::write(key.as_str()),
        Permission::WriteBelow(prefix) => {
            etcd_client::Permission::write(prefix.as_str()).with_prefix()
        }
    }
}

async fn perform(store: &Store, step: &Step) -> Result<(), Lost> {
    let mut auth = store.auth();
    match step {
        Step::AddRole(role) => {
            answered(auth.role_add(role)).await?;
        }
        Step::Allow(role, permission) => {
            let allowed = written(permission);
            answered(auth.role_grant_permission(role, allowed)).await?;
        }
        Step::AddUser(user) => {
            let by_certificate = Some(UserAddOptions::new().with_no_pwd());
            answered(auth.user_add(user, "", by_certificate)).await?;
        }
        Step::Give(user, role) => {
            answered(auth.user_grant_role(user, role)).await?;
        }
        Step::Enable => {
            answered(auth.auth_enable()).await?;
        }
        Step::DeleteUser(user) => {
            answered(auth.user_delete(user)).await?;
        }
        Step::DeleteRole(role) => {
            answered(auth.role_delete(role)).await?;
        }
        Step::DeleteKeys(name) => {
            for key in keys_of(name) {
                store.delete(&key).await?;
            }
        }
    }
    Ok(())
}
