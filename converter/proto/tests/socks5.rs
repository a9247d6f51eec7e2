//! The SOCKS5 codec: every message whole, cut at every byte, and with data behind.

mod hex;
mod incremental;

use std::net::SocketAddr;

use hex::hex;
use incremental::{accepts, refuses};
use proptest::prelude::*;
use tributary_proto::host::Host;
use tributary_proto::socks5::{
    AuthMethod, Code, Greeting, Login, ProtocolError, Reply, Request, encode_login_status, parse_greeting, parse_login,
    parse_request,
};

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn to_name(name: &str, port: u16) -> Request {
    Request {
        host: Host::Name(name.into()),
        port,
    }
}

fn to_address(text: &str) -> Request {
    to(address(text))
}

fn to(address: SocketAddr) -> Request {
    Request {
        host: address.ip().into(),
        port: address.port(),
    }
}

fn login(user: &[u8], password: &[u8]) -> Login {
    Login {
        user: user.to_vec(),
        password: password.to_vec(),
    }
}

/// A CONNECT to a name of these bytes, port 80.
fn connect_to_name(name: &[u8]) -> Vec<u8> {
    [&[5, 1, 0, 3], &field(name)[..], &[0, 80]].concat()
}

/// So many bytes, and their number before them.
fn field(bytes: &[u8]) -> Vec<u8> {
    [&[u8::try_from(bytes.len()).expect("255 bytes")], bytes].concat()
}

#[test]
fn every_greeting_is_parsed() {
    for (bytes, methods) in [
        ("05 00", vec![]),
        ("05 01 00", vec![0]),
        ("05 02 00 02", vec![0, 2]),
        ("05 03 01 02 80", vec![1, 2, 128]),
    ] {
        accepts(parse_greeting, &hex(bytes), &Greeting(methods));
    }
    let longest = vec![9_u8; 255];
    let bytes = [vec![5], field(&longest)].concat();
    accepts(parse_greeting, &bytes, &Greeting(longest));
}

#[test]
fn a_greeting_offers_what_it_lists() {
    let greeting = Greeting(vec![2, 128]);
    assert!(greeting.offers(AuthMethod::UserPassword));
    assert!(!greeting.offers(AuthMethod::NoAuthentication));
}

#[test]
fn every_method_is_emitted() {
    assert_eq!(AuthMethod::NoAuthentication.encode(), [5, 0]);
    assert_eq!(AuthMethod::UserPassword.encode(), [5, 2]);
    assert_eq!(AuthMethod::NoneAcceptable.encode(), [5, 255]);
}

#[test]
fn every_login_is_parsed() {
    for (bytes, value) in [
        ("01 01 61 01 62", login(b"a", b"b")),
        ("01 04 616c6365 03 00ff20", login(b"alce", b"\0\xff ")),
        ("01 00 00", login(b"", b"")),
        ("01 00 01 61", login(b"", b"a")),
    ] {
        accepts(parse_login, &hex(bytes), &value);
    }
    let longest = [vec![1], field(&[b'u'; 255]), field(&[b'p'; 255])].concat();
    assert_eq!(longest.len(), 513);
    accepts(parse_login, &longest, &login(&[b'u'; 255], &[b'p'; 255]));
}

#[test]
fn a_login_does_not_print_its_password() {
    let printed = format!("{:?}", login(b"alice", b"secret"));
    assert!(printed.contains("alice") && !printed.contains("secret"), "{printed}");
}

#[test]
fn every_login_status_is_emitted() {
    assert_eq!(encode_login_status(true), [1, 0]);
    assert_eq!(encode_login_status(false), [1, 1]);
}

#[test]
fn every_request_is_parsed() {
    #[rustfmt::skip]
    let cases = [
        ("05 01 00 01 c0000207 01bb", to_address("192.0.2.7:443")),
        ("05 01 00 04 20010db8000000000000000000000001 0050", to_address("[2001:db8::1]:80")),
        ("05 01 00 03 01 61 ffff", to_name("a", 65535)),
        ("05 01 00 03 0b 6578616d706c652e6f7267 0050", to_name("example.org", 80)),
        ("05 01 00 03 08 785f2d612e7a302e 0000", to_name("x_-a.z0.", 0)),
    ];
    for (bytes, request) in cases {
        accepts(parse_request, &hex(bytes), &request);
    }
}

