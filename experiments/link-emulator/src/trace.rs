//! A recorded trace instead of a rate: the times at which the link can deliver a packet.
//!
//! The format is Mahimahi's (mm-link(1)): a line for each opportunity to deliver 1500 bytes, which holds the time in
//! whole milliseconds; equal times on several lines are as many opportunities. Bytes are counted: several small packets
//! share one opportunity, and what one has left over starts the next packet. Whatever nobody waits for is lost. After
//! its last time the trace begins again, with that time as its new zero.
//!
//! Mahimahi's source (`src/frontend/link_queue.hh`) says 1504 bytes, as it counts the four bytes that a TUN device puts
//! in front of an IP packet. Here IP bytes are counted, as everywhere.

use std::fs;
use std::str::FromStr;
use std::time::{Duration, Instant};

use crate::link::Passage;

/// IP bytes in one opportunity.
const OPPORTUNITY_BYTES: usize = 1500;

/// The times of a trace, in milliseconds. They never decrease, and the last one is above zero.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    opportunities: Vec<u64>,
}

impl Trace {
    pub fn read(path: &str) -> Result<Self, String> {
        fs::read_to_string(path)
            .map_err(|error| format!("the file cannot be read: {error}"))?
            .parse()
    }

    /// After this many milliseconds it begins again.
    fn period(&self) -> u64 {
        self.opportunities.last().copied().unwrap_or(1)
    }
}

impl FromStr for Trace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut opportunities = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let refused = |accepted| format!("line {number} is {line:?}: accepted is {accepted}");
            let time = milliseconds(line).ok_or_else(|| refused("a whole number of milliseconds"))?;
            if opportunities.last().is_some_and(|last| *last > time) {
                return Err(refused("a time no earlier than the one before"));
            }
            opportunities.push(time);
        }
        match opportunities.last() {
            None | Some(0) => Err("it has no length: accepted is a last line above 0 milliseconds".into()),
            Some(_) => Ok(Self { opportunities }),
        }
    }
}

