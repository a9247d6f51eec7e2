//! Requests that a converter refuses: the fault, the answer, and the moment it is known.

use tributary_proto::convert::{
    ErrorTlv, MessageError, Request, SUPPORTED_TCP_EXTENSIONS, Tlv, encode, server, server::Refusal,
};

use crate::hex::hex;
use crate::incremental::refuses;

fn parse(bytes: &[u8]) -> Result<Option<(Request, usize)>, Refusal> {
    server::parse(bytes, &SUPPORTED_TCP_EXTENSIONS)
}

/// What is sent to a client that asks so.
fn reply(bytes: &[u8]) -> Vec<u8> {
    let refusal = parse(bytes).expect_err("a fault");
    refusal.error.expect("an error").encode()
}

fn refuses_whole(bytes: &[u8], fault: MessageError, error: ErrorTlv) {
    refuses(
        parse,
        bytes,
        bytes.len(),
        &Refusal {
            fault,
            error: Some(error),
        },
    );
}

fn malformed(bytes: &str, fault: MessageError) {
    let bytes = hex(bytes);
    refuses_whole(&bytes, fault, ErrorTlv::MalformedMessage(bytes.clone()));
}

fn unsupported(bytes: &str, fault: MessageError) {
    let bytes = hex(bytes);
    refuses_whole(&bytes, fault, ErrorTlv::UnsupportedMessage(bytes.clone()));
}

/// A message with a Base Connect TLV.
fn connect_to(address: &str, port: u16) -> Vec<u8> {
    let address: std::net::Ipv6Addr = address.parse().expect("an address");
    let mut bytes = hex("0106 2263 0a05");
    bytes.extend(port.to_be_bytes());
    bytes.extend(address.octets());
    bytes
}

/// A message with an Extended Connect TLV.
fn connect_with(options: &str) -> Vec<u8> {
    let options = hex(options);
    let words = u8::try_from(options.len() / 4).expect("a short list");
    let mut bytes = connect_to("2001:db8::1", 80);
    bytes[1] += words;
    bytes[5] += words;
    bytes.extend(options);
    bytes
}

#[test]
fn what_is_not_convert_is_reset_with_the_header() {
    for (bytes, fault) in [
        ("0106 2262", MessageError::NotConvert),
        ("4745 5420 2f20 4854", MessageError::NotConvert),
        ("1603 0102 0001 0001", MessageError::NotConvert),
        ("0100 2263 0101 0000", MessageError::ZeroTotalLength),
        ("0200 2263", MessageError::ZeroTotalLength),
    ] {
        let refusal = Refusal { fault, error: None };
        refuses(parse, &hex(bytes), 4, &refusal);
    }
}

#[test]
fn another_version_gets_the_list_of_versions_as_soon_as_the_header_is_there() {
    for version in [0, 2, 3, 255] {
        let bytes = [version, 255, 0x22, 0x63, 1, 2, 3];
        let error = ErrorTlv::UnsupportedVersion(vec![1]);
        assert_eq!(error.encode(), hex("0102 2263 1e01 0001"));
        refuses(
            parse,
            &bytes,
            4,
            &Refusal {
                fault: MessageError::Version(version),
                error: Some(error),
            },
        );
    }
}

#[test]
fn tlvs_out_of_bounds_are_malformed() {
    malformed("0102 2263 0100 0000", MessageError::TlvLength(1));
    malformed("0102 2263 0102 0000", MessageError::TlvLength(1));
    malformed("0103 2263 0101 0000 1600 0000", MessageError::TlvLength(22));
    malformed("0103 2263 0101 0000 0aff 0000", MessageError::TlvLength(10));
    malformed("0103 2263 0101 0000 fe02 0000", MessageError::TlvLength(254));
    malformed("0103 2263 0102 0000 0000 0000", MessageError::TlvLength(1));
    malformed("0103 2263 c002 0000 0102 0304", MessageError::TlvLength(192));
    malformed("0103 2263 c102 0000 0000 1404", MessageError::TlvLength(193));
    malformed(
        "0105 2263 0a04 0050 2001 0db8 0000 0000 0000 0000",
        MessageError::TlvLength(10),
    );
}

#[test]
fn duplicates_are_malformed() {
    malformed("0103 2263 0101 0000 0101 0000", MessageError::DuplicateTlv(1));
    malformed(
        "0104 2263 1601 0000 0101 0000 1601 0000",
        MessageError::DuplicateTlv(22),
    );
    malformed(
        "0104 2263 0101 0000 c801 0000 c801 0000",
        MessageError::DuplicateTlv(200),
    );
    let one = hex("0a05 0050 2001 0db8 0000 0000 0000 0000 0000 0001");
    let two = [hex("010b 2263"), one.clone(), one].concat();
    refuses_whole(
        &two,
        MessageError::DuplicateTlv(10),
        ErrorTlv::MalformedMessage(two.clone()),
    );
}

#[test]
fn a_message_that_asks_nothing_is_malformed() {
    malformed("0101 2263", MessageError::NothingAsked);
    malformed("0104 2263 1603 0000 0102 0304 0506 0708", MessageError::NothingAsked);
}

#[test]
fn tlvs_that_a_converter_does_not_take_are_unsupported() {
    unsupported("0102 2263 0001 0000", MessageError::ReservedTlv);
    unsupported("0102 2263 0000 0000", MessageError::ReservedTlv);
    unsupported("0103 2263 0101 0000 00ff 0000", MessageError::ReservedTlv);
    unsupported("0102 2263 c801 0000", MessageError::UnsupportedTlv(200));
    unsupported("0103 2263 0101 0000 0201 0000", MessageError::UnsupportedTlv(2));
    unsupported("0102 2263 1401 0000", MessageError::UnsupportedTlv(20));
    unsupported("0103 2263 1502 0000 1e00 0000", MessageError::UnsupportedTlv(21));
    unsupported("0103 2263 0101 0000 1e01 0100", MessageError::UnsupportedTlv(30));
}

