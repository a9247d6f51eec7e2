//! A router's word that a packet was too long gets to who sent it (RFC 1191, RFC 8201), as if there were no translation.
//! `tests/netns/test_offload.py` runs this, as root in a network namespace of its own.

mod cases;

use std::net::{IpAddr, SocketAddr};

use cases::segment::{Ip, Segment, checksum};
use cases::{address, both_ways, from_server, to_client, to_server};
use tributary_offload::{Action, Devices, Leg, Translator};

const MTU: u16 = 1280;
const HERE: u32 = 1;

/// The message of a router to `destination` about `packet`.
fn message(router: IpAddr, destination: IpAddr, hops: u8, packet: &[u8]) -> Vec<u8> {
    match (router, destination) {
        (IpAddr::V4(router), IpAddr::V4(destination)) => {
            let mut icmp = vec![3, 4, 0, 0, 0, 0];
            icmp.extend(MTU.to_be_bytes());
            icmp.extend(packet);
            let sum = checksum(&icmp);
            icmp[2..4].copy_from_slice(&sum.to_be_bytes());
            let length = u16::try_from(20 + icmp.len()).expect("a packet");
            let mut ip = vec![0x45, 0];
            ip.extend(length.to_be_bytes());
            ip.extend([0, 0, 0, 0, hops, 1, 0, 0]);
            ip.extend([router.octets(), destination.octets()].as_flattened());
            let sum = checksum(&ip);
            ip[10..12].copy_from_slice(&sum.to_be_bytes());
            [ip, icmp].concat()
        }
        (IpAddr::V6(router), IpAddr::V6(destination)) => {
            let ends = [router.octets(), destination.octets()].concat();
            let mut icmp = vec![2, 0, 0, 0, 0, 0];
            icmp.extend(MTU.to_be_bytes());
            icmp.extend(packet);
            let length = u16::try_from(icmp.len()).expect("a packet").to_be_bytes();
            let pseudo = [&ends[..], &[0, 0], &length, &[0, 0, 0, 58]].concat();
            let sum = checksum(&[pseudo, icmp.clone()].concat());
            icmp[2..4].copy_from_slice(&sum.to_be_bytes());
            [&[0x60, 0, 0, 0][..], &length, &[58, hops], &ends, &icmp].concat()
        }
        _ => panic!("one version of IP"),
    }
}

/// A segment of the server's, and what the client was sent of it; both without options, as only their beginnings matter.
fn sent(ip: Ip) -> [Segment; 2] {
    let here = Segment {
        options: vec![],
        seq: to_server(ip).rcv_nxt.wrapping_add(7),
        payload: vec![5; 64],
        ..from_server(ip)
    };
    let there = Segment {
        source: to_client(ip).local,
        destination: to_client(ip).remote,
        seq: to_client(ip).snd_nxt.wrapping_add(7),
        ..here.clone()
    };
    [here, there]
}

/// How many bytes of a packet say which one it was: its header, ports and sequence number.
fn told(ip: Ip) -> usize {
    ip.header() + 8
}

fn router(ip: Ip) -> IpAddr {
    let end: SocketAddr = match ip {
        Ip::V4 => address("192.0.2.77:0"),
        Ip::V6 => address("[2001:db8:77::1]:0"),
    };
    end.ip()
}

fn translator(ip: Ip, comes_by: Option<u32>) -> Translator {
    let translator = Translator::load().expect("loaded");
    let devices = Devices {
        comes_by,
        goes_by: HERE,
    };
    for each in both_ways(ip) {
        translator.insert(&each, devices).expect("there");
    }
    translator
}

#[test]
#[ignore = "needs root"]
fn it_is_about_the_packet_as_its_sender_sent_it_with_checksums_that_are_right() {
    for ip in [Ip::V4, Ip::V6] {
        let translator = translator(ip, Some(HERE));
        let [here, there] = sent(ip).map(|segment| segment.encode());
        // As little as it may tell, and more of it.
        for more in [0, 4, 12] {
            let told_there = &there[..told(ip) + more];
            let mut packet = message(router(ip), to_client(ip).local.ip(), 64, told_there);
            let action = translator.try_on(&mut packet).expect("run");
            assert_eq!(action, Action::Redirect, "{ip:?}");
            let quoted = [&here[..told(ip)], &told_there[told(ip)..]].concat();
            // IPv4's header has a sum, which follows from the one that is told.
            let Leg { local, remote, .. } = to_server(ip);
            let expected = message(local.ip(), remote.ip(), 63, &quoted);
            assert_eq!(packet, expected, "{ip:?}, {more}");
        }
    }
}

#[test]
#[ignore = "needs root"]
fn one_from_elsewhere_is_dropped_and_one_about_nobody_here_is_left_alone() {
    for ip in [Ip::V4, Ip::V6] {
        let [here, there] = sent(ip).map(|segment| segment.encode());
        let about = |packet: &[u8]| message(router(ip), to_client(ip).local.ip(), 64, packet);
        let act = |translator: &Translator, mut packet: Vec<u8>| translator.try_on(&mut packet).expect("run");
        let forged = about(&there[..told(ip)]);
        let other_device = translator(ip, Some(HERE + 1));
        assert_eq!(act(&other_device, forged.clone()), Action::Drop);
        let translator = translator(ip, None);
        assert_eq!(act(&translator, forged.clone()), Action::Redirect);
        let mut other_reason = forged;
        other_reason[ip.header()] += 1;
        for other in [about(&here[..told(ip)]), about(&there[..told(ip) - 1]), other_reason] {
            assert_eq!(act(&translator, other), Action::Unspecified);
        }
    }
}