/// At most ten digits, 115 days: so no sum of times overflows.
fn milliseconds(text: &str) -> Option<u64> {
    let plain = (1..=10).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

/// A trace that is being replayed, and how far it is used up.
pub struct Replay {
    trace: Trace,
    start: Instant,
    /// Times that the trace has begun again before the current opportunity, and that one's index.
    lap: u64,
    index: usize,
    /// Of the current opportunity.
    bytes_left: usize,
}

impl Replay {
    pub fn new(trace: Trace, start: Instant) -> Self {
        Self {
            trace,
            start,
            lap: 0,
            index: 0,
            bytes_left: OPPORTUNITY_BYTES,
        }
    }

    /// Sends a packet that is there from `ready` on, behind all those before it.
    pub fn send(&mut self, ready: Instant, bytes: usize) -> Passage {
        if self.time() < ready {
            self.skip_to(ready);
        }
        if self.bytes_left == 0 {
            self.advance();
        }
        let begins = self.time();
        let mut missing = bytes;
        while missing > self.bytes_left {
            missing -= self.bytes_left;
            self.advance();
        }
        self.bytes_left -= missing;
        Passage {
            begins,
            ends: self.time(),
        }
    }

    /// Of the current opportunity.
    fn time(&self) -> Instant {
        let milliseconds = self.lap * self.trace.period() + self.trace.opportunities[self.index];
        self.start + Duration::from_millis(milliseconds)
    }

    fn advance(&mut self) {
        self.bytes_left = OPPORTUNITY_BYTES;
        self.index += 1;
        if self.index == self.trace.opportunities.len() {
            self.index = 0;
            self.lap += 1;
        }
    }

    /// Goes to the first opportunity that is not before `ready`. One at the very end of a lap belongs to that lap.
    fn skip_to(&mut self, ready: Instant) {
        let since_start = ready.duration_since(self.start);
        let milliseconds = since_start.as_nanos().div_ceil(1_000_000) as u64;
        self.lap = milliseconds.saturating_sub(1) / self.trace.period();
        let within = milliseconds - self.lap * self.trace.period();
        self.index = self.trace.opportunities.partition_point(|t| *t < within);
        self.bytes_left = OPPORTUNITY_BYTES;
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::link::Queue;
    use crate::spec::Capacity;

    fn trace(times: &[u64]) -> Trace {
        Trace {
            opportunities: times.to_vec(),
        }
    }

    /// Arrivals in microseconds with their bytes in, times of departure in milliseconds out.
    fn departures(times: &[u64], limit: usize, packets: &[(u64, usize)]) -> Vec<Option<u64>> {
        let start = Instant::now();
        let mut queue = Queue::new(Capacity::Trace(trace(times)), limit, start);
        let arrival = |microseconds| start + Duration::from_micros(microseconds);
        packets
            .iter()
            .map(|(at, bytes)| queue.pass(arrival(*at), *bytes))
            .map(|time| time.map(|time| time.duration_since(start).as_millis() as u64))
            .collect()
    }

    #[test]
    fn a_line_is_an_opportunity() {
        assert_eq!("0\n5\n5\n12\n".parse::<Trace>().unwrap(), trace(&[0, 5, 5, 12]));
        assert_eq!("7".parse::<Trace>().unwrap(), trace(&[7]));
    }

    #[test]
    fn what_is_no_trace_is_refused_with_its_line() {
        for (text, want) in [
            ("1\n\n2\n", "line 2 is \"\""),
            ("1\n2 \n", "line 2 is \"2 \""),
            ("-1\n", "line 1 is \"-1\""),
            ("1.5\n", "line 1 is \"1.5\""),
            ("12345678901\n", "line 1 is \"12345678901\""),
            ("1\n5\n4\n", "line 3 is \"4\": accepted is a time no earlier"),
            ("", "it has no length"),
            ("0\n0\n", "it has no length"),
        ] {
            let message = text.parse::<Trace>().unwrap_err();
            assert!(message.starts_with(want), "{text:?}: {message}");
        }
    }

    #[test]
    fn full_packets_leave_one_at_each_opportunity() {
        let packets = [(0, 1500), (0, 1500), (0, 1500)];
        assert_eq!(departures(&[3, 3, 8], 9, &packets), [Some(3), Some(3), Some(8)]);
    }

    #[test]
    fn small_packets_share_an_opportunity_and_a_rest_starts_the_next() {
        let packets = [(0, 500), (0, 500), (0, 1000), (0, 1000)];
        let want = [Some(1), Some(1), Some(2), Some(2)];
        assert_eq!(departures(&[1, 2, 3], 9, &packets), want);
    }

    #[test]
    fn a_packet_longer_than_an_opportunity_takes_several() {
        assert_eq!(departures(&[1, 4, 9], 9, &[(0, 4500), (0, 1)]), [Some(9), Some(10)]);
    }

    #[test]
    fn an_opportunity_that_nobody_waits_for_is_lost() {
        let packets = [(2_000, 1500), (2_001, 1500), (8_000, 40)];
        assert_eq!(departures(&[1, 2, 5, 9], 9, &packets), [Some(2), Some(5), Some(9)]);
    }

    #[test]
    fn a_rest_is_lost_as_well() {
        assert_eq!(departures(&[1, 2, 3], 9, &[(0, 40), (1_500, 40)]), [Some(1), Some(2)]);
    }

    #[test]
    fn the_trace_begins_again_at_its_last_time() {
        let packets = [(0, 1500); 5];
        let want = [Some(0), Some(10), Some(10), Some(20), Some(20)];
        assert_eq!(departures(&[0, 10], 9, &packets), want);
    }

    #[test]
    fn after_a_long_silence_the_right_lap_goes_on() {
        for (at, want) in [
            (1_009_999, 1_010),
            (1_010_000, 1_010),
            (1_010_001, 1_015),
            (1_015_001, 1_020),
        ] {
            assert_eq!(departures(&[5, 10], 9, &[(at, 1500)]), [Some(want)], "{at}");
        }
    }

    #[test]
    fn a_full_queue_drops_and_takes_again_once_a_packet_has_left_it() {
        let packets = [(0, 1500), (0, 1500), (0, 1500), (10_001, 1500)];
        assert_eq!(departures(&[10], 2, &packets), [Some(10), Some(20), None, Some(30)]);
    }

    #[test]
    fn a_packet_that_has_begun_to_leave_is_not_in_the_queue() {
        let packets = [(0, 2000), (0, 1500), (10_001, 1500)];
        assert_eq!(departures(&[10], 1, &packets), [Some(20), None, Some(30)]);
    }

    /// Against the definition: each opportunity in turn takes 1500 bytes from the head of the queue.
    #[test]
    fn random_packets_leave_as_by_going_through_all_opportunities() {
        for seed in 0..300 {
            let mut random = StdRng::seed_from_u64(seed);
            let mut times: Vec<u64> = (0..random.random_range(1..20))
                .map(|_| random.random_range(0..50))
                .collect();
            times.sort_unstable();
            times.push(random.random_range(50..60));
            let mut packets: Vec<(u64, usize)> = (0..200)
                .map(|_| (random.random_range(0..500_000), random.random_range(1..=1500)))
                .collect();
            packets.sort_unstable();
            assert_eq!(
                departures(&times, 1000, &packets),
                by_definition(&times, &packets),
                "{seed}"
            );
        }
    }

    fn by_definition(times: &[u64], packets: &[(u64, usize)]) -> Vec<Option<u64>> {
        let period = times[times.len() - 1];
        let mut opportunities = (0..).flat_map(|lap| times.iter().map(move |t| lap * period + t));
        let mut left = Vec::new();
        let (mut now, mut bytes) = (0, 0);
        for (arrival, size) in packets {
            let mut missing = *size;
            while missing > 0 {
                if bytes == 0 || now * 1000 < *arrival {
                    now = opportunities.next().unwrap();
                    bytes = if now * 1000 < *arrival { 0 } else { OPPORTUNITY_BYTES };
                }
                let taken = missing.min(bytes);
                missing -= taken;
                bytes -= taken;
            }
            left.push(Some(now));
        }
        left
    }
}
