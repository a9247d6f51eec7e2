//! Reads and changes etcd's users and roles as [`crate::permissions`] computes. Needs the identity of etcd's user root.

use std::collections::BTreeSet;

use etcd_client::{AuthClient, PermissionType, UserAddOptions};
use serde::Serialize;

use crate::members::Members;
use crate::name::Name;
use crate::permissions::{self, ADMINISTRATOR, AuthState, Permission, Role, Step, keys_of};
use crate::session_error::SessionError;
use crate::store::{Store, with_timeout};
use tributary_program::{Exit, Failure};

/// The changes that were made, or would be.
#[derive(Debug, Serialize)]
pub struct Changes {
    dry_run: bool,
    changes: Vec<String>,
}

/// Gives these names the permissions of this role, and no others.
///
/// Exits with 75 if a name has another role, with 77 if the caller is not root, with 69 without etcd.
pub async fn authorize(members: &Members, role: Role, names: &[Name], dry_run: bool) -> Result<Changes, Failure> {
    let plan =
        |state: &AuthState| permissions::authorize(role, names, state).map_err(|line| Failure::new(Exit::InUse, line));
    change(members, names, plan, dry_run).await
}

/// Deletes the users and roles of these names, and their keys.
///
/// Exits with 64 if etcd does not know a name, with 77 if the caller is not root, with 69 without etcd.
pub async fn revoke(members: &Members, names: &[Name], dry_run: bool) -> Result<Changes, Failure> {
    let plan = |state: &AuthState| permissions::revoke(names, state).map_err(|line| Failure::new(Exit::Usage, line));
    change(members, names, plan, dry_run).await
}

async fn change(
    members: &Members,
    names: &[Name],
    plan: impl Fn(&AuthState) -> Result<Vec<Step>, Failure>,
    dry_run: bool,
) -> Result<Changes, Failure> {
    let away = |error: SessionError| error.failure(members);
    let store = Store::connect(members).await.map_err(away)?;
    let steps = plan(&state(&store, names).await.map_err(away)?)?;
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

async fn state(store: &Store, names: &[Name]) -> Result<AuthState, SessionError> {
    let mut auth = store.auth();
    let mut state = AuthState {
        enabled: enabled(&mut auth).await,
        ..AuthState::default()
    };
    let asked: BTreeSet<&str> = names.iter().map(Name::as_str).chain([ADMINISTRATOR]).collect();
    for user in with_timeout(auth.user_list()).await?.users() {
        if asked.contains(user.as_str()) {
            let found = with_timeout(auth.user_get(user)).await?;
            state.users.insert(user.clone(), found.roles().to_vec());
        }
    }
    for role in with_timeout(auth.role_list()).await?.roles() {
        if asked.contains(role.as_str()) {
            let found = with_timeout(auth.role_get(role)).await?;
            let allowed = found.permissions().iter().map(read).collect::<Option<_>>();
            state.roles.insert(role.clone(), allowed);
        }
    }
    Ok(state)
}

/// etcd 3.4 has no request for this; but root, who has no password, cannot log in, and the error says why.
async fn enabled(auth: &mut AuthClient) -> bool {
    match with_timeout(auth.authenticate(ADMINISTRATOR.into(), String::new())).await {
        Ok(_) => true,
        Err(error) => !error.to_string().ends_with("authentication is not enabled"),
    }
}

/// None for one that no role of the overlay has.
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
        Permission::WriteBelow(prefix) => etcd_client::Permission::write(prefix.as_str()).with_prefix(),
    }
}

async fn perform(store: &Store, step: &Step) -> Result<(), SessionError> {
    let mut auth = store.auth();
    match step {
        Step::AddRole(role) => with_timeout(auth.role_add(role)).await.map(drop),
        Step::GrantPermission(role, permission) => {
            let granted = auth.role_grant_permission(role, written(permission));
            with_timeout(granted).await.map(drop)
        }
        Step::AddUser(user) => {
            let by_certificate = Some(UserAddOptions::new().with_no_pwd());
            with_timeout(auth.user_add(user, "", by_certificate)).await.map(drop)
        }
        Step::GrantRole(user, role) => with_timeout(auth.user_grant_role(user, role)).await.map(drop),
        Step::Enable => with_timeout(auth.auth_enable()).await.map(drop),
        Step::DeleteUser(user) => with_timeout(auth.user_delete(user)).await.map(drop),
        Step::DeleteRole(role) => with_timeout(auth.role_delete(role)).await.map(drop),
        Step::DeleteKeys(name) => {
            for key in keys_of(name) {
                store.delete(&key).await?;
            }
            Ok(())
        }
    }
}
