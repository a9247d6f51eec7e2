//! A connection that the kernel translates, until it is over.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tributary_sys::monotonic;

use super::table::{Devices, Table};
use super::{Seen, Translator};
use crate::leg::Flow;
use crate::translation::Translation;

/// How long a connection is kept that may be over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Without any segment, when both ends have ended their data, or one of them has reset the connection: the last segments
    /// may have to be sent again (RFC 9293 section 3.6.1).
    pub closed: Duration,
    /// Without any segment.
    pub idle: Duration,
}

/// Both directions of a connection in a [`Translator`], for as long as this is there.
pub struct Connection {
    table: Arc<Table>,
    flows: [Flow; 2],
    begun: Duration,
}

impl Connection {
    /// Has the kernel translate both directions. Each goes out by the device with the number beside it.
    pub fn begin(translator: &Translator, directions: [(Translation, u32); 2]) -> io::Result<Self> {
        let connection = Self {
            table: Arc::clone(&translator.table),
            flows: directions.map(|(translation, _)| translation.from),
            begun: monotonic(),
        };
        for (translation, device) in directions {
            translator.insert(&translation, Devices::to(device))?;
        }
        Ok(connection)
    }

    /// From now on each direction goes out by the device with this number, in the order in which they began.
    pub fn lead(&self, translator: &Translator, devices: [u32; 2]) -> io::Result<()> {
        let mut both = self.flows.into_iter().zip(devices);
        both.try_for_each(|(flow, device)| translator.lead(flow, device))
    }

    pub fn seen(&self) -> io::Result<[Seen; 2]> {
        let [first, second] = self.flows.map(|flow| self.table.seen(flow));
        Ok([first?.unwrap_or_default(), second?.unwrap_or_default()])
    }

    /// What both directions have seen, if it is over.
    pub fn over(&self, limits: &Limits) -> io::Result<Option<[Seen; 2]>> {
        let seen = self.seen()?;
        Ok(is_over(&seen, self.begun, monotonic(), limits).then_some(seen))
    }
}

impl Drop for Connection {
    /// Whoever has its addresses and ports next is not to be rewritten.
    fn drop(&mut self) {
        for flow in self.flows {
            // It is not there if it could not be inserted.
            let _ = self.table.remove(flow);
        }
    }
}

fn is_over(seen: &[Seen; 2], begun: Duration, now: Duration, limits: &Limits) -> bool {
    let last = seen.iter().filter_map(|direction| direction.last).max();
    let quiet = now.saturating_sub(last.unwrap_or(begun));
    let ended = seen.iter().any(|direction| direction.reset) || seen.iter().all(|direction| direction.fin);
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
        let fin = |last| Seen { fin: true, ..at(last) };
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
            let answer = is_over(&seen, Duration::from_secs(100), Duration::from_secs(now), &LIMITS);
            assert_eq!(answer, over, "{seen:?} at {now} s");
        }
    }
}