#[test]
fn a_name_is_read_in_lower_case() {
    accepts(
        parse_request,
        &connect_to_name(b"WWW.Example"),
        &to_name("www.example", 80),
    );
}

#[test]
fn the_reserved_byte_is_not_looked_at() {
    accepts(
        parse_request,
        &hex("05 01 77 01 c0000207 01bb"),
        &to_address("192.0.2.7:443"),
    );
}

#[test]
fn the_longest_name_has_253_bytes_and_a_dot() {
    let longest = format!("{}{}.", "n.".repeat(126), "n");
    for name in [&longest[..253], &longest] {
        accepts(parse_request, &connect_to_name(name.as_bytes()), &to_name(name, 80));
    }
    let longer = format!("n{longest}");
    refuses(
        parse_request,
        &connect_to_name(longer.as_bytes()),
        5 + longer.len(),
        &ProtocolError::Name,
    );
}

#[test]
fn names_that_no_host_has_are_refused_when_they_are_there() {
    let names: [&[u8]; 19] = [
        b"",
        b"a b",
        b"a\0",
        b"a/b",
        b"[::1",
        b"::1]",
        b"[[::1]]",
        b"[192.0.2.7]",
        b"[a.example]",
        b"fe80::1%eth0",
        b"a:80",
        b"ex%61mple",
        b"b\xfccher.example",
        b"a\r\nb",
        b"..",
        b"a..b",
        b"-a.example",
        b"a-.example",
        &[b'n'; 64],
    ];
    for name in names {
        let needed = 5 + name.len();
        refuses(parse_request, &connect_to_name(name), needed, &ProtocolError::Name);
    }
    assert_eq!(ProtocolError::Name.reply(), Some(Reply::refusal(Code::HostUnreachable)));
}

#[test]
fn a_dotted_quad_sent_as_a_name_is_an_address() {
    let request = to_address("192.0.2.7:80");
    accepts(parse_request, &connect_to_name(b"192.0.2.7"), &request);
}

#[test]
fn an_ipv6_address_sent_as_a_name_is_one_with_brackets_or_without() {
    for name in ["2001:db8::7", "[2001:db8::7]", "2001:0DB8:0:0::7"] {
        let request = to_address("[2001:db8::7]:80");
        accepts(parse_request, &connect_to_name(name.as_bytes()), &request);
    }
    let loopback = to_address("[::1]:80");
    accepts(parse_request, &connect_to_name(b"::1"), &loopback);
}

#[test]
fn numbers_in_disguise_are_refused() {
    for name in [
        "2130706433",
        "0x7f.1",
        "0X7F000001",
        "127.1",
        "127.0.0.01",
        "127.0.0.1.",
        "a.1",
        "0x",
        "1.256.1.1",
    ] {
        let needed = 5 + name.len();
        refuses(
            parse_request,
            &connect_to_name(name.as_bytes()),
            needed,
            &ProtocolError::Name,
        );
    }
}

#[test]
fn names_with_numbers_before_the_last_label_are_names() {
    for name in ["1.example", "127.0.0.1.example", "0x7f.example.", "1e", "a1", "xn--0x"] {
        accepts(parse_request, &connect_to_name(name.as_bytes()), &to_name(name, 80));
    }
}

#[test]
fn other_commands_get_reply_7() {
    for command in [0, 2, 3, 255] {
        let bytes = [5, command, 0, 1, 192, 0, 2, 7, 0, 80];
        refuses(parse_request, &bytes, 2, &ProtocolError::Command(command));
    }
    let reply = ProtocolError::Command(2).reply();
    assert_eq!(reply, Some(Reply::refusal(Code::CommandNotSupported)));
}

#[test]
fn other_address_types_get_reply_8() {
    for kind in [0, 2, 5, 255] {
        refuses(
            parse_request,
            &[5, 1, 0, kind, 0, 0, 0],
            4,
            &ProtocolError::AddressType(kind),
        );
    }
    let reply = ProtocolError::AddressType(2).reply();
    assert_eq!(reply, Some(Reply::refusal(Code::AddressTypeNotSupported)));
}

