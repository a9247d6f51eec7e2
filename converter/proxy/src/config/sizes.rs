//! How large the transfers of HTTP requests are, as the operator knows them: by method and path.

use std::str::FromStr;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::units;

/// How large the transfers of some requests are.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct RequestSize {
    /// Their method; any, if there is none.
    pub method: Option<String>,
    pub path: PathPattern,
    /// In bytes.
    #[serde(deserialize_with = "units::size")]
    pub size: usize,
}

impl RequestSize {
    /// Whether it is for this request. The query behind the path does not count.
    pub fn covers(&self, method: &str, path_and_query: &str) -> bool {
        let path = path_and_query.split('?').next().unwrap_or_default();
        self.method.as_ref().is_none_or(|own| own == method) && self.path.covers(path)
    }
}

/// One path, or those that begin and end like this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathPattern {
    Whole(String),
    /// What is before the `*`, and what is behind it.
    Ends(String, String),
}

impl PathPattern {
    fn covers(&self, path: &str) -> bool {
        match self {
            Self::Whole(own) => own == path,
            Self::Ends(start, end) => path
                .strip_prefix(start.as_str())
                .is_some_and(|rest| rest.ends_with(end)),
        }
    }
}

impl FromStr for PathPattern {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (start, end) = text.split_once('*').unwrap_or((text, ""));
        let is_right = text.starts_with(['/', '*']) && !end.contains('*') && !text.contains('?');
        match text.contains('*') {
            _ if !is_right => Err("a path without its query, with one * at most, such as \"/films/*\" or \"*.iso\""),
            true => Ok(Self::Ends(start.into(), end.into())),
            false => Ok(Self::Whole(text.into())),
        }
    }
}

impl<'de> Deserialize<'de> for PathPattern {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let parsed = String::deserialize(from)?.parse();
        parsed.map_err(|accepted| D::Error::custom(format!("accepted: {accepted}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covers(pattern: &str, path_and_query: &str) -> bool {
        let size = RequestSize {
            method: Some("GET".into()),
            path: pattern.parse().expect(pattern),
            size: 1,
        };
        assert!(!size.covers("PUT", path_and_query));
        size.covers("GET", path_and_query)
    }

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, path) in [
            ("/a", "/a"),
            ("/a", "/a?b=/c"),
            ("/films/*", "/films/one/two.mp4"),
            ("/films/*", "/films/"),
            ("*.iso", "/a/b.iso?c"),
            ("/films/*.mp4", "/films/.mp4"),
            ("*", "/"),
        ] {
            assert!(covers(pattern, path), "{pattern} {path}");
        }
        for (pattern, path) in [
            ("/a", "/a/"),
            ("/films/*", "/films"),
            ("*.iso", "/a?b.iso"),
            ("/ab*ba", "/aba"),
            ("/A", "/a"),
        ] {
            assert!(!covers(pattern, path), "{pattern} {path}");
        }
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for text in ["", "a", "/a*b*", "**", "/a?b=*"] {
            assert!(text.parse::<PathPattern>().is_err(), "{text}");
        }
    }
}
