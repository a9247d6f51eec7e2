//! What a client makes of a converter's answer.

use tributary_proto::convert::client::{Answer, parse};
use tributary_proto::convert::{ErrorTlv, MessageError, Reply};

use crate::hex::hex;
use crate::incremental::{accepts, refuses};

#[test]
fn every_success_is_parsed_whole_and_cut_at_every_byte() {
    let reply = |extended_tcp_header: Option<&str>, extensions: Option<&[u8]>| {
        Answer::Established(Reply {
            extended_tcp_header: extended_tcp_header.map(hex),
            supported_tcp_extensions: extensions.map(<[u8]>::to_vec),
        })
    };
    #[rustfmt::skip]
    let cases = [
        ("0101 2263", reply(None, None)),
        ("0102 2263 1401 0000", reply(Some(""), None)),
        ("0104 2263 1403 0000 0204 05b4 0101 0402", reply(Some("0204 05b4 0101 0402"), None)),
        ("0103 2263 1502 0000 1e00 0000", reply(None, Some(&[30]))),
        ("0105 2263 1502 0000 0408 1e00 1402 0000 0101 0402", reply(Some("0101 0402"), Some(&[4, 8, 30]))),
    ];
    for (bytes, answer) in cases {
        accepts(parse, &hex(bytes), &answer);
    }
}

#[test]
fn an_error_is_a_refusal_whatever_is_beside_it() {
    let refused = Answer::Refused(ErrorTlv::ConnectionReset);
    accepts(parse, &hex("0102 2263 1e01 6000"), &refused);
    accepts(parse, &hex("0103 2263 1401 0000 1e01 6000"), &refused);
    accepts(parse, &hex("0103 2263 1e01 6000 c801 0000"), &refused);
}

#[test]
fn an_unknown_error_survives() {
    let unknown = ErrorTlv::Unknown {
        code: 98,
        value: vec![1, 2, 3, 4, 5],
    };
    accepts(parse, &hex("0103 2263 1e02 6201 0203 0405"), &Answer::Refused(unknown));
}

#[test]
fn an_unknown_tlv_is_skipped() {
    let bytes = hex("0105 2263 c802 0000 0000 0000 c901 0000 1401 0000");
    let reply = Reply {
        extended_tcp_header: Some(vec![]),
        supported_tcp_extensions: None,
    };
    accepts(parse, &bytes, &Answer::Established(reply));
}

#[test]
fn faults_that_must_reset_are_told() {
    for (bytes, needed, fault) in [
        ("0100 2263", 4, MessageError::ZeroTotalLength),
        ("0101 2236", 4, MessageError::NotConvert),
        ("0100 6322", 4, MessageError::NotConvert),
        ("4854 5450 2f31 2e31", 4, MessageError::NotConvert),
        ("0201 2263", 4, MessageError::Version(2)),
        ("0102 2263 0001 0000", 8, MessageError::ReservedTlv),
        ("0103 2263 1401 0000 1401 0000", 12, MessageError::DuplicateTlv(20)),
        ("0103 2263 1e01 6000 1e01 6000", 12, MessageError::DuplicateTlv(30)),
        ("0103 2263 c801 0000 c801 0001", 12, MessageError::DuplicateTlv(200)),
        ("0102 2263 1402 0000", 8, MessageError::TlvLength(20)),
        ("0102 2263 1400 0000", 8, MessageError::TlvLength(20)),
        ("0102 2263 0101 0000", 8, MessageError::UnsupportedTlv(1)),
        ("0102 2263 1601 0000", 8, MessageError::UnsupportedTlv(22)),
        (
            "0106 2263 0a05 0050 2001 0db8 0000 0000 0000 0000 0000 0001",
            24,
            MessageError::UnsupportedTlv(10),
        ),
    ] {
        refuses(parse, &hex(bytes), needed, &fault);
    }
}