#[test]
fn converters_that_nothing_can_connect_to_are_malformed() {
    for address in ["::ffff:127.0.0.1", "ff02::1"] {
        let peer = std::net::SocketAddrV6::new(address.parse().expect("an address"), 80, 0, 0);
        let tlvs = [Tlv::Info, Tlv::SourceRoute(vec![peer])];
        let bytes = encode(&tlvs).expect("a short message");
        refuses_whole(
            &bytes,
            MessageError::Peer(peer),
            ErrorTlv::MalformedMessage(bytes.clone()),
        );
    }
}

#[test]
fn peers_that_nothing_can_connect_to_are_malformed() {
    for address in [
        "::1",
        "::",
        "ff02::1",
        "ff0e::1234",
        "::ffff:127.0.0.1",
        "::ffff:127.255.255.254",
        "::ffff:224.0.0.1",
        "::ffff:239.255.255.255",
        "::ffff:255.255.255.255",
        "::ffff:0.0.0.0",
    ] {
        let bytes = connect_to(address, 80);
        let refusal = parse(&bytes).expect_err(address);
        assert!(matches!(refusal.fault, MessageError::Peer(_)), "{address}: {refusal:?}");
        refuses_whole(&bytes, refusal.fault, ErrorTlv::MalformedMessage(bytes.clone()));
    }
}

#[test]
fn peers_beside_those_are_taken() {
    for address in [
        "::2",
        "fe80::1",
        "2001:db8::",
        "::ffff:126.255.255.255",
        "::ffff:128.0.0.1",
    ] {
        assert!(parse(&connect_to(address, 65535)).is_ok(), "{address}");
    }
}

#[test]
fn port_0_is_malformed() {
    let bytes = connect_to("2001:db8::1", 0);
    let fault = MessageError::Peer("[2001:db8::1]:0".parse().expect("an address"));
    refuses_whole(&bytes, fault, ErrorTlv::MalformedMessage(bytes.clone()));
}

#[test]
fn tcp_options_out_of_bounds_are_malformed() {
    for (options, kind) in [
        ("1e00 0000", 30),
        ("1e01 0000", 30),
        ("1e05 0000", 30),
        ("0000 001e", 30),
        ("0402 0803", 8),
        ("0205 0000", 2),
        ("0101 05ff", 5),
    ] {
        let bytes = connect_with(options);
        let error = ErrorTlv::MalformedMessage(bytes.clone());
        refuses_whole(&bytes, MessageError::TcpOptionLength(kind), error);
    }
}

#[test]
fn unsupported_tcp_options_are_listed_once_each() {
    for (options, kinds) in [
        ("1d02 0000", vec![29]),
        ("2202 0000", vec![34]),
        ("2206 0102 0304 0000", vec![34]),
        ("fd04 f989 1e02 1d02 2202 2202", vec![253, 29, 34]),
        // A value is one that a socket cannot copy into a SYN.
        ("1e04 0100 0402 0000", vec![30]),
        ("080a 0000 0001 0000 0000 0402", vec![8]),
    ] {
        let bytes = connect_with(options);
        let error = ErrorTlv::UnsupportedTcpOption(kinds.clone());
        refuses_whole(&bytes, MessageError::UnsupportedTcpOptions(kinds), error);
    }
    let five = reply(&connect_with("1d02 2202 fd02 fe02 ff02 0000"));
    assert_eq!(five, hex("0103 2263 1e02 211d 22fd feff"));
}

#[test]
fn what_is_supported_is_the_callers_choice_but_for_tcp_ao() {
    let mptcp = connect_with("1e02 0000");
    assert!(server::parse(&mptcp, &[30]).is_ok());
    let refusal = server::parse(&mptcp, &[4, 8]).expect_err("unsupported");
    assert_eq!(refusal.error, Some(ErrorTlv::UnsupportedTcpOption(vec![30])));
    let tcp_ao = connect_with("1d02 0000");
    let refusal = server::parse(&tcp_ao, &[29]).expect_err("unsupported");
    assert_eq!(refusal.error, Some(ErrorTlv::UnsupportedTcpOption(vec![29])));
}

#[test]
fn the_echo_is_the_message_from_its_header_on_without_data_behind_it() {
    let bytes = [hex("0102 2263 0001 0000"), b"data".to_vec()].concat();
    assert_eq!(reply(&bytes), hex("0104 2263 1e03 0200 0102 2263 0001 0000"));
}

#[test]
fn the_echo_of_the_longest_message_is_cut_to_1020_bytes_in_all() {
    let mut bytes = vec![1, 255, 0x22, 0x63, 200, 254];
    bytes.resize(1020, 0xee);
    let reply = reply(&bytes);
    assert_eq!(reply.len(), 1020);
    assert_eq!(reply[..8], hex("01ff 2263 1efe 0200"));
    assert_eq!(reply[8..], bytes[..1012]);
}

#[test]
fn every_refusal_is_one_error_tlv_that_a_client_can_parse() {
    for bytes in [hex("0101 2263"), connect_with("1d02 0000"), hex("02ff 2263")] {
        let error = parse(&bytes).expect_err("a fault").error.expect("an error");
        let (tlvs, _) = tributary_proto::convert::parse(&error.encode())
            .expect("valid")
            .expect("whole");
        assert_eq!(tlvs, [Tlv::Error(error)]);
    }
}
