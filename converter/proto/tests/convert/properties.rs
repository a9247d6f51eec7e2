//! What holds for every message and for all bytes.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

use proptest::collection::vec;
use proptest::prelude::*;
use tributary_proto::convert::{
    Connect, ErrorTlv, Reply, Request, SUPPORTED_TCP_EXTENSIONS, TcpOption, Tlv, client, encode, parse, server,
    tlv_type,
};

use crate::incremental::accepts;

/// Bytes that fill words behind `used` bytes of the first one.
fn words(used: usize, most: usize) -> impl Strategy<Value = Vec<u8>> {
    (0..most).prop_flat_map(move |words| vec(any::<u8>(), (4 - used) % 4 + words * 4))
}

fn list() -> impl Strategy<Value = Vec<u8>> {
    vec(1..=255_u8, 0..12)
}

fn option() -> impl Strategy<Value = TcpOption> {
    (2..=255_u8, vec(any::<u8>(), 0..18)).prop_map(|(kind, value)| TcpOption { kind, value })
}

fn peer() -> impl Strategy<Value = SocketAddrV6> {
    (any::<Ipv6Addr>(), any::<u16>()).prop_map(|(ip, port)| SocketAddrV6::new(ip, port, 0, 0))
}

fn error() -> impl Strategy<Value = ErrorTlv> {
    prop_oneof![
        list().prop_map(ErrorTlv::UnsupportedVersion),
        words(0, 8).prop_map(ErrorTlv::MalformedMessage),
        words(0, 8).prop_map(ErrorTlv::UnsupportedMessage),
        words(0, 8).prop_map(ErrorTlv::MissingCookie),
        Just(ErrorTlv::NotAuthorized),
        list().prop_map(ErrorTlv::UnsupportedTcpOption),
        any::<u8>().prop_map(|delay| ErrorTlv::ResourceExceeded { delay }),
        any::<u8>().prop_map(|delay| ErrorTlv::NetworkFailure { delay }),
        Just(ErrorTlv::ConnectionReset),
        any::<u8>().prop_map(|icmp_code| ErrorTlv::DestinationUnreachable { icmp_code }),
        (98..=255_u8, words(3, 8)).prop_map(|(code, value)| ErrorTlv::Unknown { code, value }),
    ]
}

fn tlv() -> impl Strategy<Value = Tlv> {
    prop_oneof![
        Just(Tlv::Info),
        (peer(), proptest::option::of(vec(option(), 0..6))).prop_map(|(peer, options)| Tlv::Connect { peer, options }),
        words(0, 10).prop_map(Tlv::ExtendedTcpHeader),
        list().prop_map(Tlv::SupportedTcpExtensions),
        words(0, 10).prop_map(Tlv::Cookie),
        error().prop_map(Tlv::Error),
        vec(any::<u64>(), 0..6).prop_map(Tlv::PathTrace),
        vec(peer(), 0..6).prop_map(Tlv::SourceRoute),
        Just(Tlv::Reuse),
        (31..=255_u8, words(2, 10))
            .prop_filter("one that is not known", |(kind, _)| { !OWN.contains(kind) })
            .prop_map(|(kind, value)| Tlv::Unknown { kind, value }),
    ]
}

/// The types of this project's own.
const OWN: [u8; 3] = [tlv_type::PATH_TRACE, tlv_type::SOURCE_ROUTE, tlv_type::REUSE];

fn tlvs() -> impl Strategy<Value = Vec<Tlv>> {
    vec(tlv(), 0..6).prop_map(|mut tlvs| {
        let mut kinds = HashSet::new();
        tlvs.retain(|tlv| kinds.insert(tlv.kind()));
        tlvs
    })
}

/// Where a connection can go.
fn target() -> impl Strategy<Value = SocketAddr> {
    let peer = (any::<IpAddr>(), 1..=65535_u16).prop_filter("a peer", |(ip, _)| {
        let ip = ip.to_canonical();
        let broadcast = matches!(ip, IpAddr::V4(v4) if v4.is_broadcast());
        !(ip.is_multicast() || ip.is_loopback() || ip.is_unspecified() || broadcast)
    });
    peer.prop_map(|(ip, port)| SocketAddr::new(ip.to_canonical(), port))
}

fn request() -> impl Strategy<Value = Request> {
    let options = proptest::sample::subsequence(SUPPORTED_TCP_EXTENSIONS.to_vec(), 0..=3);
    let connect = (target(), proptest::option::of(options)).prop_map(|(target, options)| {
        let options = options.map(|kinds| kinds.into_iter().map(TcpOption::empty).collect::<Vec<_>>());
        Connect { target, options }
    });
    (
        any::<bool>(),
        proptest::option::of(connect),
        proptest::option::of(words(0, 8)),
        vec(any::<u64>(), 0..6),
        proptest::option::of(vec(target(), 0..6)),
        any::<bool>(),
    )
        .prop_filter("asks something", |(info, connect, ..)| *info || connect.is_some())
        .prop_map(|(info, connect, cookie, path_trace, source_route, reuse)| Request {
            info,
            connect,
            cookie,
            path_trace,
            source_route,
            reuse,
        })
}

/// Bytes that are often near to a message.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let near = (
        tlvs(),
        vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        any::<bool>(),
    );
    prop_oneof![
        vec(any::<u8>(), 0..64),
        near.prop_map(|(tlvs, changes, trailing)| {
            let mut bytes = encode(&tlvs).expect("short TLVs");
            for (index, byte) in changes {
                let index = index.index(bytes.len());
                bytes[index] = byte;
            }
            bytes.extend(trailing.then_some(0x5a));
            bytes
        }),
    ]
}

proptest! {
    #[test]
    fn every_message_survives_the_wire(tlvs in tlvs()) {
        accepts(parse, &encode(&tlvs).expect("short TLVs"), &tlvs);
    }

    #[test]
    fn every_request_survives_the_wire(request in request()) {
        let bytes = request.encode().expect("short TLVs");
        accepts(|bytes| server::parse(bytes, &SUPPORTED_TCP_EXTENSIONS), &bytes, &request);
    }

    #[test]
    fn every_reply_survives_the_wire(
        header in proptest::option::of(words(0, 10)),
        kinds in proptest::option::of(proptest::sample::subsequence(vec![4, 8, 30, 34], 0..=4)),
    ) {
        let reply = Reply { extended_tcp_header: header, supported_tcp_extensions: kinds };
        accepts(client::parse, &reply.encode(), &client::Answer::Established(reply.clone()));
    }

    #[test]
    fn every_error_survives_the_wire(error in error()) {
        accepts(client::parse, &error.encode(), &client::Answer::Refused(error.clone()));
    }

    #[test]
    fn a_decision_stands_whatever_follows(bytes in bytes(), cut in any::<prop::sample::Index>()) {
        let cut = cut.index(bytes.len() + 1);
        let early = server::parse(&bytes[..cut], &SUPPORTED_TCP_EXTENSIONS);
        if early != Ok(None) {
            prop_assert_eq!(server::parse(&bytes, &SUPPORTED_TCP_EXTENSIONS), early);
        }
        let early = client::parse(&bytes[..cut]);
        if early != Ok(None) {
            prop_assert_eq!(client::parse(&bytes), early);
        }
    }

    #[test]
    fn a_refusal_never_exceeds_a_message(bytes in bytes()) {
        if let Err(refusal) = server::parse(&bytes, &SUPPORTED_TCP_EXTENSIONS) {
            let reply = refusal.error.map(|error| error.encode().len());
            prop_assert!(reply.is_none_or(|length| length <= 1020 && length % 4 == 0));
        }
    }
}
