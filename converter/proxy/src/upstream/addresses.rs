//! The addresses to try for one target, as they become known.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::time::timeout;
use tributary_proto::host::Host;
use tributary_proto::http::Authority;

use super::dialer::Dialer;
use super::fd_pool::LookUp;
use super::names::{Answer, Answers};
use super::{DialError, DialOptions};
use crate::config::Config;

/// How long an answer with IPv4 addresses waits for one with IPv6 addresses (RFC 8305 section 3).
const RESOLUTION_DELAY: Duration = Duration::from_millis(50);

/// The addresses of one target that may be connected to, in the order in which they are to be tried. Those that are checked
/// are those that are tried: nobody asks for the name a second time.
pub struct Addresses<'a> {
    dialer: &'a Dialer,
    source: Option<SocketAddr>,
    config: &'a Config,
    port: u16,
    untried: Untried,
    answers: Answers,
    /// While answers are waited for.
    look_up: Option<LookUp>,
    /// Those that this machine has no route to, for other converters if there is none to which it has: `None` once there is
    /// one, and where all connections are direct.
    unrouted: Option<VecDeque<SocketAddr>>,
    /// Why the last one of those that may not be connected to may not.
    refused: Option<DialError>,
    names_failed: bool,
}

impl<'a> Addresses<'a> {
    /// Asks for the target's name, if it has one.
    pub async fn of(dialer: &'a Dialer, target: &Authority, options: &DialOptions, config: &'a Config) -> Self {
        let (mut untried, mut answers, mut look_up) = (Untried::default(), Answers::default(), None);
        match &target.host {
            Host::V4(four) => untried.add(vec![(*four).into()]),
            Host::V6(six) => untried.add(vec![(*six).into()]),
            Host::Name(name) => {
                if let Some(known) = dialer.names.in_hosts(name) {
                    untried.add(known);
                } else {
                    look_up = dialer.fd_pool.for_look_up(options.client).await;
                    answers = dialer.names.ask(name);
                }
            }
        }
        Self {
            dialer,
            source: options.source,
            config,
            port: target.port,
            untried,
            answers,
            look_up,
            unrouted: None,
            refused: None,
            names_failed: false,
        }
    }

    /// The same, to be connected to by other converters.
    #[must_use]
    pub fn via_gateway(self) -> Self {
        Self {
            unrouted: Some(VecDeque::new()),
            ..self
        }
    }

    /// The next one to try; waits for a late answer where there is none left. To drop the wait loses nothing.
    pub async fn next(&mut self) -> Option<SocketAddr> {
        loop {
            if self.untried.begins_with_four() && self.answers.lack_six() {
                if let Ok(answer) = timeout(RESOLUTION_DELAY, self.answers.next()).await {
                    self.take(answer);
                }
            }
            let known = self.known();
            if known.is_some() || self.is_last() {
                return known;
            }
            let answer = self.answers.next().await;
            self.take(answer);
        }
    }

    /// The next one of those that are known.
    pub fn known(&mut self) -> Option<SocketAddr> {
        while let Some(address) = self.untried.take() {
            let address = SocketAddr::new(address, self.port);
            let checked = self.check(address, false);
            match (checked, &mut self.unrouted) {
                (Ok(address), unrouted) => {
                    *unrouted = None;
                    return Some(address);
                }
                (Err(DialError::Unreachable(_)), Some(unrouted)) => unrouted.push_back(address),
                (Err(why), _) => self.refused = Some(why),
            }
        }
        self.known_elsewhere()
    }

    /// The next one of those that only other converters may have a route to, once nothing else can come.
    fn known_elsewhere(&mut self) -> Option<SocketAddr> {
        while self.answers.have_come() {
            let address = self.unrouted.as_mut()?.pop_front()?;
            match self.check(address, true) {
                Ok(address) => return Some(address),
                Err(why) => self.refused = Some(why),
            }
        }
        None
    }

