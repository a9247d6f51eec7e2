//! Who may read and write what in etcd: a user for each name, which etcd takes from the certificate, and a role of the same
//! name. Pure: computes the steps to get there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Display, Formatter};

use clap::ValueEnum;

use crate::keys::{self, ALL, DELAYS, EGRESSES, ELECTION, HEALTH, NODES, REPORT, ROUTES, SERVERS, TABLES};
use crate::name::Name;

/// etcd's name for the user who may do everything.
pub const ADMINISTRATOR: &str = "root";
/// The name in the certificates of etcd's members, as which etcd's JSON gateway authenticates: never a user.
pub const MEMBER: &str = "etcd";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Role {
    /// An agent: writes its node's keys
    Node,
    /// Writes all tables
    Controller,
    /// Reads only: status, explain, overlay-dns
    Reader,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Permission {
    /// To read all keys with this prefix.
    Read(String),
    /// To write this key.
    Write(String),
    /// To write all keys with this prefix.
    WriteBelow(String),
}

impl Permission {
    /// The permissions of a name in this role.
    pub fn of(role: Role, name: &Name) -> BTreeSet<Self> {
        let mut all = BTreeSet::from([Self::Read(ALL.into())]);
        match role {
            Role::Node => all.extend(node_keys(name).map(Self::Write)),
            Role::Controller => all.extend([
                Self::WriteBelow(TABLES.into()),
                Self::Write(REPORT.into()),
                Self::Write(keys::key(ELECTION, name)),
            ]),
            Role::Reader => {}
        }
        all
    }
}

impl Display for Permission {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Read(prefix) => write!(formatter, "read {prefix}*"),
            Self::Write(key) => write!(formatter, "write {key}"),
            Self::WriteBelow(prefix) => write!(formatter, "write {prefix}*"),
        }
    }
}

fn node_keys(name: &Name) -> impl Iterator<Item = String> {
    [NODES, DELAYS, SERVERS, HEALTH, EGRESSES, ROUTES]
        .map(|folder| keys::key(folder, name))
        .into_iter()
}

/// All keys that bear a name.
pub fn keys_of(name: &Name) -> impl Iterator<Item = String> {
    node_keys(name).chain([keys::key(ELECTION, name)])
}

/// What etcd has of the names in question.
#[derive(Debug, Default)]
pub struct AuthState {
    /// Users with their roles.
    pub users: BTreeMap<String, Vec<String>>,
    /// Roles with their permissions; None for one with a permission that no role of the overlay has.
    pub roles: BTreeMap<String, Option<BTreeSet<Permission>>>,
    pub enabled: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    AddRole(String),
    /// To a role.
    GrantPermission(String, Permission),
    /// Without a password: by certificate only.
    AddUser(String),
    /// To the user, the role.
    GrantRole(String, String),
    Enable,
    DeleteUser(String),
    DeleteRole(String),
    /// All keys that the name may have written.
    DeleteKeys(Name),
}

impl Display for Step {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AddRole(role) => write!(formatter, "add the role {role}"),
            Self::GrantPermission(role, permission) => {
                write!(formatter, "allow the role {role} to {permission}")
            }
            Self::AddUser(user) => write!(formatter, "add the user {user}"),
            Self::GrantRole(user, role) => {
                write!(formatter, "give the user {user} the role {role}")
            }
            Self::Enable => {
                formatter.write_str("enable authentication: who has no role reads and writes nothing any more")
            }
            Self::DeleteUser(user) => write!(formatter, "delete the user {user}"),
            Self::DeleteRole(role) => write!(formatter, "delete the role {role}"),
            Self::DeleteKeys(name) => write!(formatter, "delete all keys of {name}"),
        }
    }
}

/// The missing steps to authorize these names. Fails if one has a permission that is not of this role.
pub fn authorize(role: Role, names: &[Name], state: &AuthState) -> Result<Vec<Step>, String> {
    let mut steps = user_steps(ADMINISTRATOR, state);
    for name in names {
        steps.extend(role_steps(role, name, state)?);
        steps.extend(user_steps(name.as_str(), state));
    }
    if !state.enabled {
        steps.push(Step::Enable);
    }
    Ok(steps)
}

fn role_steps(role: Role, name: &Name, state: &AuthState) -> Result<Vec<Step>, String> {
    let needed = Permission::of(role, name);
    let mut steps = Vec::new();
    let mut allowed = &BTreeSet::new();
    match state.roles.get(name.as_str()) {
        Some(Some(found)) if found.is_subset(&needed) => allowed = found,
        Some(_) => {
            return Err(format!(
                "{name} is allowed something else: accepted: another name, or first `scripts/overlay revoke {name}`"
            ));
        }
        None => steps.push(Step::AddRole(name.to_string())),
    }
    let missing = needed.difference(allowed);
    steps.extend(missing.map(|each| Step::GrantPermission(name.to_string(), each.clone())));
    Ok(steps)
}

/// The user of this name, with the role of the same name.
fn user_steps(name: &str, state: &AuthState) -> Vec<Step> {
    let roles = state.users.get(name);
    let mut steps = Vec::new();
    if roles.is_none() {
        steps.push(Step::AddUser(name.into()));
    }
    if !roles.is_some_and(|roles| roles.iter().any(|role| role == name)) {
        steps.push(Step::GrantRole(name.into(), name.into()));
    }
    steps
}

