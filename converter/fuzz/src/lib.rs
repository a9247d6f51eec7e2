//! What must hold for every incremental parser, whatever bytes it gets.
#![forbid(unsafe_code)]

pub mod http;

use std::fmt::Debug;

/// Checks `parse` on `data` and returns the value, if there is one:
/// - it consumes at least a byte, and no more than there are;
/// - a value needs all the bytes that it consumes, and none behind them;
/// - what a prefix gives, a value or an error, more bytes do not change;
/// - it never asks for more when `most` bytes are there.
///
/// # Panics
/// When one of these does not hold.
pub fn check<T, E>(data: &[u8], most: usize, parse: impl Fn(&[u8]) -> Result<Option<(T, usize)>, E>) -> Option<T>
where
    T: Debug + PartialEq,
    E: Debug + PartialEq,
{
    let parsed = parse(data);
    let early = parse(&data[..cut(data)]);
    if early != Ok(None) {
        assert_eq!(early, parsed, "more bytes changed it");
    }
    if parsed == Ok(None) {
        assert!(data.len() < most, "asks for more than {most} bytes");
    }
    if let Ok(Some((_, consumed))) = parsed {
        assert!(consumed <= data.len(), "consumed {consumed} bytes");
        assert_eq!(parse(&data[..consumed]), parsed, "needs bytes that it leaves");
        assert_eq!(parse(&data[..consumed - 1]), Ok(None), "leaves bytes that it needs");
    }
    parsed.ok().flatten().map(|(value, _)| value)
}

/// Checks that `parse` makes of `bytes` exactly `value`.
///
/// # Panics
/// When it does not.
pub fn survives<T, E>(value: &T, bytes: &[u8], parse: impl Fn(&[u8]) -> Result<Option<(T, usize)>, E>)
where
    T: Debug + PartialEq,
    E: Debug + PartialEq,
{
    match parse(bytes) {
        Ok(Some((parsed, consumed))) => assert_eq!((&parsed, consumed), (value, bytes.len())),
        other => panic!("{value:?} became {other:?}"),
    }
}

/// Returns where to cut `data`: anywhere, by its bytes alone, so that an input can be replayed.
fn cut(data: &[u8]) -> usize {
    let sum = data
        .iter()
        .fold(0_usize, |sum, &byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    sum % (data.len() + 1)
}
