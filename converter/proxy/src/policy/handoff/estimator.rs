//! How large the answers that a front saw were. All its threads share it.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};

use parking_lot::Mutex;
use tributary_proto::http::Request;

use super::choice::kind;
use super::{Expected, SizeHint, size_hint};
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
        let mut sizes = self.sizes.lock();
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
        if let Some(object) = estimate.object {
            self.sizes.lock().add(object, bytes, is_whole);
        }
    }

    /// Whether a request is so small that it is better relayed. One of which nobody knows is not.
    pub fn is_small(&self, expected: Expected) -> bool {
        expected.bytes().is_some_and(|bytes| bytes < self.relay_below)
    }
}

/// Objects in each of two generations. When the younger one is full, it becomes the older one, and who was not asked for
/// since is forgotten. At most 2 MB of memory.
const MOST: usize = 32 << 10;
/// Weight of an object's last answer. Most have one size; where it differs, one that is unlike the others shall not decide.
const OF_OBJECT: f64 = 0.5;
/// Weight of one more object of a rule, once there are many.
const OF_RULE: f64 = 1.0 / 1024.0;
/// Of fewer objects of a rule, nothing is said of others.
const NEEDED: u32 = 32;

/// What was asked for, as it is remembered: a collision of two names means a wrong guess, no harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    /// A keyed hash of rule, method and path.
    pub name: u64,
    /// The rule for which its size is an example.
    pub rule: Option<usize>,
}

/// Means of sizes, as logarithms: of 1 kB and 1 MB that is 32 kB.
#[derive(Debug, Default)]
pub struct Sizes {
    younger: HashMap<u64, f64>,
    older: HashMap<u64, f64>,
    rules: HashMap<usize, LogMean>,
}

#[derive(Clone, Copy, Debug, Default)]
struct LogMean {
    samples: u32,
    mean: f64,
}

impl LogMean {
    /// One more; the first ones count alike.
    fn add(&mut self, sample: f64) {
        self.samples = self.samples.saturating_add(1);
        self.mean += OF_RULE.max(1.0 / f64::from(self.samples)) * (sample - self.mean);
    }

    /// The mean, if there are enough.
    fn get(self) -> Option<f64> {
        (self.samples >= NEEDED).then_some(self.mean)
    }
}

impl Sizes {
    /// The bytes of an object's answers, if there were any.
    pub fn of(&mut self, name: u64) -> Option<u64> {
        let size = self.remembered(name)?;
        self.remember(name, size);
        Some(bytes(size))
    }

    /// The bytes of objects by a rule, if there were enough to say something of others: to relay a large one for small costs
    /// more than the other way round.
    pub fn of_rule(&self, rule: usize) -> Option<u64> {
        self.rules.get(&rule)?.get().map(bytes)
    }

    /// An answer had so many bytes; or more, unless it `is_whole`: the client may not have waited for its end, so that this
    /// cannot make an object smaller.
    pub fn add(&mut self, object: Object, bytes: u64, is_whole: bool) {
        let now = log(bytes);
        let before = self.remembered(object.name);
        let learnt = match before {
            Some(before) if is_whole => before + OF_OBJECT * (now - before),
            Some(before) => before.max(now),
            None => now,
        };
        self.remember(object.name, learnt);
        // Each object counts once, however many ask for it: the next unknown one is like the others.
        if let Some(rule) = object.rule.filter(|_| before.is_none()) {
            self.rules.entry(rule).or_default().add(now);
        }
    }

    fn remembered(&self, name: u64) -> Option<f64> {
        let younger = self.younger.get(&name);
        younger.or_else(|| self.older.get(&name)).copied()
    }

    fn remember(&mut self, name: u64, size: f64) {
        if self.younger.len() >= MOST && !self.younger.contains_key(&name) {
            self.older = std::mem::take(&mut self.younger);
        }
        self.younger.insert(name, size);
    }
}

#[allow(clippy::cast_precision_loss)] // it is an estimate
fn log(bytes: u64) -> f64 {
    (bytes.max(1) as f64).ln()
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // as above; and it is at least 1
fn bytes(size: f64) -> u64 {
    size.exp().round() as u64
}

#[cfg(test)]
mod tests {
    use tributary_proto::http::{HeadLimits, parse_request};

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

    fn object(name: u64) -> Object {
        Object { name, rule: Some(1) }
    }

    fn sizes_of(answers: &[u64]) -> Sizes {
        let mut sizes = Sizes::default();
        for bytes in answers {
            sizes.add(object(7), *bytes, true);
        }
        sizes
    }

    #[test]
    fn what_an_object_was_is_expected_and_others_of_its_rule_are_guessed_by_it() {
        let mut sizes = sizes_of(&[5000]);
        assert_eq!(sizes.of(7), Some(5000));
        assert_eq!(sizes.of(8), None);
        assert_eq!(sizes.of_rule(1), None, "one is not enough");
        (10..41).for_each(|name| sizes.add(object(name), 5000, true));
        (0..100).for_each(|_| sizes.add(object(7), 1, true));
        assert_eq!((sizes.of_rule(1), sizes.of_rule(2)), (Some(5000), None));
    }

    #[test]
    fn an_answer_unlike_the_others_does_not_decide() {
        let mut sizes = sizes_of(&[1000, 1000, 1_000_000]);
        assert_eq!(sizes.of(7), Some(31_623));
        let mut sizes = sizes_of(&[1_000_000, 1000, 1000, 1000, 1000, 1000]);
        assert!(sizes.of(7).is_some_and(|bytes| bytes < 1300));
    }

    #[test]
    fn who_breaks_off_makes_no_object_smaller() {
        let mut sizes = sizes_of(&[1_000_000]);
        sizes.add(object(7), 10, false);
        assert_eq!(sizes.of(7), Some(1_000_000));
        sizes.add(object(7), 3_000_000, false);
        assert_eq!(sizes.of(7), Some(3_000_000));
        sizes.add(object(8), 10, false);
        assert_eq!(sizes.of(8), Some(10));
    }

    #[test]
    fn what_is_no_example_says_nothing_of_others() {
        let mut sizes = Sizes::default();
        for name in 0..100 {
            sizes.add(Object { name, rule: None }, 5000, true);
        }
        assert_eq!(sizes.of(7), Some(5000));
        assert_eq!(sizes.of_rule(1), None);
    }

    #[test]
    fn a_rules_guess_follows_slowly() {
        let mut sizes = Sizes::default();
        (0..100).for_each(|name| sizes.add(object(name), 1000, true));
        sizes.add(object(100), 1_000_000, true);
        assert!(sizes.of_rule(1).is_some_and(|bytes| bytes < 2000));
        (200..10_200).for_each(|name| sizes.add(object(name), 1_000_000, true));
        assert!(sizes.of_rule(1).is_some_and(|bytes| bytes > 900_000));
    }

    #[test]
    fn those_that_are_asked_for_are_remembered_among_any_number_of_others() {
        let mut sizes = sizes_of(&[5000]);
        for name in 100..100 + 5 * MOST as u64 {
            sizes.add(object(name), 1, true);
            if name % 1000 == 0 {
                assert_eq!(sizes.of(7), Some(5000));
            }
            assert!(sizes.younger.len() <= MOST && sizes.older.len() <= MOST);
        }
        assert_eq!(sizes.of(100), None);
    }
}
