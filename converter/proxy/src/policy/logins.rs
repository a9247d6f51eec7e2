//! Limits how often passwords are guessed.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Of one client: so many wrong ones at once, then one in each pause.
const BY_CLIENT: Allowance = Allowance {
    at_once: 5,
    pause: Duration::from_secs(30),
};
/// Of all clients together.
const IN_ALL: Allowance = Allowance {
    at_once: 100,
    pause: Duration::from_secs(1),
};

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
    /// By the client's key in limits. There are as few as `IN_ALL` lets in before they are forgotten.
    by_client: HashMap<IpAddr, Instant>,
}

impl WrongLogins {
    /// Whether a login of this client is right; without asking after too many wrong ones.
    pub fn accepts(&self, client: IpAddr, now: Instant, is_right: impl FnOnce() -> bool) -> bool {
        let mut recent = self.0.lock();
        recent.by_client.retain(|_, forgotten| *forgotten > now);
        let of_client = BY_CLIENT.one_more(recent.by_client.get(&client).copied(), now);
        let (Some(of_client), Some(in_all)) = (of_client, IN_ALL.one_more(recent.in_all, now)) else {
            return false;
        };
        let accepted = is_right();
        if !accepted {
            recent.in_all = Some(in_all);
            recent.by_client.insert(client, of_client);
        }
        accepted
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
            assert!(!logins.accepts(ip(1), now, || false));
        }
        assert!(!logins.accepts(ip(1), now, || unreachable!("compared")));
        assert!(logins.accepts(ip(2), now, || true));
        let later = now + BY_CLIENT.pause;
        assert!(!logins.accepts(ip(1), later, || false));
        assert!(!logins.accepts(ip(1), later, || unreachable!("compared")));
        let later = later + BY_CLIENT.pause;
        for _ in 0..9 {
            assert!(logins.accepts(ip(1), later, || true), "it is not charged");
        }
    }

    #[test]
    fn all_clients_together_guess_no_faster_either_and_are_forgotten() {
        let (logins, now) = (WrongLogins::default(), Instant::now());
        for number in 0..IN_ALL.at_once {
            assert!(!logins.accepts(ip(number), now, || false));
        }
        assert!(!logins.accepts(ip(1000), now, || unreachable!("compared")));
        assert!(logins.accepts(ip(1000), now + IN_ALL.pause, || true));
        assert_eq!(logins.0.lock().by_client.len(), 100);
        assert!(logins.accepts(ip(1000), now + BY_CLIENT.pause, || true));
        assert!(logins.0.lock().by_client.is_empty());
    }
}