/// The steps to revoke these names: first they lose the right to write, then their keys are deleted. Fails for names that
/// etcd does not know.
pub fn revoke(names: &[Name], state: &AuthState) -> Result<Vec<Step>, String> {
    let each = names.iter().map(|name| revoke_one(name, state));
    Ok(each.collect::<Result<Vec<_>, _>>()?.concat())
}

fn revoke_one(name: &Name, state: &AuthState) -> Result<Vec<Step>, String> {
    let user = state.users.contains_key(name.as_str());
    let role = state.roles.contains_key(name.as_str());
    if !(user || role) {
        return Err(format!("etcd has no user {name}: accepted: a name that was authorized"));
    }
    let without_user = user.then(|| Step::DeleteUser(name.to_string()));
    let mut steps = Vec::from_iter(without_user);
    steps.push(Step::DeleteKeys(name.clone()));
    // Last: after an interruption the role shows that there is more to do.
    steps.extend(role.then(|| Step::DeleteRole(name.to_string())));
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(texts: &[&str]) -> Vec<Name> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn lines(steps: &[Step]) -> Vec<String> {
        steps.iter().map(Step::to_string).collect()
    }

    /// etcd's state after these steps.
    fn after(steps: Vec<Step>) -> AuthState {
        let mut state = AuthState::default();
        for step in steps {
            match step {
                Step::AddRole(role) => drop(state.roles.insert(role, Some(BTreeSet::new()))),
                Step::GrantPermission(role, permission) => {
                    let allowed = state.roles.get_mut(&role).unwrap().as_mut().unwrap();
                    assert!(allowed.insert(permission));
                }
                Step::AddUser(user) => drop(state.users.insert(user, Vec::new())),
                Step::GrantRole(user, role) => state.users.get_mut(&user).unwrap().push(role),
                Step::Enable => state.enabled = true,
                other => panic!("{other}"),
            }
        }
        state
    }

    #[test]
    fn the_first_call_makes_root_and_enables_authentication_at_last() {
        let steps = authorize(Role::Reader, &names(&["a"]), &AuthState::default()).unwrap();
        assert_eq!(
            lines(&steps)[..7],
            [
                "add the user root",
                "give the user root the role root",
                "add the role a",
                "allow the role a to read tributary/overlay/*",
                "add the user a",
                "give the user a the role a",
                "enable authentication: who has no role reads and writes nothing any more",
            ]
        );
    }

    #[test]
    fn a_node_writes_its_own_keys_and_no_more() {
        let of = |role| Permission::of(role, &"a".parse().unwrap());
        let written = |role| of(role).iter().map(Permission::to_string).collect::<Vec<_>>();
        assert_eq!(
            written(Role::Node),
            [
                "read tributary/overlay/*",
                "write tributary/overlay/delays/a",
                "write tributary/overlay/egresses/a",
                "write tributary/overlay/health/a",
                "write tributary/overlay/nodes/a",
                "write tributary/overlay/routes/a",
                "write tributary/overlay/servers/a",
            ]
        );
        assert_eq!(
            written(Role::Controller),
            [
                "read tributary/overlay/*",
                "write tributary/overlay/controller/a",
                "write tributary/overlay/report",
                "write tributary/overlay/tables/*",
            ]
        );
    }

    #[test]
    fn what_was_interrupted_is_completed_and_what_is_so_stays() {
        for role in [Role::Node, Role::Controller, Role::Reader] {
            let all = authorize(role, &names(&["a", "b"]), &AuthState::default()).unwrap();
            for done in 0..=all.len() {
                let rest = authorize(role, &names(&["a", "b"]), &after(all[..done].to_vec()));
                assert_eq!(rest.unwrap(), all[done..]);
            }
        }
    }

    #[test]
    fn who_is_allowed_something_else_is_refused() {
        let node = after(authorize(Role::Node, &names(&["a"]), &AuthState::default()).unwrap());
        let refusal = authorize(Role::Reader, &names(&["a"]), &node).unwrap_err();
        assert!(refusal.starts_with("a is allowed something else: accepted: another name"));
        let mut odd = node;
        odd.roles.insert("a".into(), None);
        assert!(authorize(Role::Node, &names(&["a"]), &odd).is_err());
    }

    #[test]
    fn revoking_ends_what_is_written_first_and_knows_at_its_end_that_it_is_done() {
        let mut state = after(authorize(Role::Node, &names(&["a"]), &AuthState::default()).unwrap());
        let steps = revoke(&names(&["a"]), &state).unwrap();
        let steps_left = ["delete the user a", "delete all keys of a", "delete the role a"];
        assert_eq!(lines(&steps), steps_left);
        state.users.remove("a");
        assert_eq!(lines(&revoke(&names(&["a"]), &state).unwrap()), steps_left[1..]);
        state.roles.remove("a");
        let refusal = revoke(&names(&["a"]), &state).unwrap_err();
        assert_eq!(refusal, "etcd has no user a: accepted: a name that was authorized");
    }
}
