//! One table for the parser and the emitter (RFC 8803 section 6.2).

use std::net::SocketAddrV6;

use tributary_proto::convert::{ErrorTlv, TcpOption, Tlv, TooLong, encode, parse};

use crate::hex::hex;
use crate::incremental::accepts;

fn peer(text: &str) -> SocketAddrV6 {
    text.parse().expect("an address")
}

fn option(kind: u8, value: &[u8]) -> TcpOption {
    TcpOption {
        kind,
        value: value.to_vec(),
    }
}

fn connect(to: &str, options: Option<&[TcpOption]>) -> Vec<Tlv> {
    let options = options.map(<[_]>::to_vec);
    vec![Tlv::Connect {
        peer: peer(to),
        options,
    }]
}

fn unknown(kind: u8, value: &[u8]) -> Tlv {
    let value = value.to_vec();
    Tlv::Unknown { kind, value }
}

/// What the bytes of a message are, and what they mean.
#[rustfmt::skip]
fn table() -> Vec<(&'static str, Vec<Tlv>)> {
    let (mapped, next) = ("[::ffff:192.0.2.7]:443", peer("[::ffff:192.0.2.9]:5124"));
    let (mptcp, sack, cookie) = (option(30, &[]), option(4, &[]), option(34, &[0xa1, 0xb2, 0xc3, 0xd4]));
    vec![
        ("0101 2263", vec![]),
        ("0102 2263  0101 0000", vec![Tlv::Info]),
        ("0106 2263  0a05 01bb 00000000000000000000ffffc0000207", connect(mapped, None)),
        ("0106 2263  0a05 0050 20010db8000000000000000000000001", connect("[2001:db8::1]:80", None)),
        ("0107 2263  0a06 01bb 00000000000000000000ffffc0000207  1e02 0402", connect(mapped, Some(&[mptcp, sack]))),
        ("0108 2263  0a07 01bb 00000000000000000000ffffc0000207  2206 a1b2 c3d4 0000", connect(mapped, Some(&[cookie]))),
        ("0107 2263  0a06 01bb 00000000000000000000ffffc0000207  0000 0000", connect(mapped, Some(&[]))),
        ("0102 2263  1401 0000", vec![Tlv::ExtendedTcpHeader(vec![])]),
        ("0104 2263  1403 0000  0204 05b4 0101 0402", vec![Tlv::ExtendedTcpHeader(vec![2, 4, 5, 0xb4, 1, 1, 4, 2])]),
        ("0102 2263  1501 0000", vec![Tlv::SupportedTcpExtensions(vec![])]),
        ("0103 2263  1502 0000  0408 1e00", vec![Tlv::SupportedTcpExtensions(vec![4, 8, 30])]),
        ("0102 2263  1601 0000", vec![Tlv::Cookie(vec![])]),
        ("0104 2263  1603 0000  0011 2233 4455 6677", vec![Tlv::Cookie(hex("0011 2233 4455 6677"))]),
        ("0102 2263  c001 0000", vec![Tlv::PathTrace(vec![])]),
        ("0106 2263  c005 0000 0000 0000 0000 0007 0123 4567 89ab cdef", vec![Tlv::PathTrace(vec![7, 0x0123_4567_89ab_cdef])]),
        ("0102 2263  c101 0000", vec![Tlv::SourceRoute(vec![])]),
        ("0107 2263  c106 0000 0000 1404 00000000000000000000ffffc0000209", vec![Tlv::SourceRoute(vec![next])]),
        ("0102 2263  c201 0000", vec![Tlv::Reuse]),
        ("0102 2263  c801 abcd", vec![unknown(200, &[0xab, 0xcd])]),
        ("0104 2263  0202 0001 0203 0405  0101 0000", vec![unknown(2, &[0, 1, 2, 3, 4, 5]), Tlv::Info]),
    ]
}

