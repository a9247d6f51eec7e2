//! Cookies bound to a client's address (RFC 8803 section 6.2.7).

use std::fmt;
use std::hint::black_box;
use std::net::IpAddr;

use siphasher::sip128::SipHasher24;

use crate::host::mapped;

pub const COOKIE_LENGTH: usize = 16;
pub const SECRET_LENGTH: usize = 16;

/// The secrets that cookies are made with. As in RFC 7413 section 4.1.2 a cookie is a keyed
/// function of the client's IP address alone, so the converter keeps nothing per client, and
/// changing the secret now and then ends the life of cookies.
#[derive(Clone)]
pub struct CookieKeys {
    current: [u8; SECRET_LENGTH],
    previous: [u8; SECRET_LENGTH],
}

impl CookieKeys {
    /// Makes cookies with this secret, which must be random.
    pub fn new(secret: [u8; SECRET_LENGTH]) -> Self {
        Self {
            current: secret,
            previous: secret,
        }
    }

    /// Makes cookies with a new secret from now on. Cookies of the secret before it stay good
    /// until the next call, older ones do not.
    pub fn rotate(&mut self, secret: [u8; SECRET_LENGTH]) {
        self.previous = std::mem::replace(&mut self.current, secret);
    }

    /// Returns the cookie of the client at this address. An IPv4 address and its IPv4-mapped form
    /// have the same.
    pub fn make(&self, client: IpAddr) -> [u8; COOKIE_LENGTH] {
        cookie(&self.current, client)
    }

    /// Whether `offered` is a cookie of the client at this address. The time this takes does not
    /// depend on the content of `offered`.
    pub fn check(&self, client: IpAddr, offered: &[u8]) -> bool {
        let current = equal(&cookie(&self.current, client), offered);
        let previous = equal(&cookie(&self.previous, client), offered);
        current | previous
    }
}

impl fmt::Debug for CookieKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CookieKeys(..)")
    }
}

fn cookie(secret: &[u8; SECRET_LENGTH], client: IpAddr) -> [u8; COOKIE_LENGTH] {
    SipHasher24::new_with_key(secret)
        .hash(&mapped(client).octets())
        .as_bytes()
}

/// Compares without leaving early; `black_box` keeps the compiler from doing so.
fn equal(expected: &[u8; COOKIE_LENGTH], offered: &[u8]) -> bool {
    if offered.len() != COOKIE_LENGTH {
        return false;
    }
    let difference = expected
        .iter()
        .zip(offered)
        .fold(0, |sum, (a, b)| black_box(sum | (a ^ b)));
    difference == 0
}
