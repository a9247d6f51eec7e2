//! The description of one direction of the link: `rate=100mbit,delay=5ms,jitter=0ms,loss=0.5%,queue=100`, or with
//! `trace=FILE` in place of the rate.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::trace::{Trace, TraceError};

const RATE_UNITS: &[(&str, f64)] = &[("gbit", 1e9), ("mbit", 1e6), ("kbit", 1e3), ("bit", 1.0)];
const TIME_UNITS: &[(&str, f64)] = &[("us", 1e3), ("ms", 1e6), ("s", 1e9)];

const RATE_FORM: &str = "1bit to 100gbit: a number and bit, kbit, mbit or gbit (per second)";
const TIME_FORM: &str = "0ms to 60s: a number and us, ms or s";
const LOSS_FORM: &str = "0% to 100%: a number and %";
const QUEUE_FORM: &str = "1 to 1000000: a whole number of packets";

const MAX_RATE: f64 = 100e9;
const MAX_TIME_NS: f64 = 60e9;
const MAX_QUEUE: usize = 1_000_000;
const DEFAULT_QUEUE: usize = 100;

/// How much one direction carries.
#[derive(Clone, Debug, PartialEq)]
pub enum Capacity {
    /// Bits per second, counted at the network layer.
    Rate(u64),
    Trace(Trace),
}

/// What one direction does to the frames that cross it.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    pub capacity: Capacity,
    pub delay: Duration,
    /// Each frame's delay is uniform in `delay - jitter ..= delay + jitter`.
    pub jitter: Duration,
    /// Probability from 0 to 1 that a frame is lost before it reaches the queue.
    pub loss: f64,
    /// Frames that wait for the rate or the trace; the one being sent is not counted.
    pub queue_packets: usize,
}

#[derive(Debug, PartialEq)]
pub enum SpecError {
    NotAPair(String),
    UnknownKey(String),
    Repeated(String),
    BadValue {
        key: &'static str,
        value: String,
        accepted: &'static str,
    },
    BadTrace {
        path: String,
        error: TraceError,
    },
    CapacityMissing,
    TwoCapacities,
    JitterExceedsDelay {
        jitter: Duration,
        delay: Duration,
    },
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAPair(item) => write!(f, "{item:?} is not of the form key=value"),
            Self::UnknownKey(key) => write!(
                f,
                "unknown key {key:?}: accepted are rate, trace, delay, jitter, loss, queue"
            ),
            Self::Repeated(key) => write!(f, "key {key:?} is given twice"),
            Self::BadValue {
                key,
                value,
                accepted,
            } => write!(f, "key {key:?} has value {value:?}: accepted is {accepted}"),
            Self::BadTrace { path, error } => {
                write!(f, "key \"trace\" has value {path:?}: {error}")
            }
            Self::CapacityMissing => write!(
                f,
                "key \"rate\" is missing: accepted is {RATE_FORM}; or a key \"trace\""
            ),
            Self::TwoCapacities => write!(
                f,
                "keys \"rate\" and \"trace\" are both given: accepted is one of them"
            ),
            Self::JitterExceedsDelay { jitter, delay } => write!(
                f,
                "key \"jitter\" has value {jitter:?}: accepted is at most the delay, {delay:?}"
            ),
        }
    }
}

impl std::error::Error for SpecError {}

#[derive(Default)]
struct Fields {
    rate: Option<u64>,
    trace: Option<Trace>,
    delay: Option<Duration>,
    jitter: Option<Duration>,
    loss: Option<f64>,
    queue: Option<usize>,
}

impl Fields {
    fn set(&mut self, item: &str) -> Result<(), SpecError> {
        let (key, value) = item
            .split_once('=')
            .ok_or_else(|| SpecError::NotAPair(item.to_owned()))?;
        let repeated = match key {
            "rate" => self.rate.replace(rate(value)?).is_some(),
            "trace" => self.trace.replace(trace(value)?).is_some(),
            "delay" => self.delay.replace(time("delay", value)?).is_some(),
            "jitter" => self.jitter.replace(time("jitter", value)?).is_some(),
            "loss" => self.loss.replace(loss(value)?).is_some(),
            "queue" => self.queue.replace(queue(value)?).is_some(),
            _ => return Err(SpecError::UnknownKey(key.to_owned())),
        };
        if repeated {
            return Err(SpecError::Repeated(key.to_owned()));
        }
        Ok(())
    }

