//! How large the answers that a front saw were. All its threads share it.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tributary_wire::http::Request;

use super::choice::kind;
use super::expected::{Expected, Said, said};
use super::sizes::{Object, Sizes};
use crate::config::Handoff;

/// How large answers are, and from which size on to hand them over.
#[derive(Debug)]
pub struct Learned {
    hash: RandomState,
    sizes: Mutex<Sizes>,
    relay_below: u64,
}

/// A request, as far as its size goes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Question {
    /// How many bytes it is expected to move.
    pub expected: Expected,
    /// Of what its answer will tell the size.
    object: Option<Object>,
}

impl Learned {
    /// Nothing yet.
    pub fn new(relay_below: u64) -> Self {
        Self {
            hash: RandomState::new(),
            sizes: Mutex::default(),
            relay_below,
        }
    }

    /// What is known of a request before it is answered.
    pub fn question(&self, request: &Request, handoff: &Handoff) -> Question {
        let Some((rule, path)) = kind(request, handoff) else {
            return Question::default();
        };
        let name = self.hash.hash_one((rule, request.method.as_str(), path));
        let mut sizes = lock(&self.sizes);
        let own = sizes.of(name);
        let guessed = sizes.of_rule(rule);
        let (known, guessed, object) = match said(request) {
            Said::Answer(bytes) => (Some(bytes), None, None),
            Said::Upload(bytes) => {
                let object = Object { name, rule: None };
                (Some(bytes.max(own.unwrap_or(0))), None, Some(object))
            }
            Said::SomeUpload => (None, None, None),
            Said::Part => (own, guessed, None),
            Said::Nothing => {
                let rule = Some(rule);
                (own, guessed, Some(Object { name, rule }))
            }
        };
        Question {
            expected: Expected { known, guessed },
            object,
        }
    }

    /// Its answer had so many bytes, or more, if it was not seen that it came to its end.
    pub fn answered(&self, question: &Question, bytes: u64, is_whole: bool) {
        let Some(object) = question.object else {
            return;
        };
        let mut sizes = lock(&self.sizes);
        if is_whole {
            sizes.add(object, bytes);
        } else {
            sizes.add_at_least(object, bytes);
        }
    }

    /// Whether a request is so small that it is better relayed. One of which nobody knows is not.
    pub fn is_small(&self, expected: Expected) -> bool {
        expected
            .bytes()
            .is_some_and(|bytes| bytes < self.relay_below)
    }
}

fn lock(sizes: &Mutex<Sizes>) -> MutexGuard<'_, Sizes> {
    sizes.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use tributary_wire::http::{HeadLimits, parse_request};

    use super::*;
    use crate::config;

    fn handoff() -> Handoff {
        let text = "[targets]\nallow = [\"10.0.2.0/24\"]\n\
             [handoff]\nswitch = \"/run/switch\"\nidentity = \"front\"\n\
             [[handoff.back_ends]]\nname = \"a\"\nfronts = \"10.0.2.1:7401\"\n\
             hand_off = \"10.0.2.1:7400\"\nhttp = \"10.0.2.1:80\"\n\
             [[handoff.rules]]\npath = \"/a/\"\nto = [\"a\"]\n\
             [[handoff.rules]]\npath = \"/b/\"\nto = [\"a\"]\n";
        let config = config::parse(text, "c.toml").expect("a configuration");
        config.handoff.expect("it has one")
    }

    fn question(learned: &Learned, line: &str, fields: &str) -> Question {
        let text = format!("{line} HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        let parsed = parse_request(text.as_bytes(), &HeadLimits::default());
        let request = parsed.expect("accepted").expect("whole").0;
        learned.question(&request, &handoff())
    }

    fn get(learned: &Learned, path: &str) -> Question {
        question(learned, &format!("GET {path}"), "")
    }

    fn is_small(learned: &Learned, question: Question) -> bool {
        learned.is_small(question.expected)
    }

    #[test]
    fn an_object_is_small_once_it_was_and_others_of_its_rule_are_guessed_to_be() {
        let learned = Learned::new(1000);
        let first = get(&learned, "/a/x");
        assert!(!is_small(&learned, first), "nobody knows");
        for path in ["/a/x".to_owned()]
            .into_iter()
            .chain((0..31).map(|each| format!("/a/{each}")))
        {
            learned.answered(&get(&learned, &path), 999, true);
        }
        for (path, expected) in [
            ("/a/x", (Some(999), Some(999))),
            ("/a/x?y", (Some(999), Some(999))),
            ("/a/y", (None, Some(999))),
            ("/b/x", (None, None)),
            ("/c/x", (None, None)),
        ] {
            let Question { expected: of, .. } = get(&learned, path);
            assert_eq!((of.known, of.guessed), expected, "{path}");
            assert_eq!(learned.is_small(of), expected.1.is_some());
        }
    }

    #[test]
    fn a_client_that_breaks_off_makes_no_large_object_small() {
        let learned = Learned::new(1000);
        let object = get(&learned, "/a/x");
        learned.answered(&object, 5000, true);
        (0..100).for_each(|_| learned.answered(&object, 10, false));
        assert!(!is_small(&learned, get(&learned, "/a/x")));
    }

    #[test]
    fn what_a_request_says_itself_counts_and_teaches_nothing() {
        let learned = Learned::new(1000);
        learned.answered(&get(&learned, "/a/x"), 5000, true);
        for (line, fields, small) in [
            ("HEAD /a/x", "", true),
            ("GET /a/x", "Range: bytes=0-99\r\n", true),
            ("GET /a/x", "Range: bytes=0-999\r\n", false),
            ("GET /a/x", "Range: bytes=5-\r\n", false),
            ("GET /a/x", "If-None-Match: *\r\n", false),
            ("PUT /a/x", "Content-Length: 999\r\n", true),
            ("PUT /a/x", "Content-Length: 1000\r\n", false),
            ("PUT /a/x", "Transfer-Encoding: chunked\r\n", false),
        ] {
            let asked = question(&learned, line, fields);
            assert_eq!(is_small(&learned, asked), small, "{line} {fields}");
            learned.answered(&asked, 10, true);
        }
        assert_eq!(get(&learned, "/a/x").expected.known, Some(5000));
    }

    #[test]
    fn a_small_upload_whose_answers_are_large_is_not_small() {
        let learned = Learned::new(1000);
        let query = || question(&learned, "POST /a/query", "Content-Length: 9\r\n");
        assert!(is_small(&learned, query()));
        (0..100).for_each(|_| learned.answered(&query(), 5000, true));
        assert!(!is_small(&learned, query()));
        assert_eq!(get(&learned, "/a/y").expected, Expected::default());
    }

    #[test]
    fn below_zero_bytes_nothing_is_small() {
        let never = Learned::new(0);
        assert!(!is_small(&never, question(&never, "HEAD /a/x", "")));
    }
}
