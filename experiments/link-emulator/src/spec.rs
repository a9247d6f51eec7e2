//! The description of one direction of the link: `rate=100mbit,delay=5ms,jitter=0ms,loss=0.5%,queue=100`, or with
//! `trace=FILE` in place of the rate.

use std::str::FromStr;
use std::time::Duration;

use crate::trace::Trace;

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
    fn set(&mut self, item: &str) -> Result<(), String> {
        let (key, value) = item
            .split_once('=')
            .ok_or_else(|| format!("{item:?} is not of the form key=value"))?;
        let repeated = match key {
            "rate" => self.rate.replace(rate(value)?).is_some(),
            "trace" => self.trace.replace(trace(value)?).is_some(),
            "delay" => self.delay.replace(time("delay", value)?).is_some(),
            "jitter" => self.jitter.replace(time("jitter", value)?).is_some(),
            "loss" => self.loss.replace(loss(value)?).is_some(),
            "queue" => self.queue.replace(queue(value)?).is_some(),
            _ => {
                return Err(format!(
                    "unknown key {key:?}: accepted are rate, trace, delay, jitter, loss, queue"
                ));
            }
        };
        if repeated {
            return Err(format!("key {key:?} is given twice"));
        }
        Ok(())
    }

    fn capacity(&mut self) -> Result<Capacity, String> {
        match (self.rate.take(), self.trace.take()) {
            (Some(rate), None) => Ok(Capacity::Rate(rate)),
            (None, Some(trace)) => Ok(Capacity::Trace(trace)),
            (None, None) => Err(format!(
                "key \"rate\" is missing: accepted is {RATE_FORM}; or a key \"trace\""
            )),
            (Some(_), Some(_)) => Err("keys \"rate\" and \"trace\" are both given: accepted is one of them".into()),
        }
    }
}

impl FromStr for Spec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
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
            let accepted = format!("at most the delay, {:?}", spec.delay);
            let jitter = format!("{:?}", spec.jitter);
            return Err(format!("key \"jitter\" has value {jitter}: accepted is {accepted}"));
        }
        Ok(spec)
    }
}

/// New delays of both directions, such as `10ms,20ms`.
pub fn delays(text: &str) -> Result<[Duration; 2], String> {
    let (there, back) = text
        .split_once(',')
        .ok_or_else(|| bad_value("delay", text, "two with a comma between them"))?;
    Ok([time("delay", there)?, time("delay", back)?])
}

fn rate(value: &str) -> Result<u64, String> {
    with_unit(value, RATE_UNITS)
        .map(f64::round)
        .filter(|bps| (1.0..=MAX_RATE).contains(bps))
        .map(|bps| bps as u64)
        .ok_or_else(|| bad_value("rate", value, RATE_FORM))
}

fn trace(path: &str) -> Result<Trace, String> {
    Trace::read(path).map_err(|error| format!("key \"trace\" has value {path:?}: {error}"))
}

fn time(key: &str, value: &str) -> Result<Duration, String> {
    with_unit(value, TIME_UNITS)
        .filter(|ns| *ns <= MAX_TIME_NS)
        .map(|ns| Duration::from_nanos(ns.round() as u64))
        .ok_or_else(|| bad_value(key, value, TIME_FORM))
}

fn loss(value: &str) -> Result<f64, String> {
    with_unit(value, &[("%", 0.01)])
        .filter(|probability| *probability <= 1.0)
        .ok_or_else(|| bad_value("loss", value, LOSS_FORM))
}

fn queue(value: &str) -> Result<usize, String> {
    number(value)
        .and_then(|_| value.parse().ok())
        .filter(|packets| (1..=MAX_QUEUE).contains(packets))
        .ok_or_else(|| bad_value("queue", value, QUEUE_FORM))
}

fn bad_value(key: &str, value: &str, accepted: &str) -> String {
    format!("key {key:?} has value {value:?}: accepted is {accepted}")
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
    (digits(whole) && digits(fraction)).then(|| text.parse().ok()).flatten()
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
            ("rate", ",100,mbit,0mbit,0.1bit,101gbit,-1mbit,+1mbit,1e3bit,1 mbit"),
            ("rate", "1Mbit,1mbps,.5mbit,1.mbit,1.2.3mbit,infbit,nanbit"),
            ("delay", ",5,ms,-5ms,61s,5m,5 ms,5ns"),
            ("jitter", ",0,-1ms,61s"),
            ("loss", ",1,-1%,100.1%,%,0.5 %"),
            ("queue", ",0,-1,+1,1.5,100p,1000001,99999999999999999999"),
        ] {
            for value in values.split(',') {
                let refusal = format!("{key}={value}").parse::<Spec>().unwrap_err();
                let start = format!("key {key:?} has value {value:?}: accepted is ");
                assert!(refusal.starts_with(&start), "{refusal}");
            }
        }
    }

    #[test]
    fn malformed_lists_are_refused() {
        for (text, refusal) in [
            ("", "\"\" is not of the form key=value"),
            ("rate=1mbit,", "\"\" is not of the form key=value"),
            ("rate=1mbit,,queue=1", "\"\" is not of the form key=value"),
            ("rate", "\"rate\" is not of the form key=value"),
            ("rate=1mbit,mtu=9", "unknown key \"mtu\": accepted are rate, "),
            ("rate=1mbit, loss=1%", "unknown key \" loss\""),
            ("Rate=1mbit", "unknown key \"Rate\""),
            ("rate=1mbit,rate=2mbit", "key \"rate\" is given twice"),
            ("delay=5ms", "key \"rate\" is missing: accepted is 1bit to"),
            (
                "rate=1mbit,delay=1ms,jitter=2ms",
                "key \"jitter\" has value 2ms: accepted is at most the delay, 1ms",
            ),
            (
                "trace=/no/such",
                "key \"trace\" has value \"/no/such\": the file cannot be read: ",
            ),
        ] {
            let found = text.parse::<Spec>().unwrap_err();
            assert!(found.starts_with(refusal), "{text}: {found}");
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
        let refusal = "keys \"rate\" and \"trace\" are both given: accepted is one of them";
        assert_eq!(both, Err(refusal.into()));
    }
}
