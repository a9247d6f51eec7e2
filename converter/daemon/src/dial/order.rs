//! The order of attempts (RFC 8305 section 4). Pure.

use std::net::IpAddr;

/// More addresses than these of one name are not tried.
const MOST: usize = 8;

/// IPv6 and IPv4 in turn, IPv6 first, each in the order in which it was found.
pub fn alternating(found: Vec<IpAddr>) -> Vec<IpAddr> {
    let (mut six, mut four): (Vec<_>, Vec<_>) = found.into_iter().partition(IpAddr::is_ipv6);
    six.truncate(MOST);
    four.truncate(MOST);
    let mut ordered = Vec::with_capacity(MOST);
    let (mut six, mut four) = (six.into_iter(), four.into_iter());
    while ordered.len() < MOST {
        let before = ordered.len();
        ordered.extend(six.next());
        ordered.extend(four.next());
        if ordered.len() == before {
            break;
        }
    }
    ordered.truncate(MOST);
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_take_turns() {
        let of = |texts: &[&str]| {
            texts
                .iter()
                .map(|text| text.parse().expect(text))
                .collect::<Vec<IpAddr>>()
        };
        assert_eq!(
            alternating(of(&["1.0.0.1", "1.0.0.2", "1.0.0.3", "2001:db8::1"])),
            of(&["2001:db8::1", "1.0.0.1", "1.0.0.2", "1.0.0.3"])
        );
        assert_eq!(alternating(of(&["1.0.0.1"])), of(&["1.0.0.1"]));
        assert_eq!(alternating(Vec::new()), of(&[]));
        assert_eq!(
            alternating(vec![IpAddr::from([1, 1, 1, 1]); 100]).len(),
            MOST
        );
    }
}