    fn capacity(&mut self) -> Result<Capacity, SpecError> {
        match (self.rate.take(), self.trace.take()) {
            (Some(rate), None) => Ok(Capacity::Rate(rate)),
            (None, Some(trace)) => Ok(Capacity::Trace(trace)),
            (None, None) => Err(SpecError::CapacityMissing),
            (Some(_), Some(_)) => Err(SpecError::TwoCapacities),
        }
    }
}

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let mut fields = Fields::default();
        for item in text.split(',') {
            fields.set(item)?;
        }
        let spec = Self {
            capacity: fields.capacity()?,
            delay: fields.delay.unwrap_or_default(),
            jitter: fields.jitter.unwrap_or_default(),
            loss: fields.loss.unwrap_or_default(),
            queue_packets: fields.queue.unwrap_or(DEFAULT_QUEUE),
        };
        if spec.jitter > spec.delay {
            return Err(SpecError::JitterExceedsDelay {
                jitter: spec.jitter,
                delay: spec.delay,
            });
        }
        Ok(spec)
    }
}

/// New delays of both directions, such as `10ms,20ms`.
pub fn delays(text: &str) -> Result<[Duration; 2], SpecError> {
    let (there, back) = text
        .split_once(',')
        .ok_or_else(|| bad_value("delay", text, "two with a comma between them"))?;
    Ok([time("delay", there)?, time("delay", back)?])
}

fn rate(value: &str) -> Result<u64, SpecError> {
    with_unit(value, RATE_UNITS)
        .map(f64::round)
        .filter(|bps| (1.0..=MAX_RATE).contains(bps))
        .map(|bps| bps as u64)
        .ok_or_else(|| bad_value("rate", value, RATE_FORM))
}

fn trace(path: &str) -> Result<Trace, SpecError> {
    Trace::read(path).map_err(|error| SpecError::BadTrace {
        path: path.to_owned(),
        error,
    })
}

fn time(key: &'static str, value: &str) -> Result<Duration, SpecError> {
    with_unit(value, TIME_UNITS)
        .filter(|ns| *ns <= MAX_TIME_NS)
        .map(|ns| Duration::from_nanos(ns.round() as u64))
        .ok_or_else(|| bad_value(key, value, TIME_FORM))
}

fn loss(value: &str) -> Result<f64, SpecError> {
    with_unit(value, &[("%", 0.01)])
        .filter(|probability| *probability <= 1.0)
        .ok_or_else(|| bad_value("loss", value, LOSS_FORM))
}

fn queue(value: &str) -> Result<usize, SpecError> {
    number(value)
        .and_then(|_| value.parse().ok())
        .filter(|packets| (1..=MAX_QUEUE).contains(packets))
        .ok_or_else(|| bad_value("queue", value, QUEUE_FORM))
}

fn bad_value(key: &'static str, value: &str, accepted: &'static str) -> SpecError {
    SpecError::BadValue {
        key,
        value: value.to_owned(),
        accepted,
    }
}

/// The number before the unit times the unit's size. The first unit that leaves a plain number wins, so `s` does not match `5ms`.
fn with_unit(value: &str, units: &[(&str, f64)]) -> Option<f64> {
    units
        .iter()
        .find_map(|(unit, size)| Some(number(value.strip_suffix(unit)?)? * size))
}

