//! Limits how often passwords are guessed.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Of one client as one user: so many wrong ones at once, then one in each pause.
const BY_USER: Allowance = Allowance {
    at_once: 5,
    pause: Duration::from_secs(30),
};
/// Of all clients together. It holds for no client's first wrong ones as a user, for as many users as follow: others guess in
/// vain to keep somebody out.
const IN_ALL: Allowance = Allowance {
    at_once: 100,
    pause: Duration::from_secs(1),
};
/// Users of one client, and of all.
const FIRST: usize = 5;
const FIRST_IN_ALL: usize = 1000;

#[derive(Clone, Copy)]
struct Allowance {
    at_once: u32,
    pause: Duration,
}

/// The logins that were wrong of late.
#[derive(Debug, Default)]
pub struct WrongLogins(Mutex<Recent>);

/// Each as the time at which all of them will be forgotten.
#[derive(Debug, Default)]
struct Recent {
    in_all: Option<Instant>,
    /// By the client's key in limits, and the user's name. There are as few as `FIRST_IN_ALL`, and those that `IN_ALL` lets in
    /// before they are forgotten.
    by_user: HashMap<(IpAddr, Vec<u8>), Instant>,
}

impl WrongLogins {
    /// Whether a login of this client as this user is right; without asking after too many wrong ones.
    pub fn accepts(&self, client: IpAddr, user: &[u8], now: Instant, is_right: impl FnOnce() -> bool) -> bool {
        let mut recent = self.0.lock();
        recent.by_user.retain(|_, forgotten| *forgotten > now);
        let key = (client, user.to_owned());
        let of_user = BY_USER.one_more(recent.by_user.get(&key).copied(), now);
        let in_all = IN_ALL.one_more(recent.in_all, now);
        let Some(of_user) = of_user.filter(|_| in_all.is_some() || recent.is_first(&key)) else {
            return false;
        };
        let accepted = is_right();
        if !accepted {
            recent.in_all = in_all.or(recent.in_all);
            recent.by_user.insert(key, of_user);
        }
        accepted
    }
}

impl Recent {
    /// Whether a wrong one would be one of the few that need nothing of what all clients have together.
    fn is_first(&self, key: &(IpAddr, Vec<u8>)) -> bool {
        let of_client = self.by_user.keys().filter(|(client, _)| *client == key.0).count();
        !self.by_user.contains_key(key) && of_client < FIRST && self.by_user.len() < FIRST_IN_ALL
    }
}

impl Allowance {
    /// When all are forgotten with one more wrong login now; `None` if there may be none.
    fn one_more(self, forgotten: Option<Instant>, now: Instant) -> Option<Instant> {
        let then = forgotten.map_or(now, |forgotten| forgotten.max(now)) + self.pause;
        (then - now <= self.pause * self.at_once).then_some(then)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(number: u32) -> IpAddr {
        IpAddr::V4(number.into())
    }

    #[test]
    fn after_five_wrong_logins_a_client_waits_and_others_do_not() {
        let (logins, now) = (WrongLogins::default(), Instant::now());
        for _ in 0..5 {
            assert!(!logins.accepts(ip(1), b"a", now, || false));
        }
        assert!(!logins.accepts(ip(1), b"a", now, || unreachable!("compared")));
        assert!(logins.accepts(ip(2), b"a", now, || true));
        assert!(
            logins.accepts(ip(1), b"b", now, || true),
            "another device behind a router"
        );
        let later = now + BY_USER.pause;
        assert!(!logins.accepts(ip(1), b"a", later, || false));
        assert!(!logins.accepts(ip(1), b"a", later, || unreachable!("compared")));
        let later = later + BY_USER.pause;
        for _ in 0..9 {
            assert!(logins.accepts(ip(1), b"a", later, || true), "it is not charged");
        }
    }

    #[test]
    fn all_clients_together_guess_no_faster_either_and_are_forgotten() {
        let (logins, now) = (WrongLogins::default(), Instant::now());
        for number in 0..IN_ALL.at_once {
            assert!(!logins.accepts(ip(number), b"a", now, || false));
        }
        assert!(!logins.accepts(ip(1), b"a", now, || unreachable!("compared")));
        assert!(logins.accepts(ip(1000), b"a", now, || true), "its first one");
        assert!(logins.accepts(ip(1), b"a", now + IN_ALL.pause, || true));
        for number in IN_ALL.at_once..1000 {
            assert!(!logins.accepts(ip(number), b"a", now, || false));
        }
        assert!(!logins.accepts(ip(1000), b"a", now, || unreachable!("compared")));
        assert_eq!(logins.0.lock().by_user.len(), FIRST_IN_ALL);
        assert!(logins.accepts(ip(1000), b"a", now + BY_USER.pause, || true));
        assert!(logins.0.lock().by_user.is_empty());
    }

    #[test]
    fn a_client_guesses_no_faster_as_many_users() {
        let (logins, now) = (WrongLogins::default(), Instant::now());
        let mut compared = 0_u32;
        for user in 0..1000_u32 {
            logins.accepts(ip(1), &user.to_ne_bytes(), now, || {
                compared += 1;
                false
            });
        }
        assert_eq!(compared, IN_ALL.at_once);
        assert!(logins.accepts(ip(2), b"a", now, || true));
    }
}
