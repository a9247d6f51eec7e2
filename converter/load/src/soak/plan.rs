//! What is to happen on one connection; the client tells the origin in the first line.

use std::time::Duration;

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::random::Random;
use crate::seconds::seconds;

/// Bytes in one direction: up to 2^22, small ones as usual as large ones.
const SIZE_BITS: u64 = 22;

/// How a connection comes to its end.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Both send at the same time; each half-closes when it is done.
    Together,
    /// The client sends and half-closes; the origin sends only then.
    ClientFirst,
    /// The origin sends and half-closes; the client sends only then.
    OriginFirst,
    /// Both send; the client resets the connection when it is done, whatever is still on its way.
    ClientReset,
    /// Both send; the origin resets the connection when it is done.
    OriginReset,
}

const ENDINGS: [Ending; 5] = [
    Ending::Together,
    Ending::ClientFirst,
    Ending::OriginFirst,
    Ending::ClientReset,
    Ending::OriginReset,
];
/// Those of connections that rest: a reset in the end would hide one that nobody sent.
const ORDERLY: u64 = 3;
/// How much longer than its limit a connection rests at least that is to be reset.
const PAST: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Of the two streams and of all pauses.
    pub seed: u64,
    pub up: u64,
    pub down: u64,
    pub ending: Ending,
    /// Whether nothing moves for a while.
    pub rest: Rest,
}

/// A time in which nothing moves: before the first byte, or, where one end sends only behind the other one's end, then.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Rest {
    pub time: Duration,
    /// After which time the proxy resets such a connection.
    pub limit: Duration,
}

impl Rest {
    /// Up to half of the limit, or well past it.
    fn random(random: &mut Random, limit: Duration) -> Self {
        const STEPS: u32 = 1000;
        let part = u32::try_from(random.below(STEPS.into())).unwrap_or(0);
        let time = match random.below(2) {
            0 => limit / 2 / STEPS * part,
            _ => limit + limit / 4 + PAST,
        };
        Self { time, limit }
    }

    /// Whether the proxy resets the connection.
    pub fn is_too_long(&self) -> bool {
        self.time > self.limit
    }
}

/// The proxy's time-outs.
#[derive(Args, Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// How long nothing may move on a connection before the proxy resets it.
    #[arg(long, default_value = "0", value_name = "SECONDS", value_parser = seconds)]
    pub idle: Duration,
    /// The same, once one end is through.
    #[arg(long, default_value = "0", value_name = "SECONDS", value_parser = seconds)]
    pub half_closed: Duration,
}

impl Plan {
    pub fn random(random: &mut Random) -> Self {
        Self {
            seed: random.next(),
            up: random.any_size(SIZE_BITS),
            down: random.any_size(SIZE_BITS),
            ending: ending_below(random, ENDINGS.len() as u64),
            rest: Rest::default(),
        }
    }

    /// Any plan of a connection that rests, and has something to send afterwards.
    pub fn resting(random: &mut Random, limits: &Limits) -> Self {
        let ending = ending_below(random, ORDERLY);
        let limit = match ending {
            Ending::ClientFirst | Ending::OriginFirst => limits.half_closed,
            _ => limits.idle,
        };
        let any = Self::random(random);
        Self {
            up: any.up.max(1),
            down: any.down.max(1),
            ending,
            rest: Rest::random(random, limit),
            ..any
        }
    }

    /// As the client tells it, without the line's end.
    pub fn to_line(self) -> String {
        serde_json::to_string(&self).expect("a plan has no map")
    }

    /// None for a line that is none of a plan's.
    pub fn of_line(line: &str) -> Option<Self> {
        serde_json::from_str(line).ok()
    }

    /// The client's part, and the origin's.
    pub fn parts(&self) -> (Part, Part) {
        let client = Part {
            rests_first: !matches!(self.ending, Ending::ClientFirst | Ending::OriginFirst),
            sends: (self.seed, self.up),
            receives: (!self.seed, self.down),
            waits: self.ending == Ending::OriginFirst,
            resets: self.ending == Ending::ClientReset,
            is_reset: self.ending == Ending::OriginReset,
            rest: self.rest,
        };
        let origin = Part {
            sends: client.receives,
            receives: client.sends,
            waits: self.ending == Ending::ClientFirst,
            resets: client.is_reset,
            is_reset: client.resets,
            ..client
        };
        (client, origin)
    }
}

/// What one end has to do.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(clippy::struct_excessive_bools)] // each is something else
pub struct Part {
    /// Seed and number of the bytes to send.
    pub sends: (u64, u64),
    /// Seed and number of the bytes to expect.
    pub receives: (u64, u64),
    /// Whether to send only when everything has been received.
    pub waits: bool,
    /// Whether to reset the connection after sending.
    pub resets: bool,
    /// Whether the other end will.
    pub is_reset: bool,
    /// Whether nothing moves for a while.
    pub rest: Rest,
    /// Whether that is before the first byte; otherwise behind the last byte of the end that sends first.
    pub rests_first: bool,
}

fn ending_below(random: &mut Random, bound: u64) -> Ending {
    ENDINGS[usize::try_from(random.below(bound)).unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_survives_its_line_and_a_damaged_line_is_no_plan() {
        let mut random = Random::new(3);
        let limits = Limits {
            idle: Duration::from_secs(3),
            half_closed: Duration::from_secs(2),
        };
        for _ in 0..100 {
            for plan in [Plan::random(&mut random), Plan::resting(&mut random, &limits)] {
                let line = plan.to_line();
                assert_eq!(Plan::of_line(&line), Some(plan));
                for damaged in [&line[1..], &line.replace("seed", "need"), &format!("{line} 4")] {
                    assert_eq!(Plan::of_line(damaged), None, "{damaged}");
                }
            }
        }
        assert_eq!(Plan::of_line(""), None);
    }

    #[test]
    fn what_one_end_sends_the_other_expects() {
        let mut random = Random::new(4);
        for _ in 0..100 {
            let (client, origin) = Plan::random(&mut random).parts();
            assert_eq!((client.sends, client.receives), (origin.receives, origin.sends));
            assert_eq!((client.resets, client.is_reset), (origin.is_reset, origin.resets));
            assert!(!(client.waits && origin.waits));
        }
    }
}