#[test]
fn other_versions_are_refused_at_once_without_a_reply() {
    let socks4 = [4, 1, 0, 80, 192, 0, 2, 7, 0];
    refuses(parse_greeting, &socks4, 1, &ProtocolError::Version(4));
    refuses(parse_request, &socks4, 1, &ProtocolError::Version(4));
    refuses(parse_login, &hex("05 01 61 01 62"), 1, &ProtocolError::Version(5));
    assert_eq!(ProtocolError::Version(4).reply(), None);
}

#[test]
fn every_reply_is_emitted() {
    #[rustfmt::skip]
    let cases = [
        ("05 00 00 01 c0000201 c001", Reply::success(address("192.0.2.1:49153"))),
        ("05 00 00 04 20010db8000000000000000000000001 0050", Reply::success(address("[2001:db8::1]:80"))),
        ("05 01 00 01 00000000 0000", Reply::refusal(Code::GeneralFailure)),
        ("05 02 00 01 00000000 0000", Reply::refusal(Code::NotAllowed)),
        ("05 03 00 01 00000000 0000", Reply::refusal(Code::NetworkUnreachable)),
        ("05 04 00 01 00000000 0000", Reply::refusal(Code::HostUnreachable)),
        ("05 05 00 01 00000000 0000", Reply::refusal(Code::ConnectionRefused)),
        ("05 07 00 01 00000000 0000", Reply::refusal(Code::CommandNotSupported)),
        ("05 08 00 01 00000000 0000", Reply::refusal(Code::AddressTypeNotSupported)),
    ];
    for (bytes, reply) in cases {
        assert_eq!(reply.encode(), hex(bytes));
    }
}

proptest! {
    #[test]
    fn every_greeting_survives(methods in proptest::collection::vec(any::<u8>(), 0..=255)) {
        let bytes = [vec![5], field(&methods)].concat();
        accepts(parse_greeting, &bytes, &Greeting(methods));
    }

    #[test]
    fn every_login_survives(
        user in proptest::collection::vec(any::<u8>(), 0..=255),
        password in proptest::collection::vec(any::<u8>(), 0..=255),
    ) {
        let bytes = [vec![1], field(&user), field(&password)].concat();
        accepts(parse_login, &bytes, &Login { user, password });
    }

    #[test]
    fn every_name_survives(
        name in "([a-z0-9_]([a-z0-9_-]{0,20}[a-z0-9_])?[.]){0,10}[a-z_]",
        port in any::<u16>(),
    ) {
        let bytes = [vec![5, 1, 0, 3], field(name.as_bytes()), port.to_be_bytes().to_vec()].concat();
        accepts(parse_request, &bytes, &to_name(&name, port));
    }

    /// A reply has its address as a request has.
    #[test]
    fn every_address_survives(ip in any::<std::net::IpAddr>(), port in any::<u16>()) {
        let address = SocketAddr::new(ip, port);
        let mut bytes = Reply::success(address).encode();
        bytes[1] = 1; // CONNECT
        accepts(parse_request, &bytes, &to(address));
    }

    #[test]
    fn a_name_is_refused_when_a_byte_may_not_be_in_it(
        name in proptest::collection::vec(any::<u8>(), 1..=8),
    ) {
        let valid = name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(byte));
        // Some clients send an address as a name.
        let text = String::from_utf8_lossy(&name);
        let is_address = text.trim_matches(['[', ']']).parse::<std::net::Ipv6Addr>().is_ok();
        if !valid && !is_address {
            prop_assert_eq!(parse_request(&connect_to_name(&name)), Err(ProtocolError::Name));
        }
    }

    #[test]
    fn a_decision_stands_whatever_follows(
        bytes in proptest::collection::vec(prop_oneof![0..6_u8, any::<u8>()], 0..40),
        cut in any::<prop::sample::Index>(),
    ) {
        let bytes = [&[5, 1], &bytes[..]].concat();
        let early = &bytes[..cut.index(bytes.len() + 1)];
        if parse_request(early) != Ok(None) {
            prop_assert_eq!(parse_request(&bytes), parse_request(early));
        }
        if parse_greeting(early) != Ok(None) {
            prop_assert_eq!(parse_greeting(&bytes), parse_greeting(early));
        }
    }
}
