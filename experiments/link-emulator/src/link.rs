//! One direction of the link: loss, then the queue and the rate or trace, then the delay. It reads no clock and no socket.
//!
//! A frame's whole way is known when it arrives, since frames leave the queue in their order. So a late wake-up of this
//! process does not add up: it shows once, in front of the send.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::spec::{Capacity, Spec};
use crate::trace::Replay;

const ETHERNET_HEADER_BYTES: usize = 14;

/// When a packet is on its way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Passage {
    /// Its first byte goes: it is in the queue no longer.
    pub begins: Instant,
    /// Its last byte has gone.
    pub ends: Instant,
}

/// What frames wait for in the queue.
enum Line {
    Rate { bps: u64, free: Instant },
    Trace(Replay),
}

impl Line {
    fn new(capacity: Capacity, start: Instant) -> Self {
        match capacity {
            Capacity::Rate(bps) => Self::Rate { bps, free: start },
            Capacity::Trace(trace) => Self::Trace(Replay::new(trace, start)),
        }
    }

    /// Sends a packet of so many IP bytes that is there from `ready` on, behind all those before it.
    fn send(&mut self, ready: Instant, bytes: usize) -> Passage {
        match self {
            Self::Rate { bps, free } => {
                let begins = ready.max(*free);
                *free = begins + Duration::from_nanos(bytes as u64 * 8_000_000_000 / *bps);
                Passage { begins, ends: *free }
            }
            Self::Trace(replay) => replay.send(ready, bytes),
        }
    }
}

/// A drop-tail queue in front of a line.
pub struct Queue {
    line: Line,
    limit: usize,
    /// When the packets in the queue leave it.
    waiting: VecDeque<Instant>,
}

impl Queue {
    /// A queue for `limit` packets; a trace begins at `start`.
    pub fn new(capacity: Capacity, limit: usize, start: Instant) -> Self {
        Self {
            line: Line::new(capacity, start),
            limit,
            waiting: VecDeque::new(),
        }
    }

    /// When a packet of so many IP bytes has passed the line; `None` if the queue is full. Arrivals do not go back in
    /// time.
    pub fn pass(&mut self, arrival: Instant, bytes: usize) -> Option<Instant> {
        while self.waiting.front().is_some_and(|left| *left <= arrival) {
            self.waiting.pop_front();
        }
        if self.waiting.len() >= self.limit {
            return None;
        }
        let passage = self.line.send(arrival, bytes);
        if passage.begins > arrival {
            self.waiting.push_back(passage.begins);
        }
        Some(passage.ends)
    }
}

/// A frame behind the queue. The order is that of departure, and of arrival where it is the same.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Delayed {
    /// Without the part of the delay that all frames have.
    until: Instant,
    number: u64,
    frame: Vec<u8>,
}

/// What became of the frames. Those in none of the counters after `received` are still under way.
#[derive(Default)]
pub struct Counters {
    pub received: u64,
    pub delivered: u64,
    /// By the loss model.
    pub lost: u64,
    pub queue_dropped: u64,
    /// Longer than a frame can be, or shorter than its header.
    pub bad_size: u64,
    /// The kernel would not take them, for example because the interface is down.
    pub send_failed: u64,
}

pub struct Direction {
    loss: f64,
    queue: Queue,
    /// What every frame is delayed by, and the most that chance adds.
    delay: Duration,
    spread: Duration,
    random: StdRng,
    last_arrival: Instant,
    under_way: BinaryHeap<Reverse<Delayed>>,
    pub counters: Counters,
}

impl Direction {
    pub fn new(spec: &Spec, random: &mut StdRng, start: Instant) -> Self {
        Self {
            loss: spec.loss,
            queue: Queue::new(spec.capacity.clone(), spec.queue_packets, start),
            delay: spec.delay.saturating_sub(spec.jitter),
            spread: spec.jitter * 2,
            random: StdRng::from_rng(random),
            last_arrival: start,
            under_way: BinaryHeap::new(),
            counters: Counters::default(),
        }
    }

    /// Gives all frames that have not left yet, and those to come, another delay. With jitter it is refused.
    pub fn set_delay(&mut self, delay: Duration) -> Result<(), String> {
        if !self.spread.is_zero() {
            return Err("the delay of a link with jitter stays as it is".into());
        }
        self.delay = delay;
        Ok(())
    }

    /// A frame has arrived; `None` is one that was too long. Its time may lie before that of the last one, as the wall
    /// clock's do: it counts as the same then.
    pub fn take(&mut self, frame: Option<&[u8]>, arrival: Instant) {
        self.counters.received += 1;
        self.last_arrival = self.last_arrival.max(arrival);
        let Some(frame) = frame.filter(|frame| frame.len() >= ETHERNET_HEADER_BYTES) else {
            self.counters.bad_size += 1;
            return;
        };
        if self.random.random_bool(self.loss) {
            self.counters.lost += 1;
            return;
        }
        let ip_bytes = frame.len() - ETHERNET_HEADER_BYTES;
        let Some(passed) = self.queue.pass(self.last_arrival, ip_bytes) else {
            self.counters.queue_dropped += 1;
            return;
        };
        self.under_way.push(Reverse(Delayed {
            until: passed + self.spread.mul_f64(self.random.random()),
            number: self.counters.received,
            frame: frame.to_vec(),
        }));
    }

