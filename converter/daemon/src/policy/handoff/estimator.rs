//! How large the answers that a front saw were. All its threads share it.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tributary_wire::http::Request;

use super::choice::kind;
use super::expected::{Expected, SizeHint, size_hint};
use super::sizes::{Object, Sizes};
use crate::config::Handoff;

/// How large answers are, and from which size on to hand them over.
#[derive(Debug)]
pub struct SizeEstimator {
    hash: RandomState,
    sizes: Mutex<Sizes>,
    relay_below: u64,
}

/// A request, as far as its size goes.
#[derive(Clone, Copy, Debug, Default)]
pub struct SizeEstimate {
    /// How many bytes it is expected to move.
    pub expected: Expected,
    /// Of what its answer will tell the size.
    object: Option<Object>,
}

impl SizeEstimator {
    /// Nothing yet.
    pub fn new(relay_below: u64) -> Self {
        Self {
            hash: RandomState::new(),
            sizes: Mutex::default(),
            relay_below,
        }
    }

    /// What is known of a request before it is answered.
    pub fn estimate(&self, request: &Request, handoff: &Handoff) -> SizeEstimate {
        let Some((rule, path)) = kind(request, handoff) else {
            return SizeEstimate::default();
        };
        let name = self.hash.hash_one((rule, request.method.as_str(), path));
        let mut sizes = lock(&self.sizes);
        let own = sizes.of(name);
        let guessed = sizes.of_rule(rule);
        let (known, guessed, object) = match size_hint(request) {
            SizeHint::Answer(bytes) => (Some(bytes), None, None),
            SizeHint::Upload(bytes) => {
                let object = Object { name, rule: None };
                (Some(bytes.max(own.unwrap_or(0))), None, Some(object))
            }
            SizeHint::SomeUpload => (None, None, None),
            SizeHint::Part => (own, guessed, None),
            SizeHint::Nothing => {
                let rule = Some(rule);
                (own, guessed, Some(Object { name, rule }))
            }
        };
        SizeEstimate {
            expected: Expected { known, guessed },
            object,
        }
    }

    /// Its answer had so many bytes, or more, if it was not seen that it came to its end.
    pub fn answered(&self, estimate: &SizeEstimate, bytes: u64, is_whole: bool) {
        let Some(object) = estimate.object else {
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

    fn estimate(estimator: &SizeEstimator, line: &str, fields: &str) -> SizeEstimate {
        let text = format!("{line} HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        let parsed = parse_request(text.as_bytes(), &HeadLimits::default());
        let request = parsed.expect("accepted").expect("whole").0;
        estimator.estimate(&request, &handoff())
    }

    fn get(estimator: &SizeEstimator, path: &str) -> SizeEstimate {
        estimate(estimator, &format!("GET {path}"), "")
    }

    fn is_small(estimator: &SizeEstimator, estimate: SizeEstimate) -> bool {
        estimator.is_small(estimate.expected)
    }

    #[test]
    fn an_object_is_small_once_it_was_and_others_of_its_rule_are_guessed_to_be() {
        let estimator = SizeEstimator::new(1000);
        let first = get(&estimator, "/a/x");
        assert!(!is_small(&estimator, first), "nobody knows");
        for path in ["/a/x".to_owned()]
            .into_iter()
            .chain((0..31).map(|each| format!("/a/{each}")))
        {
            estimator.answered(&get(&estimator, &path), 999, true);
        }
        for (path, expected) in [
            ("/a/x", (Some(999), Some(999))),
            ("/a/x?y", (Some(999), Some(999))),
            ("/a/y", (None, Some(999))),
            ("/b/x", (None, None)),
            ("/c/x", (None, None)),
        ] {
            let SizeEstimate { expected: of, .. } = get(&estimator, path);
            assert_eq!((of.known, of.guessed), expected, "{path}");
            assert_eq!(estimator.is_small(of), expected.1.is_some());
        }
    }

    #[test]
    fn a_client_that_breaks_off_makes_no_large_object_small() {
        let estimator = SizeEstimator::new(1000);
        let object = get(&estimator, "/a/x");
        estimator.answered(&object, 5000, true);
        (0..100).for_each(|_| estimator.answered(&object, 10, false));
        assert!(!is_small(&estimator, get(&estimator, "/a/x")));
    }

    #[test]
    fn what_a_request_says_itself_counts_and_teaches_nothing() {
        let estimator = SizeEstimator::new(1000);
        estimator.answered(&get(&estimator, "/a/x"), 5000, true);
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
            let asked = estimate(&estimator, line, fields);
            assert_eq!(is_small(&estimator, asked), small, "{line} {fields}");
            estimator.answered(&asked, 10, true);
        }
        assert_eq!(get(&estimator, "/a/x").expected.known, Some(5000));
    }

    #[test]
    fn a_small_upload_whose_answers_are_large_is_not_small() {
        let estimator = SizeEstimator::new(1000);
        let query = || estimate(&estimator, "POST /a/query", "Content-Length: 9\r\n");
        assert!(is_small(&estimator, query()));
        (0..100).for_each(|_| estimator.answered(&query(), 5000, true));
        assert!(!is_small(&estimator, query()));
        assert_eq!(get(&estimator, "/a/y").expected, Expected::default());
    }

    #[test]
    fn below_zero_bytes_nothing_is_small() {
        let never = SizeEstimator::new(0);
        assert!(!is_small(&never, estimate(&never, "HEAD /a/x", "")));
    }
}
