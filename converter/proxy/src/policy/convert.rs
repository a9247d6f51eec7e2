//! The secrets behind Convert's cookies (RFC 8803 section 6.2.7), new ones every hour.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::rand::{GetRandomFlags, getrandom};
use tributary_proto::convert::{CookieKeys, SECRET_LENGTH};

use crate::config::Gateway;

/// A cookie is good for one to two of these.
const LIFE: Duration = Duration::from_secs(3600);

/// Makes and checks cookies for all threads.
#[derive(Debug)]
pub struct Cookies(Mutex<(CookieKeys, Instant)>);

impl Cookies {
    /// Raises what getrandom(2) does.
    pub fn new() -> io::Result<Self> {
        Ok(Self(Mutex::new((CookieKeys::new(secret()?), Instant::now()))))
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
        self.keys_at(Instant::now(), action)
    }

    fn keys_at<T>(&self, now: Instant, action: impl FnOnce(&CookieKeys) -> T) -> T {
        let mut held = self.0.lock();
        let (keys, since) = &mut *held;
        // Nobody may have come for days: of two lives that are over no secret stays.
        let latest = now.checked_sub(2 * LIFE).unwrap_or(*since);
        *since = latest.max(*since);
        while now.saturating_duration_since(*since) >= LIFE {
            // Without a new secret the old one goes on.
            let Ok(secret) = secret() else {
                break;
            };
            keys.rotate(secret);
            *since += LIFE;
        }
        action(keys)
    }
}

fn secret() -> io::Result<[u8; SECRET_LENGTH]> {
    let mut secret = [0; SECRET_LENGTH];
    // A read of 256 bytes or less is whole (getrandom(2)).
    getrandom(&mut secret, GetRandomFlags::empty())?;
    Ok(secret)
}

/// Whether the client at this address may name the converters `source_route`: it is one of the operator's converters itself, and
/// so are all that it names. Everybody else would have this machine connect wherever they like.
pub fn may_name(client: IpAddr, source_route: &[SocketAddr], gateway: Option<&Gateway>) -> bool {
    let own = gateway.map_or(&[][..], |gateway| &gateway.converters);
    let is_own = |address: IpAddr| {
        let address = address.to_canonical();
        own.iter().any(|network| network.contains(&address))
    };
    is_own(client) && source_route.iter().all(|converter| is_own(converter.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    #[test]
    fn a_cookie_is_good_for_one_to_two_lives_though_nobody_came_meanwhile() {
        let client = "192.0.2.1".parse().expect("address");
        for (made, shown, expected) in [
            (1, 61, true),
            (59, 119, true),
            (59, 121, false),
            (1, 121, false),
            (1, 2 * 24 * 60, false),
        ] {
            let cookies = Cookies::new().expect("random numbers");
            let begun = cookies.0.lock().1;
            let after = |minutes: u64| begun + Duration::from_secs(60 * minutes);
            let cookie = cookies.keys_at(after(made), |keys| keys.make(client));
            let is_good = cookies.keys_at(after(shown), |keys| keys.check(client, &cookie));
            assert_eq!(is_good, expected, "{made} {shown}");
        }
    }

    #[test]
    fn converters_alone_name_converters() {
        let text = "[gateway]\nconverters = [\"10.9.0.0/16\", \"2001:db8:9::/48\"]";
        let config = config::parse(text, "c.toml").expect(text);
        for (client, source_route, expected) in [
            ("10.9.0.1", &["10.9.1.1:1", "[2001:db8:9::1]:1"][..], true),
            ("::ffff:10.9.0.1", &["10.9.1.1:1"], true),
            ("10.9.0.1", &[], true),
            ("10.8.0.1", &[], false),
            ("10.9.0.1", &["10.9.1.1:1", "10.8.0.1:1"], false),
            ("10.9.0.1", &["[::ffff:10.8.0.1]:1"], false),
        ] {
            let client = client.parse().expect("address");
            let source_route: Vec<_> = source_route.iter().map(|each| each.parse().expect("one")).collect();
            let allowed = may_name(client, &source_route, config.gateway.as_ref());
            assert_eq!(allowed, expected, "{client} {source_route:?}");
            assert!(!may_name(client, &source_route, None));
        }
    }
}
