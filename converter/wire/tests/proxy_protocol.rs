//! The PROXY protocol codec: every header whole, cut at every byte, and with data behind.

mod hex;
mod incremental;

use std::net::SocketAddr;

use hex::hex;
use incremental::{accepts, refuses};
use proptest::prelude::*;
use tributary_wire::proxy_protocol::{Header, HeaderError, MAX_ENCODED_LENGTH, parse};

const SIGNATURE: &str = "0d0a0d0a 000d0a51 5549540a";

fn proxy(source: &str, destination: &str) -> Header {
    let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
    Header::Proxy {
        source: address(source),
        destination: address(destination),
    }
}

fn header(rest: &str) -> Vec<u8> {
    [hex(SIGNATURE), hex(rest)].concat()
}

fn table() -> Vec<(&'static str, Header)> {
    vec![
        ("20 00 0000", Header::Local),
        ("21 00 0000", Header::Other(0)),
        ("21 12 0000", Header::Other(0x12)),
        (
            "21 11 000c  c0000201 c6336402 c001 01bb",
            proxy("192.0.2.1:49153", "198.51.100.2:443"),
        ),
        (
            "21 21 0024  20010db8000000000000000000000001 20010db8000000000000000000000002 0001 ffff",
            proxy("[2001:db8::1]:1", "[2001:db8::2]:65535"),
        ),
    ]
}

#[test]
fn every_header_is_parsed_whole_and_cut_at_every_byte() {
    for (bytes, value) in table() {
        accepts(parse, &header(bytes), &value);
    }
}

#[test]
fn every_header_is_emitted_as_it_is_parsed() {
    for (bytes, value) in table() {
        assert_eq!(value.encode(), header(bytes), "{value:?}");
    }
}

#[test]
fn an_ipv4_address_beside_an_ipv6_one_becomes_mapped() {
    let v4_to_v6 = proxy("192.0.2.1:5", "[2001:db8::2]:443");
    let expected = proxy("[::ffff:192.0.2.1]:5", "[2001:db8::2]:443");
    accepts(parse, &v4_to_v6.encode(), &expected);
    let v6_to_v4 = proxy("[2001:db8::2]:5", "192.0.2.1:443");
    let expected = proxy("[2001:db8::2]:5", "[::ffff:192.0.2.1]:443");
    accepts(parse, &v6_to_v4.encode(), &expected);
    assert_eq!(v6_to_v4.encode().len(), MAX_ENCODED_LENGTH);
}

#[test]
fn tlvs_behind_the_addresses_are_skipped() {
    let bytes = header("21 11 0010  c0000201 c6336402 c001 01bb 04000100");
    accepts(parse, &bytes, &proxy("192.0.2.1:49153", "198.51.100.2:443"));
}

#[test]
fn a_local_header_counts_whatever_its_addresses_are() {
    accepts(parse, &header("20 11 0004 c0000201"), &Header::Local);
    accepts(parse, &header("20 ff 0000"), &Header::Local);
}

#[test]
fn an_unknown_family_is_skipped_whole() {
    accepts(parse, &header("21 31 0003 2f6100"), &Header::Other(0x31));
}

#[test]
fn other_bytes_are_refused_at_the_first_that_differs() {
    refuses(parse, b"GET / HTTP/1.1\r\n", 1, &HeaderError::Signature);
    refuses(
        parse,
        b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n",
        1,
        &HeaderError::Signature,
    );
    let mut bytes = header("21 11 000c");
    bytes[11] = b'\r';
    refuses(parse, &bytes, 12, &HeaderError::Signature);
}

#[test]
fn versions_and_commands_that_are_unknown_are_refused() {
    refuses(parse, &header("11 11 000c"), 16, &HeaderError::Version(1));
    refuses(parse, &header("31 11 000c"), 16, &HeaderError::Version(3));
    refuses(parse, &header("22 11 000c"), 16, &HeaderError::Command(2));
    refuses(parse, &header("2f 11 000c"), 16, &HeaderError::Command(15));
}

#[test]
fn addresses_that_do_not_fit_are_refused() {
    let short = header("21 11 000b  c0000201 c6336402 c001 01");
    refuses(parse, &short, short.len(), &HeaderError::Length(11));
    let short = header("21 21 000c  c0000201 c6336402 c001 01bb");
    refuses(parse, &short, short.len(), &HeaderError::Length(12));
}

proptest! {
    #[test]
    fn every_pair_of_addresses_survives(
        source in any::<std::net::SocketAddrV6>(),
        destination in any::<std::net::SocketAddrV6>(),
    ) {
        let plain = |address: std::net::SocketAddrV6| {
            SocketAddr::new((*address.ip()).into(), address.port())
        };
        let header = Header::Proxy { source: plain(source), destination: plain(destination) };
        accepts(parse, &header.encode(), &header);
    }

    #[test]
    fn every_pair_of_ipv4_addresses_survives(
        source in any::<std::net::SocketAddrV4>(),
        destination in any::<std::net::SocketAddrV4>(),
    ) {
        let header = Header::Proxy { source: source.into(), destination: destination.into() };
        accepts(parse, &header.encode(), &header);
    }

    #[test]
    fn any_header_consumes_what_it_says(rest in proptest::collection::vec(any::<u8>(), 0..80)) {
        let bytes = [hex(SIGNATURE), rest].concat();
        if let Ok(Some((header, consumed))) = parse(&bytes) {
            prop_assert!(consumed <= bytes.len());
            accepts(parse, &bytes[..consumed], &header);
        }
    }
}
