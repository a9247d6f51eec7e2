//! Numbers with units, as in every settings file of Tributary: `"10s"`, `"256KiB"`. A bare number is refused.

use std::time::Duration;

use serde::{Deserialize, Deserializer, de::Error};

const TIMES: &[(&str, u64)] = &[
    ("us", 1),
    ("ms", 1_000),
    ("s", 1_000_000),
    ("m", 60_000_000),
    ("h", 3_600_000_000),
];
const SIZES: &[(&str, u64)] = &[
    ("B", 1),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];

/// The amount that `text` names in units of one, or `None`.
fn amount(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let size = units.iter().find(|(name, _)| *name == unit)?.1;
    number.parse::<u64>().ok()?.checked_mul(size)
}

/// A time above zero, such as `"10s"`.
pub fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    match amount(&text, TIMES) {
        Some(microseconds) if microseconds > 0 => Ok(Duration::from_micros(microseconds)),
        _ => Err(D::Error::custom(
            "accepted: a time above zero with its unit (us, ms, s, m, h), such as \"10s\"",
        )),
    }
}

/// The same where the key may be left out.
pub fn some_time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    time(from).map(Some)
}

/// Bytes above zero, such as `"64MB"`.
pub fn size<'de, D: Deserializer<'de>>(from: D) -> Result<usize, D::Error> {
    let text = String::deserialize(from)?;
    match amount(&text, SIZES).and_then(|bytes| usize::try_from(bytes).ok()) {
        Some(bytes) if bytes > 0 => Ok(bytes),
        _ => Err(D::Error::custom(
            "accepted: a size above zero with its unit (B, kB, MB, GB, KiB, MiB, GiB), such as \"64MB\"",
        )),
    }
}

/// The same where the key may be left out.
pub fn some_size<'de, D: Deserializer<'de>>(from: D) -> Result<Option<usize>, D::Error> {
    size(from).map(Some)
}

/// A number of bytes, perhaps 0.
pub fn bytes(text: &str) -> Option<u64> {
    amount(text, SIZES)
}

/// The same as the value of a key.
pub fn any_bytes<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let text = String::deserialize(from)?;
    let accepted = "accepted: a size with its unit (B, kB, MB, GB, KiB, MiB, GiB), such as \"45kB\"";
    bytes(&text).ok_or_else(|| D::Error::custom(accepted))
}

/// The same where the key may be left out.
pub fn some_bytes<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    any_bytes(from).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_needs_its_unit() {
        for (text, expected) in [
            ("10s", Some(10_000_000)),
            ("250ms", Some(250_000)),
            ("2m", Some(120_000_000)),
            ("10", None),
            ("s", None),
            ("", None),
            ("-1s", None),
            ("1 s", None),
            ("1.5s", None),
            ("10S", None),
            ("99999999999999999h", None),
        ] {
            assert_eq!(amount(text, TIMES), expected, "{text}");
        }
        assert_eq!(amount("64KiB", SIZES), Some(65_536));
        assert_eq!(amount("64MB", SIZES), Some(64_000_000));
    }
}
