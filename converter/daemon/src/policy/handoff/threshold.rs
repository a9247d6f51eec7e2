//! From which size on it costs a front less to hand a request over than to relay it: learned from what both cost. Pure.

use std::time::Duration;

use super::costs::{Line, Mean};

/// Where it begins.
const FIRST: f64 = 100e3;
/// Where it ends, whatever was measured.
const LEAST: f64 = 16e3;
const MOST: f64 = 4e6;
/// Of requests whose sizes differ by less (their standard deviation), no line can be told.
const SPREAD: f64 = 4e3;
/// What is within this factor of it is near.
const NEAR: f64 = 4.0;
/// One of so many requests near it goes the other way: what that costs is not known otherwise.
const OTHER_WAY: u32 = 64;
/// It stays where another one would be within this factor, so that noise does not move it.
const ALIKE: f64 = 1.25;
/// It moves by this factor at most: beyond the sizes that were relayed, the line is a guess.
const STEP: f64 = 2.0;
/// Samples between two moves.
const BETWEEN: u32 = 256;

/// The threshold, and what it is learned from.
#[derive(Clone, Copy, Debug)]
pub struct Threshold {
    bytes: f64,
    relayed: Line,
    handed_over: Mean,
    samples: u32,
    near: u32,
}

impl Default for Threshold {
    fn default() -> Self {
        Self {
            bytes: FIRST,
            relayed: Line::default(),
            handed_over: Mean::default(),
            samples: 0,
            near: 0,
        }
    }
}

impl Threshold {
    /// Where it is.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // it is within its bounds
    pub fn bytes(&self) -> u64 {
        self.bytes.round() as u64
    }

    /// Whether a request that is expected to move so many bytes is to be relayed.
    pub fn relays(&mut self, bytes: u64) -> bool {
        let bytes = float(bytes);
        let is_below = bytes < self.bytes;
        if bytes < self.bytes / NEAR || bytes > self.bytes * NEAR {
            return is_below;
        }
        self.near = (self.near + 1) % OTHER_WAY;
        is_below ^ (self.near == 0)
    }

    /// To relay a request that moved so many bytes took so much of a processor's time.
    pub fn relayed(&mut self, bytes: u64, cost: Duration) {
        if float(bytes) <= self.bytes * NEAR {
            self.relayed.add(float(bytes), cost.as_secs_f64());
            self.learn();
        }
    }

    /// To have a request answered elsewhere took so much.
    pub fn handed_over(&mut self, cost: Duration) {
        self.handed_over.add(cost.as_secs_f64());
        self.learn();
    }

    fn learn(&mut self) {
        self.samples = self.samples.saturating_add(1);
        let cost = self.handed_over.get();
        let even = cost.and_then(|cost| self.relayed.size_at(cost, SPREAD));
        let Some(even) = even.filter(|_| self.samples >= BETWEEN) else {
            return;
        };
        self.samples = 0;
        if even < self.bytes / ALIKE || even > self.bytes * ALIKE {
            let step = even.clamp(self.bytes / STEP, self.bytes * STEP);
            self.bytes = step.clamp(LEAST, MOST);
        }
    }
}

#[allow(clippy::cast_precision_loss)] // bytes of one request
fn float(bytes: u64) -> f64 {
    bytes as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A front: what it takes to relay, in microseconds, for each request and for each kilobyte, and to hand over.
    #[derive(Clone, Copy)]
    struct Front {
        request: u64,
        kilobyte: f64,
        hand_over: u64,
    }

    impl Front {
        /// Requests for 1 kB to 2 MB, as many of each size as of its double; what each costs is off by up to a half.
        fn serve(self, threshold: &mut Threshold, requests: u32) {
            for number in 0..requests {
                let bytes = 1000_u64 << (number * 7 % 12);
                let noise = 1.0 + 0.5 * (f64::from(number * 37 % 100) / 50.0 - 1.0);
                if threshold.relays(bytes) {
                    let micros = float(self.request) + self.kilobyte * float(bytes) / 1000.0;
                    threshold.relayed(bytes, Duration::from_secs_f64(micros * noise / 1e6));
                } else {
                    let micros = float(self.hand_over) * noise;
                    threshold.handed_over(Duration::from_secs_f64(micros / 1e6));
                }
            }
        }

        fn even(self) -> f64 {
            1000.0 * float(self.hand_over - self.request) / self.kilobyte
        }
    }

    const USUAL: Front = Front {
        request: 60,
        kilobyte: 0.5,
        hand_over: 200,
    };

    #[test]
    fn it_comes_to_where_both_ways_cost_the_same_and_stays_there() {
        for front in [
            USUAL,
            Front {
                hand_over: 80,
                ..USUAL
            },
            Front {
                kilobyte: 0.2,
                ..USUAL
            },
        ] {
            let mut threshold = Threshold::default();
            assert_eq!(threshold.bytes(), 100_000);
            front.serve(&mut threshold, 20_000);
            let learned = threshold.bytes;
            let off = learned / front.even();
            assert!((0.6..1.6).contains(&off), "{learned} of {}", front.even());
        }
    }

    #[test]
    fn it_follows_a_front_that_changes() {
        let mut threshold = Threshold::default();
        USUAL.serve(&mut threshold, 20_000);
        let before = threshold.bytes();
        let slower = Front {
            hand_over: 800,
            ..USUAL
        };
        slower.serve(&mut threshold, 20_000);
        assert!(
            threshold.bytes() > 3 * before,
            "{before} {}",
            threshold.bytes()
        );
        USUAL.serve(&mut threshold, 20_000);
        assert!(
            threshold.bytes() < 2 * before,
            "{before} {}",
            threshold.bytes()
        );
    }

    #[test]
    fn it_rarely_moves_once_it_is_right() {
        let mut threshold = Threshold::default();
        USUAL.serve(&mut threshold, 20_000);
        let mut moves = 0;
        for _ in 0..20_000 {
            let before = threshold.bytes();
            USUAL.serve(&mut threshold, 1);
            moves += u32::from(threshold.bytes() != before);
        }
        assert!(moves <= 20, "{moves} moves");
    }

    #[test]
    fn it_stays_within_its_bounds() {
        for (front, bound) in [
            (
                Front {
                    hand_over: 1,
                    ..USUAL
                },
                LEAST,
            ),
            (
                Front {
                    hand_over: 1_000_000,
                    ..USUAL
                },
                MOST,
            ),
        ] {
            let mut threshold = Threshold::default();
            front.serve(&mut threshold, 50_000);
            assert!((threshold.bytes - bound).abs() < 1.0, "{}", threshold.bytes);
        }
    }

    #[test]
    fn without_both_costs_it_stays_where_it_is() {
        let mut threshold = Threshold::default();
        (0..1000).for_each(|_| threshold.handed_over(Duration::from_secs(1)));
        assert_eq!(threshold.bytes(), 100_000);
    }

    #[test]
    fn one_of_64_requests_near_it_goes_the_other_way_and_no_other() {
        let mut threshold = Threshold::default();
        let mut relayed = |bytes| (0..640).filter(|_| threshold.relays(bytes)).count();
        assert_eq!(relayed(99_999), 630);
        assert_eq!(relayed(100_000), 10);
        assert_eq!(relayed(400_001), 0);
        assert_eq!(relayed(24_999), 640);
    }
}