    fn check(&self, address: SocketAddr, via_gateway: bool) -> Result<SocketAddr, DialError> {
        self.dialer.check(address, self.source, via_gateway, self.config)
    }

    /// Whether no other one will be known.
    pub fn is_last(&self) -> bool {
        let none_elsewhere = self.unrouted.as_ref().is_none_or(VecDeque::is_empty);
        self.untried.is_empty() && self.answers.have_come() && none_elsewhere
    }

    /// Why there was none to try.
    pub fn error(&mut self) -> DialError {
        let otherwise = if self.names_failed {
            DialError::NamesFailed
        } else {
            DialError::NoSuchName
        };
        self.refused.take().unwrap_or(otherwise)
    }

    fn take(&mut self, answer: Option<Answer>) {
        match answer {
            Some(Ok(found)) => self.untried.add(found),
            Some(Err(_)) => self.names_failed = true,
            None => {}
        }
        if self.answers.have_come() {
            self.look_up = None;
        }
    }
}

/// More addresses than these of one name are not tried.
const MOST: usize = 8;

/// Addresses to try: IPv6 and IPv4 in turn, IPv6 first, each in the order in which it was found.
#[derive(Debug, Default)]
pub struct Untried {
    six: VecDeque<IpAddr>,
    four: VecDeque<IpAddr>,
    /// How many have been taken.
    taken: usize,
    four_is_next: bool,
}

impl Untried {
    /// What was found later joins the others (RFC 8305 section 3).
    pub fn add(&mut self, found: Vec<IpAddr>) {
        let (six, four): (Vec<_>, Vec<_>) = found.into_iter().partition(IpAddr::is_ipv6);
        self.six.extend(six);
        self.four.extend(four);
    }

    pub fn take(&mut self) -> Option<IpAddr> {
        if self.taken == MOST {
            return None;
        }
        let (first, second) = if self.four_is_next {
            (&mut self.four, &mut self.six)
        } else {
            (&mut self.six, &mut self.four)
        };
        let address = first.pop_front().or_else(|| second.pop_front())?;
        self.four_is_next = address.is_ipv6();
        self.taken += 1;
        Some(address)
    }

    pub fn is_empty(&self) -> bool {
        self.taken == MOST || (self.six.is_empty() && self.four.is_empty())
    }

    /// Whether IPv4 would be tried first of all, since there is nothing else.
    pub fn begins_with_four(&self) -> bool {
        self.taken == 0 && self.six.is_empty() && !self.four.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().expect(text)).collect()
    }

    fn all(untried: &mut Untried) -> Vec<IpAddr> {
        std::iter::from_fn(|| untried.take()).collect()
    }

    #[test]
    fn families_take_turns() {
        let mut untried = Untried::default();
        untried.add(of(&["1.0.0.1", "1.0.0.2", "1.0.0.3", "2001:db8::1"]));
        let expected = of(&["2001:db8::1", "1.0.0.1", "1.0.0.2", "1.0.0.3"]);
        assert_eq!(all(&mut untried), expected);
        assert!(untried.is_empty());
    }

    #[test]
    fn what_comes_late_joins_in_turn() {
        let mut untried = Untried::default();
        untried.add(of(&["1.0.0.1", "1.0.0.2", "1.0.0.3"]));
        assert!(untried.begins_with_four());
        assert_eq!(untried.take(), Some(of(&["1.0.0.1"])[0]));
        untried.add(of(&["2001:db8::1", "2001:db8::2"]));
        let expected = of(&["2001:db8::1", "1.0.0.2", "2001:db8::2", "1.0.0.3"]);
        assert_eq!(all(&mut untried), expected);
    }

    #[test]
    fn a_name_has_eight_tries() {
        let mut untried = Untried::default();
        untried.add(vec![IpAddr::from([1, 1, 1, 1]); 100]);
        assert_eq!(all(&mut untried).len(), MOST);
        assert!(untried.is_empty());
    }
}
