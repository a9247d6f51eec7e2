//! How large the answers for objects were, for what will be said of the next one. Pure.

use std::collections::HashMap;

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

/// A running mean.
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

    /// An answer had so many bytes.
    pub fn add(&mut self, object: Object, bytes: u64) {
        let now = log(bytes);
        self.learn(object, now, |before| before + OF_OBJECT * (now - before));
    }

    /// An answer had so many bytes, or more: the client may not have waited for its end. It cannot make an object smaller.
    pub fn add_at_least(&mut self, object: Object, bytes: u64) {
        let now = log(bytes);
        self.learn(object, now, |before| before.max(now));
    }

    fn learn(&mut self, object: Object, first: f64, again: impl FnOnce(f64) -> f64) {
        let before = self.remembered(object.name);
        self.remember(object.name, before.map_or(first, again));
        // Each object counts once, however many ask for it: the next unknown one is like the others.
        if let Some(rule) = object.rule.filter(|_| before.is_none()) {
            self.rules.entry(rule).or_default().add(first);
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
    use super::*;

    fn object(name: u64) -> Object {
        Object {
            name,
            rule: Some(1),
        }
    }

    fn sizes_of(answers: &[u64]) -> Sizes {
        let mut sizes = Sizes::default();
        for bytes in answers {
            sizes.add(object(7), *bytes);
        }
        sizes
    }

    #[test]
    fn what_an_object_was_is_expected_and_others_of_its_rule_are_guessed_by_it() {
        let mut sizes = sizes_of(&[5000]);
        assert_eq!(sizes.of(7), Some(5000));
        assert_eq!(sizes.of(8), None);
        assert_eq!(sizes.of_rule(1), None, "one is not enough");
        (10..41).for_each(|name| sizes.add(object(name), 5000));
        (0..100).for_each(|_| sizes.add(object(7), 1));
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
        sizes.add_at_least(object(7), 10);
        assert_eq!(sizes.of(7), Some(1_000_000));
        sizes.add_at_least(object(7), 3_000_000);
        assert_eq!(sizes.of(7), Some(3_000_000));
        sizes.add_at_least(object(8), 10);
        assert_eq!(sizes.of(8), Some(10));
    }

    #[test]
    fn what_is_no_example_says_nothing_of_others() {
        let mut sizes = Sizes::default();
        for name in 0..100 {
            sizes.add(Object { name, rule: None }, 5000);
        }
        assert_eq!(sizes.of(7), Some(5000));
        assert_eq!(sizes.of_rule(1), None);
    }

    #[test]
    fn a_rules_guess_follows_slowly() {
        let mut sizes = Sizes::default();
        (0..100).for_each(|name| sizes.add(object(name), 1000));
        sizes.add(object(100), 1_000_000);
        assert!(sizes.of_rule(1).is_some_and(|bytes| bytes < 2000));
        (200..10_200).for_each(|name| sizes.add(object(name), 1_000_000));
        assert!(sizes.of_rule(1).is_some_and(|bytes| bytes > 900_000));
    }

    #[test]
    fn those_that_are_asked_for_are_remembered_among_any_number_of_others() {
        let mut sizes = sizes_of(&[5000]);
        for name in 100..100 + 5 * MOST as u64 {
            sizes.add(object(name), 1);
            if name % 1000 == 0 {
                assert_eq!(sizes.of(7), Some(5000));
            }
            assert!(sizes.younger.len() <= MOST && sizes.older.len() <= MOST);
        }
        assert_eq!(sizes.of(100), None);
    }
}
