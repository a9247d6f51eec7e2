//! A connection that the kernel translates, until it is over.

use std::io;
use std::time::Duration;

use super::{Seen, Translator};
use crate::leg::Flow;
use crate::sys;
use crate::translation::Translation;

/// How long a connection is kept that may be over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Without any segment, when both ends have ended their data: the last of them may have to be sent again (RFC 9293
    /// section 3.6.1). Also behind a reset, which may be forged.
    pub closed: Duration,
    /// Without any segment.
    pub idle: Duration,
}

/// Both directions of a connection in a [`Translator`].
#[derive(Debug)]
pub struct Connection {
    flows: [Flow; 2],
    begun: Duration,
}

impl Connection {
    /// Has the kernel translate both directions. Each goes out by the device with the number beside it.
    pub fn begin(
        translator: &mut Translator,
        directions: [(Translation, u32); 2],
    ) -> io::Result<Self> {
        let flows = directions.map(|(translation, _)| translation.from);
        let [first, second] = directions;
        translator.insert(&first.0, first.1)?;
        if let Err(error) = translator.insert(&second.0, second.1) {
            translator.remove(flows[0])?;
            return Err(error);
        }
        let begun = sys::monotonic();
        Ok(Self { flows, begun })
    }

    /// What both directions have seen.
    pub fn seen(&self, translator: &Translator) -> io::Result<[Seen; 2]> {
        let [first, second] = self.flows.map(|flow| translator.seen(flow));
        Ok([first?.unwrap_or_default(), second?.unwrap_or_default()])
    }

    /// Takes it out of the kernel if it is over; what both directions had seen until then.
    pub fn end_if_over(
        &self,
        translator: &mut Translator,
        limits: &Limits,
    ) -> io::Result<Option<[Seen; 2]>> {
        let seen = self.seen(translator)?;
        let over = is_over(&seen, self.begun, sys::monotonic(), limits);
        if over {
            for flow in self.flows {
                translator.remove(flow)?;
            }
        }
        Ok(over.then_some(seen))
    }
}

fn is_over(seen: &[Seen; 2], begun: Duration, now: Duration, limits: &Limits) -> bool {
    let last = seen.iter().filter_map(|direction| direction.last).max();
    let quiet = now.saturating_sub(last.unwrap_or(begun));
    // Who knows addresses and ports alone can forge a reset, which an end does not take (RFC 5961 section 3.2): then the
    // connection goes on.
    let ended =
        seen.iter().any(|direction| direction.reset) || seen.iter().all(|direction| direction.fin);
    ended && quiet >= limits.closed || quiet >= limits.idle
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        closed: Duration::from_secs(60),
        idle: Duration::from_secs(600),
    };

    fn at(last: u64) -> Seen {
        Seen {
            last: Some(Duration::from_secs(last)),
            ..Seen::default()
        }
    }

    #[test]
    fn a_connection_is_over_by_a_reset_by_both_ends_or_by_silence() {
        let fin = |last| Seen {
            fin: true,
            ..at(last)
        };
        let reset = |last| Seen {
            reset: true,
            ..at(last)
        };
        for (seen, now, over) in [
            ([Seen::default(), Seen::default()], 699, false),
            ([Seen::default(), Seen::default()], 700, true),
            ([at(200), at(300)], 899, false),
            ([at(200), at(300)], 900, true),
            ([reset(200), at(200)], 259, false),
            ([reset(200), at(200)], 260, true),
            ([at(200), reset(200)], 260, true),
            ([reset(200), at(250)], 309, false),
            ([fin(200), at(200)], 799, false),
            ([fin(200), at(200)], 800, true),
            ([fin(200), fin(210)], 269, false),
            ([fin(200), fin(210)], 270, true),
        ] {
            let answer = is_over(
                &seen,
                Duration::from_secs(100),
                Duration::from_secs(now),
                &LIMITS,
            );
            assert_eq!(answer, over, "{seen:?} at {now} s");
        }
    }
}