/// Digits with at most one point inside: what `f64` accepts beyond that (signs, `1e3`, `inf`) is no way to write a quantity.
fn number(text: &str) -> Option<f64> {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    (digits(whole) && digits(fraction))
        .then(|| text.parse().ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(rate_bps: u64) -> Spec {
        Spec {
            capacity: Capacity::Rate(rate_bps),
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            loss: 0.0,
            queue_packets: 100,
        }
    }

    #[test]
    fn new_delays_are_two_with_a_comma() {
        let both = [Duration::from_millis(10), Duration::ZERO];
        assert_eq!(delays("10ms,0s"), Ok(both));
        for wrong in ["", "10ms", "10,20", "10ms,", "10ms,61s", "1ms,2ms,3ms"] {
            assert!(delays(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_key_is_read() {
        let text = "rate=100mbit,delay=5ms,jitter=1ms,loss=0.5%,queue=50";
        let want = Spec {
            delay: Duration::from_millis(5),
            jitter: Duration::from_millis(1),
            loss: 0.005,
            queue_packets: 50,
            ..spec(100_000_000)
        };
        assert_eq!(text.parse(), Ok(want));
    }

    #[test]
    fn keys_come_in_any_order_and_only_the_rate_is_mandatory() {
        let want = Spec {
            queue_packets: 7,
            ..spec(1_000_000)
        };
        assert_eq!("queue=7,rate=1mbit".parse(), Ok(want));
        assert_eq!("rate=1mbit".parse(), Ok(spec(1_000_000)));
    }

    #[test]
    fn rates_have_four_units() {
        for (text, bps) in [
            ("rate=1bit", 1),
            ("rate=64kbit", 64_000),
            ("rate=1.5mbit", 1_500_000),
            ("rate=0.2gbit", 200_000_000),
            ("rate=100gbit", 100_000_000_000),
        ] {
            assert_eq!(text.parse(), Ok(spec(bps)), "{text}");
        }
    }

    #[test]
    fn times_have_three_units() {
        for (text, want) in [
            ("0us", Duration::ZERO),
            ("250us", Duration::from_micros(250)),
            ("0.5ms", Duration::from_micros(500)),
            ("12.5ms", Duration::from_micros(12_500)),
            ("60s", Duration::from_secs(60)),
        ] {
            assert_eq!(time("delay", text), Ok(want), "{text}");
        }
    }

    #[test]
    fn jitter_may_equal_the_delay() {
        let spec: Spec = "rate=1mbit,delay=5ms,jitter=5000us".parse().unwrap();
        assert_eq!(spec.jitter, spec.delay);
    }

    #[test]
    fn loss_is_a_percentage() {
        assert_eq!(loss("0%"), Ok(0.0));
        assert_eq!(loss("50%"), Ok(0.5));
        assert_eq!(loss("100%"), Ok(1.0));
    }

    #[test]
    fn values_out_of_form_or_range_are_refused_with_their_key() {
        for (key, values) in [
            (
                "rate",
                &[
                    "",
                    "100",
                    "mbit",
                    "0mbit",
                    "0.1bit",
                    "101gbit",
                    "-1mbit",
                    "+1mbit",
                    "1e3bit",
                    "1 mbit",
                    "1Mbit",
                    "1mbps",
                    ".5mbit",
                    "1.mbit",
                    "1.2.3mbit",
                    "infbit",
                    "nanbit",
                ][..],
            ),
            (
                "delay",
                &["", "5", "ms", "-5ms", "61s", "5m", "5 ms", "5ns"],
            ),
            ("jitter", &["", "0", "-1ms", "61s"]),
            ("loss", &["", "1", "-1%", "100.1%", "%", "0.5 %"]),
            (
                "queue",
                &[
                    "",
                    "0",
                    "-1",
                    "+1",
                    "1.5",
                    "100p",
                    "1000001",
                    "99999999999999999999",
                ],
            ),
        ] {
            for value in values {
                let error = format!("rate=1mbit,{key}={value}")
                    .replace("rate=1mbit,rate", "rate")
                    .parse::<Spec>()
                    .unwrap_err();
                let message = error.to_string();
                assert!(matches!(error, SpecError::BadValue { .. }), "{key}={value}");
                assert!(message.starts_with(&format!("key {key:?} has value {value:?}: ")));
            }
        }
    }

    #[test]
    fn malformed_lists_are_refused() {
        for (text, want) in [
            ("", SpecError::NotAPair("".into())),
            ("rate=1mbit,", SpecError::NotAPair("".into())),
            ("rate=1mbit,,queue=1", SpecError::NotAPair("".into())),
            ("rate", SpecError::NotAPair("rate".into())),
            ("rate=1mbit,mtu=9", SpecError::UnknownKey("mtu".into())),
            ("rate=1mbit, loss=1%", SpecError::UnknownKey(" loss".into())),
            ("Rate=1mbit", SpecError::UnknownKey("Rate".into())),
            ("rate=1mbit,rate=2mbit", SpecError::Repeated("rate".into())),
            ("delay=5ms", SpecError::CapacityMissing),
        ] {
            assert_eq!(text.parse::<Spec>(), Err(want), "{text}");
        }
    }

    #[test]
    fn a_trace_takes_the_place_of_the_rate() {
        let file = std::env::temp_dir().join(format!("link-emulator-{}", std::process::id()));
        std::fs::write(&file, "1\n2\n").unwrap();
        let text = format!("trace={},queue=7", file.display());
        let both = format!("{text},rate=1mbit").parse::<Spec>();
        let alone = text.parse();
        std::fs::remove_file(&file).unwrap();
        let want = Spec {
            capacity: Capacity::Trace("1\n2\n".parse().unwrap()),
            queue_packets: 7,
            ..spec(1)
        };
        assert_eq!(alone, Ok(want));
        assert_eq!(both, Err(SpecError::TwoCapacities));
    }

    #[test]
    fn a_trace_that_cannot_be_read_is_refused_with_its_file() {
        let message = "trace=/no/such".parse::<Spec>().unwrap_err().to_string();
        let want = "key \"trace\" has value \"/no/such\": the file cannot be read: ";
        assert!(message.starts_with(want), "{message}");
    }

    #[test]
    fn jitter_above_the_delay_is_refused() {
        let error = "rate=1mbit,delay=1ms,jitter=2ms"
            .parse::<Spec>()
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "key \"jitter\" has value 2ms: accepted is at most the delay, 1ms"
        );
    }
}
