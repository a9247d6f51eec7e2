//! Requests that a converter takes, and its replies.

use std::net::SocketAddr;

use tributary_proto::convert::{MAX_LENGTH, Reply, Request, SUPPORTED_TCP_EXTENSIONS, TcpOption, option_kind, server};

use crate::hex::hex;
use crate::incremental::accepts;

fn parse(bytes: &[u8]) -> Result<Option<(Request, usize)>, server::Refusal> {
    server::parse(bytes, &SUPPORTED_TCP_EXTENSIONS)
}

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn with_cookie(request: Request, cookie: &[u8]) -> Request {
    let cookie = Some(cookie.to_vec());
    Request { cookie, ..request }
}

/// Asks for a connection and for what is supported, with the cookie "key1".
fn both(target: SocketAddr) -> Request {
    Request {
        info: true,
        ..with_cookie(Request::connect(target), b"key1")
    }
}

/// Asks for a connection with these options.
fn extended(target: SocketAddr, kinds: &[u8]) -> Request {
    let mut request = Request::connect(target);
    let options = kinds.iter().copied().map(TcpOption::empty).collect();
    request.connect.as_mut().expect("a Connect TLV").options = Some(options);
    request
}

#[rustfmt::skip]
fn table() -> Vec<(&'static str, Request)> {
    let v4 = address("192.0.2.7:443");
    let v6 = address("[2001:db8::1]:80");
    let with_info = Request { info: true, ..Request::connect(v4) };
    vec![
        ("0102 2263  0101 0000", Request::info()),
        ("0106 2263  0a05 01bb 00000000000000000000ffffc0000207", Request::connect(v4)),
        ("0106 2263  0a05 0050 20010db8000000000000000000000001", Request::connect(v6)),
        ("0107 2263  0101 0000  0a05 01bb 00000000000000000000ffffc0000207", with_info),
        ("0107 2263  0a06 0050 20010db8000000000000000000000001 1e02 0000", extended(v6, &[option_kind::MPTCP])),
        ("0107 2263  0a06 0050 20010db8000000000000000000000001 0000 0000", extended(v6, &[])),
        ("0104 2263  0101 0000  1602 0000 6b65 7931", with_cookie(Request::info(), b"key1")),
        ("0109 2263  0101 0000  0a05 0050 20010db8000000000000000000000001  1602 0000 6b65 7931", both(v6)),
        ("0108 2263  0a06 0050 20010db8000000000000000000000001 1e02 0802  1601 0000", with_cookie(extended(v6, &[30, 8]), b"")),
    ]
}

#[test]
fn every_request_is_taken_whole_and_cut_at_every_byte() {
    for (bytes, request) in table() {
        accepts(parse, &hex(bytes), &request);
    }
}

#[test]
fn a_client_encodes_what_the_converter_parses() {
    for (bytes, request) in table() {
        assert_eq!(request.encode(), Ok(hex(bytes)));
    }
}

#[test]
fn tlvs_come_in_any_order() {
    let bytes = hex(
        "0109 2263  1602 0000 6b65 7931  0a05 0050 2001 0db8 0000 0000 0000 0000 0000 0001
         0101 0000",
    );
    accepts(parse, &bytes, &both(address("[2001:db8::1]:80")));
}

#[test]
fn options_0_1_2_3_and_5_are_ignored() {
    let bytes = hex("010d 2263  0a0c 0050 2001 0db8 0000 0000 0000 0000 0000 0001
         0204 05b4  0303 07 01  050a 0000 0001 0000 0002  00 01  1e02  0402 0000 0000");
    let request = extended(address("[2001:db8::1]:80"), &[30, 4]);
    accepts(parse, &bytes, &request);
}

#[test]
fn an_extended_connect_with_only_ignored_options_is_still_extended() {
    let bytes = hex("0107 2263  0a06 0050 2001 0db8 0000 0000 0000 0000 0000 0001 0204 05b4");
    let (request, _) = parse(&bytes).expect("valid").expect("whole");
    let connect = request.connect.expect("a Connect TLV");
    assert!(connect.extended());
    assert_eq!(connect.options, Some(vec![]));
}

#[test]
fn a_connect_says_whether_it_wants_mptcp() {
    let target = address("192.0.2.7:443");
    let wants = |request: Request| request.connect.expect("a Connect TLV").wants_mptcp();
    assert!(wants(extended(target, &[4, 30])));
    assert!(!wants(extended(target, &[4])));
    assert!(!wants(Request::connect(target)));
}

#[test]
fn the_largest_request_is_taken() {
    let request = with_cookie(Request::connect(address("192.0.2.7:443")), &[5; 992]);
    let bytes = request.encode().expect("255 words");
    assert_eq!(bytes.len(), MAX_LENGTH);
    accepts(parse, &bytes, &request);
    let longer = Request { info: true, ..request };
    assert!(longer.encode().is_err());
}

#[test]
fn a_base_connect_gets_an_empty_message() {
    let reply = Request::connect(address("192.0.2.7:443")).reply(&[2, 4, 5, 180], &[30]);
    assert_eq!(reply.encode(), hex("0101 2263"));
}

#[test]
fn an_extended_connect_gets_the_options_of_the_servers_syn_ack() {
    let request = extended(address("192.0.2.7:443"), &[30]);
    let reply = request.reply(&hex("0204 05b4 0402"), &[30]);
    assert_eq!(reply.encode(), hex("0104 2263 1403 0000 0204 05b4 0402 0000"));
    assert_eq!(request.reply(&[], &[30]).encode(), hex("0102 2263 1401 0000"));
}

#[test]
fn info_gets_the_supported_extensions() {
    let reply = Request::info().reply(&[], &SUPPORTED_TCP_EXTENSIONS);
    assert_eq!(reply.encode(), hex("0103 2263 1502 0000 0408 1e00"));
    let both = Request {
        info: true,
        ..extended(address("192.0.2.7:443"), &[])
    };
    let reply = both.reply(&hex("0402 0101"), &[30]);
    assert_eq!(reply.encode(), hex("0105 2263 1402 0000 0402 0101 1502 0000 1e00 0000"));
}

#[test]
fn kinds_that_must_not_be_announced_are_left_out_of_a_reply() {
    let reply = Reply {
        supported_tcp_extensions: Some(vec![0, 1, 2, 3, 4, 5, 29, 30, 30]),
        extended_tcp_header: None,
    };
    assert_eq!(reply.encode(), hex("0103 2263 1502 0000 041e 0000"));
}

#[test]
fn any_reply_fits_into_a_message() {
    let reply = Reply {
        extended_tcp_header: Some(vec![1; 3000]),
        supported_tcp_extensions: Some((0..=255).cycle().take(3000).collect()),
    };
    // Header, 4 + 40 bytes of options, 4 + 250 kinds that may be announced, padding.
    assert_eq!(reply.encode().len(), 4 + 44 + 256);
}

#[test]
fn option_values_survive_where_the_client_sends_them() {
    let cookie = TcpOption {
        kind: 34, // Fast Open
        value: vec![1, 2, 3, 4],
    };
    let mut request = Request::connect(address("192.0.2.7:443"));
    request.connect.as_mut().expect("a Connect TLV").options = Some(vec![cookie]);
    let bytes = request.encode().expect("short");
    assert_eq!(bytes[24..], hex("2206 0102 0304 0000"));
}
