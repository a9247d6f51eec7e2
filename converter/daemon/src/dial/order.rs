//! The order of attempts (RFC 8305 section 4). Pure.

use std::collections::VecDeque;
use std::net::IpAddr;

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

    /// Takes the next one, if there is one.
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

    /// Whether there is none left to take.
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
