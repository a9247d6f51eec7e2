//! The secrets behind Convert's cookies (RFC 8803 section 6.2.7), new ones every hour.

use std::io;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::rand::{GetRandomFlags, getrandom};
use tributary_wire::convert::{CookieKeys, SECRET_LENGTH};

/// A cookie is good for one to two of these.
const LIFE: Duration = Duration::from_secs(3600);

/// Makes and checks cookies for all threads.
#[derive(Debug)]
pub struct Cookies(Mutex<(CookieKeys, Instant)>);

impl Cookies {
    /// Raises what getrandom(2) does.
    pub fn new() -> io::Result<Self> {
        Ok(Self(Mutex::new((
            CookieKeys::new(secret()?),
            Instant::now(),
        ))))
    }

    /// The cookie of the client at this address.
    pub fn make(&self, client: IpAddr) -> Vec<u8> {
        self.keys(|keys| keys.make(client).to_vec())
    }

    /// Whether it is a cookie of the client at this address.
    pub fn check(&self, client: IpAddr, cookie: &[u8]) -> bool {
        self.keys(|keys| keys.check(client, cookie))
    }

    fn keys<T>(&self, action: impl FnOnce(&CookieKeys) -> T) -> T {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if held.1.elapsed() > LIFE {
            // Without a new secret the old one goes on.
            if let Ok(secret) = secret() {
                held.0.rotate(secret);
                held.1 = Instant::now();
            }
        }
        action(&held.0)
    }
}

fn secret() -> io::Result<[u8; SECRET_LENGTH]> {
    let mut secret = [0; SECRET_LENGTH];
    // A read of 256 bytes or less is whole (getrandom(2)).
    getrandom(&mut secret, GetRandomFlags::empty())?;
    Ok(secret)
}
