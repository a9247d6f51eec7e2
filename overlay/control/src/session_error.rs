//! Why a session with etcd ended, in one line: what etcd, the connection or TLS reported, and what is accepted.

use std::error::Error as _;
use std::fmt::{Display, Formatter};

use etcd_client::Error;

use crate::members::Members;
use crate::name::Name;
use tributary_program::{Exit, Failure};

const ALLOWED: &str = "accepted: a name that `scripts/overlay authorize` allows this";
const ENROLLED: &str = "accepted: a valid certificate of its authority: `scripts/overlay enrol` makes it";
const SERVED: &str =
    "accepted: an etcd with a valid certificate of our authority, for this address: `scripts/overlay enrol --etcd`";
const FULL: &str = "etcd has no room left and takes nothing new: accepted: a member whose history is compacted \
    (--auto-compaction-mode periodic --auto-compaction-retention 1h); now: `etcdctl compact` to a late revision, \
    `etcdctl defrag`, then `etcdctl alarm disarm`";
const NAMED: &str = "accepted: --identity FOLDER, and an etcd with --client-cert-auth";

#[derive(Debug)]
pub struct SessionError {
    line: String,
    exit: Exit,
}

impl SessionError {
    pub fn new(line: impl Into<String>) -> Self {
        Self {
            line: line.into(),
            exit: Exit::Unavailable,
        }
    }

    fn refused(line: String) -> Self {
        Self {
            line,
            exit: Exit::NoPermission,
        }
    }

    /// Another agent or controller, the `kind`, holds the key of this name.
    pub fn name_in_use(kind: &str, name: &Name) -> Self {
        Self::new(format!("another {kind} is {name}, or was until a moment ago"))
    }

    /// Whether one side refused the other.
    pub fn is_refusal(&self) -> bool {
        self.exit == Exit::NoPermission
    }

    /// Whether etcd refuses only this request, for its size.
    pub fn is_too_large(&self) -> bool {
        let texts = ["request is too large", "message larger than max"];
        texts.iter().any(|words| self.line.contains(words))
    }

    /// etcd has no room left (alarm NOSPACE).
    pub fn full() -> Self {
        Self::new(format!("etcd: {FULL}"))
    }

    /// The meaning of this error in reply to the first request over TLS: etcd closes the connection when it refuses a
    /// certificate, and the alert with its reason may or may not arrive first.
    #[must_use]
    pub fn in_greeting(self) -> Self {
        let ends = [
            "received fatal alert",
            "operation was canceled",
            "onnection reset",
            "roken pipe",
        ];
        if ends.iter().any(|words| self.line.contains(words)) {
            return Self::refused(format!("etcd hangs up on us: {ENROLLED}"));
        }
        self
    }

    /// As a command's failure: exit code 77 after a refusal, otherwise 69.
    pub fn failure(&self, members: &Members) -> Failure {
        Failure::new(self.exit, format!("{members}: {self}"))
    }
}

impl Display for SessionError {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.line)
    }
}

impl From<Error> for SessionError {
    fn from(error: Error) -> Self {
        let (text, mut cause) = match &error {
            Error::GRpcStatus(status) => (status.message().to_owned(), status.source()),
            other => (other.to_string(), other.source()),
        };
        let mut line = text.trim_start_matches("etcdserver: ").to_owned();
        // "transport error" says nothing: its cause does.
        while let Some(below) = cause {
            let text = below.to_string();
            if line == "transport error" {
                line = text;
            } else if !line.contains(&text) && text != "transport error" {
                line = format!("{line}: {text}");
            }
            cause = below.source();
        }
        // etcd's words for the alarm NOSPACE.
        if line.contains("database space exceeded") {
            return Self::full();
        }
        match right(&line) {
            Some(right) => Self::refused(format!("etcd: {line}: {right}")),
            None => Self::new(format!("etcd: {line}")),
        }
    }
}

/// What is accepted, if one side refused the other. By the texts of etcd and rustls: nothing else gets through the client
/// library.
fn right(line: &str) -> Option<&'static str> {
    let refusals = [
        ("permission denied", ALLOWED),
        ("user name is empty", NAMED),
        ("invalid peer certificate: ", SERVED),
    ];
    let found = refusals.iter().find(|(words, _)| line.starts_with(words));
    found.map(|(_, right)| *right)
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn the_causes_are_named_once() {
        let below = io::Error::other("etcd hung up");
        let error = SessionError::from(Error::IoError(io::Error::other(below)));
        assert_eq!(error.to_string(), "etcd: io error: etcd hung up");
        assert_eq!(error.exit, Exit::Unavailable);
    }
}
