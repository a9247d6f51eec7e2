//! Feeds a parser one case in every way that a network can: whole, cut after every byte, and with
//! other data behind it.

use std::fmt::Debug;

/// What may follow a message; the parser must leave it alone.
const TRAILING: [&[u8]; 4] = [b"\0", b"\xff\xff\xff\xff", b"GET / HTTP/1.1\r\n\r\n", &[1; 2000]];

/// Checks that `bytes` give `value` and are all consumed, that no shorter prefix gives anything,
/// and that data behind them changes nothing.
pub fn accepts<T, E>(parse: impl Fn(&[u8]) -> Result<Option<(T, usize)>, E>, bytes: &[u8], value: &T)
where
    T: Debug + PartialEq,
    E: Debug + PartialEq,
{
    for cut in 0..bytes.len() {
        assert_eq!(parse(&bytes[..cut]), Ok(None), "after {cut} bytes of {bytes:02x?}");
    }
    for trailing in TRAILING.into_iter().chain([b"".as_slice()]) {
        let (parsed, consumed) = parse(&[bytes, trailing].concat())
            .unwrap_or_else(|error| panic!("{bytes:02x?}: {error:?}"))
            .unwrap_or_else(|| panic!("{bytes:02x?}: wants more"));
        assert_eq!((&parsed, consumed), (value, bytes.len()), "{bytes:02x?}");
    }
}

/// Checks that `bytes` are refused with `error` from the moment that `needed` of them are there,
/// not before, and whatever follows.
pub fn refuses<T, E>(parse: impl Fn(&[u8]) -> Result<Option<(T, usize)>, E>, bytes: &[u8], needed: usize, error: &E)
where
    T: Debug + PartialEq,
    E: Debug + PartialEq,
{
    for cut in 0..needed {
        assert_eq!(parse(&bytes[..cut]), Ok(None), "after {cut} bytes of {bytes:02x?}");
    }
    for cut in needed..=bytes.len() {
        let refused = parse(&bytes[..cut]).expect_err("a fault");
        assert_eq!(&refused, error, "after {cut} bytes of {bytes:02x?}");
    }
    for trailing in TRAILING {
        let refused = parse(&[bytes, trailing].concat()).expect_err("a fault");
        assert_eq!(&refused, error, "{bytes:02x?}");
    }
}
