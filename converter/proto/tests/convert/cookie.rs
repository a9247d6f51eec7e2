//! Cookies (RFC 8803 section 6.2.7).

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr};

use tributary_proto::convert::{COOKIE_LENGTH, CookieKeys, ErrorTlv, Request};

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));

#[test]
fn a_cookie_is_good_for_its_client_alone() {
    let keys = CookieKeys::new([1; 16]);
    let cookie = keys.make(CLIENT);
    assert!(keys.check(CLIENT, &cookie));
    for other in ["192.0.2.8", "::192.0.2.7", "2001:db8::1"] {
        assert!(!keys.check(other.parse().expect("an address"), &cookie), "{other}");
    }
}

#[test]
fn an_ipv4_client_has_one_cookie_however_its_address_is_written() {
    let keys = CookieKeys::new([1; 16]);
    let mapped = "::ffff:192.0.2.7".parse().expect("an address");
    assert_eq!(keys.make(CLIENT), keys.make(mapped));
}

#[test]
fn a_cookie_with_any_bit_changed_is_refused() {
    let keys = CookieKeys::new([1; 16]);
    for bit in 0..COOKIE_LENGTH * 8 {
        let mut cookie = keys.make(CLIENT);
        cookie[bit / 8] ^= 1 << (bit % 8);
        assert!(!keys.check(CLIENT, &cookie), "bit {bit}");
    }
}

#[test]
fn a_cookie_of_another_length_is_refused() {
    let keys = CookieKeys::new([1; 16]);
    let cookie = keys.make(CLIENT);
    for length in 0..COOKIE_LENGTH {
        assert!(!keys.check(CLIENT, &cookie[..length]), "{length}");
    }
    assert!(!keys.check(CLIENT, &[&cookie[..], &[0; 4]].concat()));
}

#[test]
fn a_cookie_outlives_one_change_of_the_secret_and_no_more() {
    let mut keys = CookieKeys::new([1; 16]);
    let first = keys.make(CLIENT);
    keys.rotate([2; 16]);
    let second = keys.make(CLIENT);
    assert_ne!(first, second);
    assert!(keys.check(CLIENT, &first) && keys.check(CLIENT, &second));
    keys.rotate([3; 16]);
    assert!(!keys.check(CLIENT, &first) && keys.check(CLIENT, &second));
}

#[test]
fn a_cookie_depends_on_every_bit_of_the_secret() {
    let cookies: HashSet<_> = (0..128)
        .map(|bit| {
            let mut secret = [0; 16];
            secret[bit / 8] ^= 1_u8 << (bit % 8);
            CookieKeys::new(secret).make(CLIENT)
        })
        .collect();
    assert_eq!(cookies.len(), 128);
}

#[test]
fn a_cookie_survives_the_error_that_brings_it_and_the_request_that_returns_it() {
    let keys = CookieKeys::new([9; 16]);
    let error = ErrorTlv::MissingCookie(keys.make(CLIENT).to_vec()).encode();
    let (answer, _) = tributary_proto::convert::client::parse(&error)
        .expect("valid")
        .expect("whole");
    let tributary_proto::convert::client::Answer::Refused(ErrorTlv::MissingCookie(cookie)) = answer else {
        panic!("{answer:?}");
    };
    let request = Request {
        cookie: Some(cookie),
        ..Request::info()
    };
    let request = request.encode().expect("short");
    let (request, _) = tributary_proto::convert::server::parse(&request, &[])
        .expect("valid")
        .expect("whole");
    assert!(keys.check(CLIENT, &request.cookie.expect("a cookie")));
}

#[test]
fn secrets_are_not_printed() {
    assert_eq!(format!("{:?}", CookieKeys::new([77; 16])), "CookieKeys(..)");
}
