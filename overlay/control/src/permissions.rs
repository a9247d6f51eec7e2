//! Who may read and write what in etcd: a user for each name, which etcd takes from the certificate, with a role of its
//! own. Pure: what is to be done so that it is so.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Display, Formatter};

use clap::ValueEnum;

use crate::keys::{
    self, ALL, DELAYS, EGRESSES, ELECTION, HEALTH, NODES, REPORT, ROUTES, SERVERS, TABLES,
};
use crate::name::Name;

/// etcd's name for the user who may do everything.
pub const ADMINISTRATOR: &str = "root";
/// The name in the certificates of etcd's members, by which etcd's JSON gateway asks: never a user.
pub const MEMBER: &str = "etcd";

/// What a name is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// An agent: writes what it says of its own node
    Node,
    /// Writes all tables
    Controller,
    /// Asks for the status, and explains
    Reader,
}

/// What a role may do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Permission {
    /// Read all keys that begin with this.
    Read(String),
    /// Write this key.
    Write(String),
    /// Write all keys that begin with this.
    WriteBelow(String),
}

impl Permission {
    /// All that a name may do in this part.
    pub fn of(part: Part, name: &Name) -> BTreeSet<Self> {
        let mut all = BTreeSet::from([Self::Read(ALL.into())]);
        match part {
            Part::Node => all.extend(owned(name).map(Self::Write)),
            Part::Controller => all.extend([
                Self::WriteBelow(TABLES.into()),
                Self::Write(REPORT.into()),
                Self::Write(keys::key(ELECTION, name)),
            ]),
            Part::Reader => {}
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

/// The keys that a node writes.
fn owned(name: &Name) -> impl Iterator<Item = String> {
    [NODES, DELAYS, SERVERS, HEALTH, EGRESSES, ROUTES]
        .map(|folder| keys::key(folder, name))
        .into_iter()
}

/// The keys that go with a name.
pub fn keys_of(name: &Name) -> impl Iterator<Item = String> {
    owned(name).chain([keys::key(ELECTION, name)])
}

/// What etcd has, of the names that are asked for.
#[derive(Debug, Default)]
pub struct Known {
    /// Users with their roles.
    pub users: BTreeMap<String, Vec<String>>,
    /// Roles with what they may do; none where one may more than any of ours.
    pub roles: BTreeMap<String, Option<BTreeSet<Permission>>>,
    /// Whether etcd goes by them.
    pub enabled: bool,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Of a role that may do nothing.
    AddRole(String),
    /// Of a role.
    Allow(String, Permission),
    /// Of a user without a password: by certificate alone.
    AddUser(String),
    /// To a user, the role.
    Give(String, String),
    /// From now on etcd goes by users and roles.
    Enable,
    /// With its roles taken away.
    DeleteUser(String),
    /// From etcd, and from all who have it.
    DeleteRole(String),
    /// All that a name may have written.
    DeleteKeys(Name),
}

impl Display for Step {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AddRole(role) => write!(formatter, "add the role {role}"),
            Self::Allow(role, permission) => {
                write!(formatter, "allow the role {role} to {permission}")
            }
            Self::AddUser(user) => write!(formatter, "add the user {user}"),
            Self::Give(user, role) => write!(formatter, "give the user {user} the role {role}"),
            Self::Enable => formatter.write_str(
                "enable authentication: who has no role reads and writes nothing any more",
            ),
            Self::DeleteUser(user) => write!(formatter, "delete the user {user}"),
            Self::DeleteRole(role) => write!(formatter, "delete the role {role}"),
            Self::DeleteKeys(name) => write!(formatter, "delete all keys of {name}"),
        }
    }
}

/// What makes users of these names; none where all is so. An error if a role may do what is not of this part.
pub fn authorize(part: Part, names: &[Name], known: &Known) -> Result<Vec<Step>, String> {
    let mut steps = user(ADMINISTRATOR, known);
    for name in names {
        steps.extend(role(part, name, known)?);
        steps.extend(user(name.as_str(), known));
    }
    if !known.enabled {
        steps.push(Step::Enable);
    }
    Ok(steps)
}

fn role(part: Part, name: &Name, known: &Known) -> Result<Vec<Step>, String> {
    let wanted = Permission::of(part, name);
    let mut steps = Vec::new();
    let mut allowed = &BTreeSet::new();
    match known.roles.get(name.as_str()) {
        Some(Some(found)) if found.is_subset(&wanted) => allowed = found,
        Some(_) => {
            return Err(format!(
                "{name} is allowed something else: accepted: another name, or first `scripts/overlay revoke {name}`"
            ));
        }
        None => steps.push(Step::AddRole(name.to_string())),
    }
    let missing = wanted.difference(allowed);
    steps.extend(missing.map(|each| Step::Allow(name.to_string(), each.clone())));
    Ok(steps)
}

/// The user of this name, with the role of the same name.
fn user(name: &str, known: &Known) -> Vec<Step> {
    let roles = known.users.get(name);
    let mut steps = Vec::new();
    if roles.is_none() {
        steps.push(Step::AddUser(name.into()));
    }
    if !roles.is_some_and(|roles| roles.iter().any(|role| role == name)) {
        steps.push(Step::Give(name.into(), name.into()));
    }
    steps
}

/// What takes from these names all that they may do: first nothing more is written, then what was is removed. An error if
/// etcd does not know one.
pub fn revoke(names: &[Name], known: &Known) -> Result<Vec<Step>, String> {
    let each = names.iter().map(|name| revoke_one(name, known));
    Ok(each.collect::<Result<Vec<_>, _>>()?.concat())
}

fn revoke_one(name: &Name, known: &Known) -> Result<Vec<Step>, String> {
    let user = known.users.contains_key(name.as_str());
    let role = known.roles.contains_key(name.as_str());
    if !(user || role) {
        return Err(format!(
            "etcd has no user {name}: accepted: a name that was authorized"
        ));
    }
    let without_user = user.then(|| Step::DeleteUser(name.to_string()));
    let mut steps = Vec::from_iter(without_user);
    steps.push(Step::DeleteKeys(name.clone()));
    // At last: after an interruption it shows that there is more to do.
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

    /// etcd as it is after these steps.
    fn after(steps: Vec<Step>) -> Known {
        let mut known = Known::default();
        for step in steps {
            match step {
                Step::AddRole(role) => drop(known.roles.insert(role, Some(BTreeSet::new()))),
                Step::Allow(role, permission) => {
                    let allowed = known.roles.get_mut(&role).unwrap().as_mut().unwrap();
                    assert!(allowed.insert(permission));
                }
                Step::AddUser(user) => drop(known.users.insert(user, Vec::new())),
                Step::Give(user, role) => known.users.get_mut(&user).unwrap().push(role),
                Step::Enable => known.enabled = true,
                other => panic!("{other}"),
            }
        }
        known
    }

    #[test]
    fn the_first_call_makes_root_and_enables_authentication_at_last() {
        let steps = authorize(Part::Reader, &names(&["a"]), &Known::default()).unwrap();
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
        let of = |part| Permission::of(part, &"a".parse().unwrap());
        let written = |part| {
            of(part)
                .iter()
                .map(Permission::to_string)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            written(Part::Node),
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
            written(Part::Controller),
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
        for part in [Part::Node, Part::Controller, Part::Reader] {
            let all = authorize(part, &names(&["a", "b"]), &Known::default()).unwrap();
            for done in 0..=all.len() {
                let rest = authorize(part, &names(&["a", "b"]), &after(all[..done].to_vec()));
                assert_eq!(rest.unwrap(), all[done..]);
            }
        }
    }

    #[test]
    fn who_is_allowed_something_else_is_refused() {
        let node = after(authorize(Part::Node, &names(&["a"]), &Known::default()).unwrap());
        let refusal = authorize(Part::Reader, &names(&["a"]), &node).unwrap_err();
        assert!(refusal.starts_with("a is allowed something else: accepted: another name"));
        let mut odd = node;
        odd.roles.insert("a".into(), None);
        assert!(authorize(Part::Node, &names(&["a"]), &odd).is_err());
    }

    #[test]
    fn revoking_ends_what_is_written_first_and_knows_at_its_end_that_it_is_done() {
        let mut known = after(authorize(Part::Node, &names(&["a"]), &Known::default()).unwrap());
        let steps = revoke(&names(&["a"]), &known).unwrap();
        let told = [
            "delete the user a",
            "delete all keys of a",
            "delete the role a",
        ];
        assert_eq!(lines(&steps), told);
        known.users.remove("a");
        assert_eq!(lines(&revoke(&names(&["a"]), &known).unwrap()), told[1..]);
        known.roles.remove("a");
        let refusal = revoke(&names(&["a"]), &known).unwrap_err();
        assert_eq!(
            refusal,
            "etcd has no user a: accepted: a name that was authorized"
        );
    }
}
