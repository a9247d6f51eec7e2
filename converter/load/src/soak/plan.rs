//! What is to happen on one connection; the client tells the origin in the first line.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::random::Random;

/// Bytes in one direction: up to 2^22, small ones as usual as large ones.
const SIZE_BITS: u64 = 22;

/// How a connection comes to its end.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
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

const ENDINGS: [(Ending, &str); 5] = [
    (Ending::Together, "together"),
    (Ending::ClientFirst, "client-first"),
    (Ending::OriginFirst, "origin-first"),
    (Ending::ClientReset, "client-reset"),
    (Ending::OriginReset, "origin-reset"),
];

/// One connection. Its line is `soak SEED UP DOWN ENDING`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Of the two streams and of all pauses.
    pub seed: u64,
    /// Bytes from the client to the origin.
    pub up: u64,
    /// Bytes from the origin to the client.
    pub down: u64,
    /// How it ends.
    pub ending: Ending,
}

impl Plan {
    /// Any plan.
    pub fn random(random: &mut Random) -> Self {
        Self {
            seed: random.next(),
            up: random.any_size(SIZE_BITS),
            down: random.any_size(SIZE_BITS),
            ending: ENDINGS[usize::try_from(random.below(5)).unwrap_or(0)].0,
        }
    }

    /// The client's part, and the origin's.
    pub fn parts(&self) -> (Part, Part) {
        let client = Part {
            sends: (self.seed, self.up),
            receives: (!self.seed, self.down),
            waits: self.ending == Ending::OriginFirst,
            resets: self.ending == Ending::ClientReset,
            is_reset: self.ending == Ending::OriginReset,
        };
        let origin = Part {
            sends: client.receives,
            receives: client.sends,
            waits: self.ending == Ending::ClientFirst,
            resets: client.is_reset,
            is_reset: client.resets,
        };
        (client, origin)
    }
}

/// What one end has to do.
#[derive(Clone, Copy, Debug, PartialEq)]
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
}

impl fmt::Display for Plan {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = ENDINGS
            .iter()
            .find(|(ending, _)| *ending == self.ending)
            .map_or("", |(_, name)| name);
        write!(to, "soak {} {} {} {name}", self.seed, self.up, self.down)
    }
}

impl FromStr for Plan {
    type Err = ();

    fn from_str(line: &str) -> Result<Self, ()> {
        let words: Vec<&str> = line.split(' ').collect();
        let ["soak", seed, up, down, ending] = words[..] else {
            return Err(());
        };
        let number = |word: &str| word.parse().map_err(|_| ());
        Ok(Self {
            seed: number(seed)?,
            up: number(up)?,
            down: number(down)?,
            ending: ENDINGS
                .iter()
                .find(|(_, name)| *name == ending)
                .ok_or(())?
                .0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_survives_its_line() {
        let mut random = Random::new(3);
        for _ in 0..100 {
            let plan = Plan::random(&mut random);
            assert_eq!(plan.to_string().parse(), Ok(plan));
        }
    }

    #[test]
    fn a_damaged_line_is_no_plan() {
        for line in [
            "",
            "soak 1 2 3",
            "soak 1 2 3 sometime",
            "soak 1 2 x together",
            "soak 1 2 3 together 4",
        ] {
            assert_eq!(line.parse::<Plan>(), Err(()), "{line}");
        }
    }

    #[test]
    fn what_one_end_sends_the_other_expects() {
        let mut random = Random::new(4);
        for _ in 0..100 {
            let (client, origin) = Plan::random(&mut random).parts();
            assert_eq!(
                (client.sends, client.receives),
                (origin.receives, origin.sends)
            );
            assert_eq!(
                (client.resets, client.is_reset),
                (origin.is_reset, origin.resets)
            );
            assert!(!(client.waits && origin.waits));
        }
    }
}
