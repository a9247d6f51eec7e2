//! SYNs out of IP packets: whole, cut at every byte, and with every option that a SYN can have.

mod hex;

use hex::hex;
use proptest::prelude::*;
use tributary_proto::syn::{Syn, destination_option, parse};

const IP4: &str = "4500 0000 0000 4000 4006 0000 0a000102 cb007102";
const IP4_OPTIONS: &str = "4600 0000 0000 4000 4006 0000 0a000102 cb007102 01010100";
const IP6: &str = "6000 0000 0000 0640 fd000001000000000000000000000002 20010db8000000000000000000000002";
const PORTS: &str = "c001 01bb 00000001 00000000";
const NO_OPTIONS: &str = "5002 ffff 0000 0000";

fn packet(ip: &str, rest: &str) -> Vec<u8> {
    [hex(ip), hex(PORTS), hex(rest)].concat()
}

fn syn(client: &str, server: &str, join: bool) -> Syn {
    Syn {
        client: client.parse().expect("an address"),
        server: server.parse().expect("an address"),
        join,
        destination: None,
    }
}

fn over4(join: bool) -> Syn {
    syn("10.0.1.2:49153", "203.0.113.2:443", join)
}

#[test]
fn a_syn_tells_who_asks_whom() {
    for (ip, rest, expected) in [
        (IP4, NO_OPTIONS, over4(false)),
        (IP4_OPTIONS, NO_OPTIONS, over4(false)),
        (IP6, NO_OPTIONS, syn("[fd00:1::2]:49153", "[2001:db8::2]:443", false)),
        // ECN set-up (RFC 3168 section 6.1.1), and data (RFC 7413).
        (IP4, "50c2 ffff 0000 0000", over4(false)),
        (IP4, "5002 ffff 0000 0000 474554", over4(false)),
        // MSS, SACK permitted, timestamps, window scale.
        (
            IP4,
            "a002 ffff 0000 0000 020405b4 0402080a0000000100000000 01030307",
            over4(false),
        ),
        // MP_CAPABLE, MP_JOIN (RFC 8684 sections 3.1, 3.2), the latter behind others.
        (IP4, "6002 ffff 0000 0000 1e040181", over4(false)),
        (
            IP4,
            "9002 ffff 0000 0000 020405b4 1e0c 1001 01020304 05060708",
            over4(true),
        ),
        // What follows the end of the options is no option.
        (IP4, "6002 ffff 0000 0000 00ff10ff", over4(false)),
    ] {
        assert_eq!(parse(&packet(ip, rest)), Some(expected), "{ip} {rest}");
    }
}

#[test]
fn the_option_of_a_converter_tells_where_the_connection_is_to_go() {
    let told = "198.51.100.7:8443".parse().expect("an address");
    assert_eq!(destination_option(told).to_vec(), hex("fe0a 5472 c6336407 20fb"));
    for (rest, destination) in [
        ("8002 ffff 0000 0000 fe0a 5472 c6336407 20fb 0101", Some(told)),
        ("9002 ffff 0000 0000 020405b4 fe0a 5472 c6336407 20fb 0101", Some(told)),
        // Another experiment (RFC 6994), of this length and of another one; and ours with a length that it has not.
        ("8002 ffff 0000 0000 fe0a 5473 c6336407 20fb 0101", None),
        ("6002 ffff 0000 0000 fe04 f989", None),
        ("8002 ffff 0000 0000 fe0b 5472 c6336407 20fb 0101", None),
    ] {
        let expected = Syn {
            destination,
            ..over4(false)
        };
        assert_eq!(parse(&packet(IP4, rest)), Some(expected), "{rest}");
    }
}

#[test]
fn what_is_no_whole_syn_is_none() {
    for (ip, rest) in [
        (IP4, "5012 ffff 0000 0000"),                                    // SYN and ACK
        (IP4, "5010 ffff 0000 0000"),                                    // ACK
        (IP4, "5003 ffff 0000 0000"),                                    // SYN and FIN
        (IP4, "4002 ffff 0000 0000"),                                    // a header shorter than any
        (IP4, "6002 ffff 0000 0000 1e00 0000"),                          // an option of length 0
        (IP4, "6002 ffff 0000 0000 1e01 0000"),                          // of length 1
        (IP4, "6002 ffff 0000 0000 1e05 0000"),                          // past the end
        (IP4, "6002 ffff 0000 0000 0101 011e"),                          // without a length
        ("4400 0000 0000 4000 4006 0000 0a000102 cb007102", NO_OPTIONS), // an IP header shorter than any
        ("4500 0000 0000 4000 4011 0000 0a000102 cb007102", NO_OPTIONS), // UDP
        ("4500 0000 0000 0001 4006 0000 0a000102 cb007102", NO_OPTIONS), // a later fragment
        ("5500 0000 0000 4000 4006 0000 0a000102 cb007102", NO_OPTIONS), // of no IP version that there is
        (
            "6000 0000 0000 0040 fd000001000000000000000000000002 20010db8000000000000000000000002",
            NO_OPTIONS, // hop-by-hop options come first
        ),
    ] {
        assert_eq!(parse(&packet(ip, rest)), None, "{ip} {rest}");
    }
}

#[test]
fn a_packet_cut_anywhere_is_none() {
    for ip in [IP4, IP4_OPTIONS, IP6] {
        let whole = packet(ip, "9002 ffff 0000 0000 020405b4 1e0c 1001 01020304 05060708");
        for length in 0..whole.len() {
            assert_eq!(parse(&whole[..length]), None, "{ip} cut at {length}");
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_at_all_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..128)) {
        let _ = parse(&bytes);
    }

    #[test]
    fn any_options_are_survived(options in prop::collection::vec(any::<u8>(), 40)) {
        let _ = parse(&[hex(IP4), hex(PORTS), hex("f002 ffff 0000 0000"), options].concat());
    }
}