    /// When the next frame leaves.
    pub fn next(&self) -> Option<Instant> {
        let Reverse(first) = self.under_way.peek()?;
        Some(first.until + self.delay)
    }

    /// The next frame, if it has to leave by now.
    pub fn leave(&mut self, now: Instant) -> Option<Vec<u8>> {
        if self.next()? > now {
            return None;
        }
        let Reverse(first) = self.under_way.pop()?;
        Some(first.frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: [u8; 1014] = [0; 1014];

    /// A direction with the time of its start. At 1 Mbit/s a packet of 1000 bytes takes 8 ms.
    fn direction(spec: &str) -> (Direction, Instant) {
        let start = Instant::now();
        let mut random = StdRng::seed_from_u64(1);
        let spec = spec.parse().unwrap();
        (Direction::new(&spec, &mut random, start), start)
    }

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    /// When everything under way leaves, in milliseconds after the start.
    fn departures(direction: &mut Direction, start: Instant) -> Vec<u128> {
        let mut all = Vec::new();
        while let Some(next) = direction.next() {
            assert!(direction.leave(next - Duration::from_nanos(1)).is_none());
            assert!(direction.leave(next).is_some());
            all.push((next - start).as_millis());
        }
        all
    }

    #[test]
    fn frames_leave_one_after_the_other_at_the_rate_of_their_ip_bytes() {
        let (mut link, start) = direction("rate=1mbit,delay=100ms");
        for at in [0, 0, 0, 50] {
            link.take(Some(&FRAME), start + ms(at));
        }
        link.take(Some(&FRAME[..514]), start + ms(50));
        assert_eq!(departures(&mut link, start), [108, 116, 124, 158, 162]);
    }

    #[test]
    fn a_full_queue_drops_and_the_frame_being_sent_is_not_in_it() {
        let (mut link, start) = direction("rate=1mbit,queue=2");
        for at in [0, 0, 0, 0, 7, 8, 8] {
            link.take(Some(&FRAME), start + ms(at));
        }
        assert_eq!(departures(&mut link, start), [8, 16, 24, 32]);
        assert_eq!((link.counters.received, link.counters.queue_dropped), (7, 3));
    }

    #[test]
    fn a_frame_that_comes_earlier_than_the_one_before_comes_with_it() {
        let (mut link, start) = direction("rate=1mbit,queue=1");
        for at in [20, 10, 9] {
            link.take(Some(&FRAME), start + ms(at));
        }
        assert_eq!(departures(&mut link, start), [28, 36]);
    }

    #[test]
    fn frames_are_lost_as_often_as_asked_and_take_no_time_of_the_line() {
        let (mut link, start) = direction("rate=1mbit,loss=25%,queue=10000");
        for _ in 0..10_000 {
            link.take(Some(&FRAME), start);
        }
        let lost = link.counters.lost;
        assert!((2_400..2_600).contains(&lost), "{lost}");
        let left = departures(&mut link, start);
        assert_eq!(left.last(), Some(&(u128::from(10_000 - lost) * 8)));
    }

    #[test]
    fn jitter_is_uniform_about_the_delay_and_frames_overtake_each_other() {
        let (mut link, start) = direction("rate=1gbit,delay=50ms,jitter=20ms");
        let mut delays = Vec::new();
        for number in 0..1_000 {
            let at = start + ms(100) * number;
            link.take(Some(&FRAME), at);
            delays.extend(departures(&mut link, at));
        }
        assert!(delays.iter().all(|delay| (30..=70).contains(delay)));
        let mean = delays.iter().sum::<u128>() / 1_000;
        assert!((48..=51).contains(&mean), "{mean}");

        for length in 15..65 {
            link.take(Some(&FRAME[..length]), start + ms(200_000));
        }
        let last = start + ms(300_000);
        let order: Vec<_> = std::iter::from_fn(|| link.leave(last).map(|frame| frame.len())).collect();
        assert_eq!(order.len(), 50);
        assert!(!order.is_sorted());
    }

    #[test]
    fn another_delay_is_that_of_the_frames_under_way_as_well() {
        let (mut link, start) = direction("rate=1mbit,delay=100ms");
        link.take(Some(&FRAME), start);
        link.set_delay(ms(10)).unwrap();
        link.take(Some(&FRAME), start);
        assert_eq!(departures(&mut link, start), [18, 26]);

        let (mut link, _) = direction("rate=1mbit,delay=10ms,jitter=1ms");
        assert!(link.set_delay(ms(20)).is_err());
    }

    #[test]
    fn what_is_no_frame_is_counted_and_goes_no_further() {
        let (mut link, start) = direction("rate=1mbit");
        for frame in [None, Some(&FRAME[..13])] {
            link.take(frame, start);
        }
        assert_eq!((link.counters.received, link.counters.bad_size), (2, 2));
        assert!(link.next().is_none());
    }
}
