//! Names of nodes and of controllers.

use std::fmt::{Display, Formatter};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

const MAX_LENGTH: usize = 64;
const ACCEPTED: &str = "accepted: 1 to 64 of A-Z a-z 0-9 . _ , + -, the first one a letter or a digit";

/// A name, as part of a key in etcd: without slashes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Name(String);

impl Name {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let first = text.starts_with(|it: char| it.is_ascii_alphanumeric());
        let rest = text
            .bytes()
            .all(|it| it.is_ascii_alphanumeric() || b"._,+-".contains(&it));
        if first && rest && text.len() <= MAX_LENGTH {
            Ok(Self(text.into()))
        } else {
            Err(format!("{text:?} is no name: {ACCEPTED}"))
        }
    }
}

impl TryFrom<String> for Name {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl Display for Name {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_graphs_are_names() {
        for text in ["A", "london-1", "London,+UnitedKingdom201", "10.0.0.1", &"x".repeat(64)] {
            assert_eq!(text.parse::<Name>().unwrap().as_str(), text);
        }
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let texts = ["", "-a", ".", "..", "a/b", "a b", "a\n", "\u{e9}"];
        for text in texts.map(String::from).into_iter().chain(["x".repeat(65)]) {
            let refusal = text.parse::<Name>().unwrap_err();
            let accepted = "is no name: accepted: 1 to 64";
            assert!(refusal.contains(accepted), "{refusal}");
        }
    }
}
