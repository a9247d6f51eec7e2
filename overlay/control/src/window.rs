//! The last round-trip times to a peer, and the delay that follows from them.

use std::collections::VecDeque;

use crate::schema::Delay;

/// Queues and busy processors only add to a delay, so the minimum of these counts.
const SAMPLES: usize = 5;
/// With fewer samples the delay is unknown.
const ENOUGH: usize = 3;
/// After so many consecutive pings without a reply the peer is silent.
const SILENT_AFTER: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Too few samples yet.
    Unknown,
    Known(Delay),
    /// It no longer answers.
    Silent,
}

#[derive(Clone, Debug, Default)]
pub struct Window {
    samples: VecDeque<Delay>,
    missed: usize,
}

impl Window {
    /// A reply came.
    pub fn heard(&mut self, delay: Delay) {
        self.missed = 0;
        if self.samples.len() == SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back(delay);
    }

    /// No reply came in time.
    pub fn missed(&mut self) {
        self.missed = self.missed.saturating_add(1);
        if self.missed >= SILENT_AFTER {
            self.samples.clear();
        }
    }

    pub fn reading(&self) -> Reading {
        match self.samples.iter().min() {
            _ if self.missed >= SILENT_AFTER => Reading::Silent,
            Some(&least) if self.samples.len() >= ENOUGH => Reading::Known(least),
            _ => Reading::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::ms;

    fn known(milliseconds: u128) -> Reading {
        Reading::Known(ms(milliseconds))
    }

    fn heard(window: &mut Window, milliseconds: u128) -> Reading {
        window.heard(ms(milliseconds));
        window.reading()
    }

    #[test]
    fn the_least_of_the_last_five_counts() {
        let mut window = Window::default();
        assert_eq!(window.reading(), Reading::Unknown);
        let found: Vec<Reading> = [20, 12, 10, 30, 31, 32, 33, 34]
            .iter()
            .map(|&each| heard(&mut window, each))
            .collect();
        let unknown = Reading::Unknown;
        let ten = known(10);
        assert_eq!(found, [unknown, unknown, ten, ten, ten, ten, ten, known(30)]);
    }

    #[test]
    fn three_lost_in_a_row_are_silence_and_what_was_before_is_forgotten() {
        let mut window = Window::default();
        for _ in 0..5 {
            heard(&mut window, 10);
        }
        window.missed();
        window.missed();
        assert_eq!(window.reading(), known(10));
        assert_eq!(heard(&mut window, 11), known(10));
        for _ in 0..3 {
            window.missed();
        }
        assert_eq!(window.reading(), Reading::Silent);
        assert_eq!(heard(&mut window, 40), Reading::Unknown);
        heard(&mut window, 41);
        assert_eq!(heard(&mut window, 42), known(40));
    }
}