/// The Error TLVs of RFC 8803 section 6.2.8, each alone in a message.
#[rustfmt::skip]
fn errors() -> Vec<(&'static str, ErrorTlv)> {
    vec![
        ("0102 2263  1e01 0001", ErrorTlv::UnsupportedVersion(vec![1])),
        ("0103 2263  1e02 0001 0203 0000", ErrorTlv::UnsupportedVersion(vec![1, 2, 3])),
        ("0102 2263  1e01 0100", ErrorTlv::MalformedMessage(vec![])),
        ("0103 2263  1e02 0100 0101 2263", ErrorTlv::MalformedMessage(hex("0101 2263"))),
        ("0104 2263  1e03 0200 0102 2263 0001 0000", ErrorTlv::UnsupportedMessage(hex("0102 2263 0001 0000"))),
        ("0104 2263  1e03 0300 0102 0304 0506 0708", ErrorTlv::MissingCookie(vec![1, 2, 3, 4, 5, 6, 7, 8])),
        ("0102 2263  1e01 2000", ErrorTlv::NotAuthorized),
        ("0102 2263  1e01 211d", ErrorTlv::UnsupportedTcpOption(vec![29])),
        ("0103 2263  1e02 211d 2200 0000", ErrorTlv::UnsupportedTcpOption(vec![29, 34])),
        ("0102 2263  1e01 4000", ErrorTlv::ResourceExceeded { delay: 0 }),
        ("0102 2263  1e01 40ff", ErrorTlv::ResourceExceeded { delay: 255 }),
        ("0102 2263  1e01 411e", ErrorTlv::NetworkFailure { delay: 30 }),
        ("0102 2263  1e01 6000", ErrorTlv::ConnectionReset),
        ("0102 2263  1e01 610d", ErrorTlv::DestinationUnreachable { icmp_code: 13 }),
        ("0102 2263  1e01 c007", ErrorTlv::Unknown { code: 192, value: vec![7] }),
        ("0103 2263  1e02 c007 0000 0001", ErrorTlv::Unknown { code: 192, value: vec![7, 0, 0, 0, 1] }),
    ]
}

#[test]
fn every_tlv_is_parsed_whole_and_cut_at_every_byte() {
    for (bytes, tlvs) in table() {
        accepts(parse, &hex(bytes), &tlvs);
    }
}

#[test]
fn every_tlv_is_emitted_as_it_is_parsed() {
    for (bytes, tlvs) in table() {
        assert_eq!(encode(&tlvs), Ok(hex(bytes)), "{tlvs:?}");
    }
}

#[test]
fn every_error_is_parsed_and_emitted() {
    for (bytes, error) in errors() {
        accepts(parse, &hex(bytes), &vec![Tlv::Error(error.clone())]);
        assert_eq!(error.encode(), hex(bytes), "{error:?}");
        assert_eq!(error.code(), hex(bytes)[6], "{error:?}");
    }
}

#[test]
fn fields_that_must_be_zero_are_not_looked_at() {
    let cookie = vec![Tlv::Cookie(vec![1, 2, 3, 4])];
    accepts(parse, &hex("0103 2263 1602 beef 01020304"), &cookie);
    accepts(parse, &hex("0102 2263 0101 beef"), &vec![Tlv::Info]);
    let header = vec![Tlv::ExtendedTcpHeader(vec![4, 2, 1, 1])];
    accepts(parse, &hex("0103 2263 1402 beef 0402 0101"), &header);
}

#[test]
fn values_longer_than_their_error_needs_are_not_looked_at() {
    let refused = vec![Tlv::Error(ErrorTlv::NotAuthorized)];
    accepts(parse, &hex("0103 2263 1e02 2001 0000 0000"), &refused);
    let delayed = vec![Tlv::Error(ErrorTlv::NetworkFailure { delay: 5 })];
    accepts(parse, &hex("0103 2263 1e02 4105 0000 0007"), &delayed);
}

#[test]
fn the_largest_message_has_1020_bytes() {
    let full = [Tlv::Cookie(vec![7; 1012])];
    let message = encode(&full).expect("255 words");
    assert_eq!((message.len(), message[1], message[5]), (1020, 255, 254));
    accepts(parse, &message, &full.to_vec());
    assert_eq!(encode(&[Tlv::Cookie(vec![7; 1013])]), Err(TooLong));
    assert_eq!(encode(&[full[0].clone(), Tlv::Info]), Err(TooLong));
}

#[test]
fn a_tcp_option_of_more_than_255_bytes_is_not_emitted() {
    let with = |length| connect("[2001:db8::1]:80", Some(&[option(34, &vec![0; length])]));
    assert!(encode(&with(253)).is_ok());
    assert_eq!(encode(&with(254)), Err(TooLong));
}

#[test]
fn a_value_that_is_too_long_for_an_error_message_is_cut() {
    for length in [1012, 1013, 1020, 5000] {
        let echo = vec![9; length];
        let message = ErrorTlv::MalformedMessage(echo).encode();
        assert_eq!(message.len(), 1020);
        let expected = vec![Tlv::Error(ErrorTlv::MalformedMessage(vec![9; 1012]))];
        accepts(parse, &message, &expected);
        let list = ErrorTlv::UnsupportedTcpOption(vec![29; length]).encode();
        assert_eq!(list.len(), 1020);
    }
}
