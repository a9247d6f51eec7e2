//! Segments, and a table of what becomes of them: for the arithmetic in Rust and for the kernel's program alike.
#![allow(dead_code)] // each test uses some of it

pub mod segment;

use std::net::SocketAddr;

use tributary_offload::{Action, Leg, Timestamps, Translation};

use segment::{ACK, FIN, Ip, PSH, RST, SYN, Segment, sack, timestamps};

pub fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn end(ip: Ip, v4: &str, v6: &str) -> SocketAddr {
    address(match ip {
        Ip::V4 => v4,
        Ip::V6 => v6,
    })
}

/// The leg to the client, in the middle of its numbers.
pub fn to_client(ip: Ip) -> Leg {
    Leg {
        local: end(ip, "10.1.0.1:8080", "[2001:db8:1::1]:8080"),
        remote: end(ip, "10.1.0.2:41000", "[2001:db8:1:8000::2]:41000"),
        snd_nxt: 1_000_000,
        rcv_nxt: 2_000_000,
        room: 50_000,
        snd_scale: 7,
        rcv_scale: 7,
        timestamps: Some(Timestamps {
            ours: 10_000,
            theirs: 20_000,
        }),
        sack: true,
        mss_in: 1460,
        mss_out: 1460,
    }
}

/// The leg to the server: all of its numbers are about to wrap.
pub fn to_server(ip: Ip) -> Leg {
    Leg {
        local: end(ip, "10.2.0.1:52000", "[fd00:2:0:ffff::1]:52000"),
        remote: end(ip, "10.2.0.9:80", "[fd00:2::9:9]:80"),
        snd_nxt: u32::MAX - 99,
        rcv_nxt: u32::MAX - 499,
        snd_scale: 10,
        rcv_scale: 4,
        timestamps: Some(Timestamps {
            ours: u32::MAX - 9,
            theirs: u32::MAX - 19,
        }),
        ..to_client(ip)
    }
}

/// A segment from the client: its next bytes.
pub fn from_client(ip: Ip) -> Segment {
    Segment {
        source: to_client(ip).remote,
        destination: to_client(ip).local,
        ttl: 64,
        fragment: 0x4000,
        ip_options: vec![],
        seq: 2_000_000,
        ack: 1_000_000,
        flags: ACK | PSH,
        window: 100,
        options: timestamps(20_000, 10_000),
        payload: b"hello".to_vec(),
    }
}

/// The same as the server gets it.
pub fn at_server(ip: Ip) -> Segment {
    Segment {
        source: to_server(ip).local,
        destination: to_server(ip).remote,
        ttl: 63,
        seq: u32::MAX - 99,
        ack: u32::MAX - 499,
        window: 800, // 100 * 2^7 / 2^4
        options: timestamps(u32::MAX - 9, u32::MAX - 19),
        ..from_client(ip)
    }
}

/// A segment from the server: its next bytes.
pub fn from_server(ip: Ip) -> Segment {
    Segment {
        source: to_server(ip).remote,
        destination: to_server(ip).local,
        seq: to_server(ip).rcv_nxt,
        ack: to_server(ip).snd_nxt,
        options: timestamps(u32::MAX - 19, u32::MAX - 9),
        ..from_client(ip)
    }
}

/// A packet, what is to become of it, and as what it goes on.
pub struct Case {
    pub ip: Ip,
    pub name: &'static str,
    pub translation: Translation,
    pub packet: Vec<u8>,
    pub action: Action,
    pub result: Vec<u8>,
}

/// What comes from the client, and from the server.
pub fn both_ways(ip: Ip) -> [Translation; 2] {
    Translation::between(&to_client(ip), &to_server(ip)).expect("they fit")
}

/// What comes from the client.
pub fn upward(ip: Ip) -> Translation {
    both_ways(ip)[0]
}

/// The table for both versions, and what only one of them has.
pub fn cases() -> Vec<Case> {
    let both = [Ip::V4, Ip::V6].into_iter().flat_map(of_both);
    both.chain(of_ipv4()).chain(of_ipv6()).collect()
}

fn of_both(ip: Ip) -> impl Iterator<Item = Case> {
    let all = [
        forwarded(ip),
        windows(ip),
        left_alone(ip),
        refused(ip),
        refused_options(ip),
    ];
    all.into_iter().flatten()
}

fn goes(ip: Ip, name: &'static str, from: &Segment, to: &Segment) -> Case {
    Case {
        ip,
        name,
        translation: upward(ip),
        packet: from.encode(),
        action: Action::Redirect,
        result: to.encode(),
    }
}

fn forwarded(ip: Ip) -> Vec<Case> {
    let both = |name, change: &dyn Fn(&mut Segment)| {
        goes(ip, name, &from_client(ip).with(change), &at_server(ip).with(change))
    };
    let options = |name, from: &[Vec<u8>], to: &[Vec<u8>]| {
        let from = from_client(ip).with(|s| s.options = from.concat());
        goes(ip, name, &from, &at_server(ip).with(|s| s.options = to.concat()))
    };
    let numbers = |seq, ack, tsval, tsecr| {
        move |s: &mut Segment| (s.seq, s.ack, s.options) = (seq, ack, timestamps(tsval, tsecr))
    };
    let padded = |segment: Segment| [segment.encode(), vec![1, 2, 3]].concat();
    vec![
        both("the next bytes", &|_| {}),
        goes(
            ip,
            "numbers beyond the wrap of sequence, acknowledgement and both clocks",
            &from_client(ip).with(numbers(2_000_100, 1_000_500, 20_010, 10_020)),
            &at_server(ip).with(numbers(0, 0, 0, 0)),
        ),
        both("payload of even length", &|s| s.payload = vec![7; 1000]),
        both("no payload", &|s| s.payload = vec![]),
        Case {
            packet: padded(from_client(ip)),
            result: padded(at_server(ip)),
            ..both("padding behind the packet stays", &|_| {})
        },
        options("no options", &[], &[]),
        options(
            "a selective acknowledgement across the wrap, behind timestamps",
            &[
                timestamps(20_001, 10_001),
                sack(&[(1_000_400, 1_000_600), (1_000_700, 1_000_800)]),
            ],
            &[
                timestamps(u32::MAX - 8, u32::MAX - 18),
                sack(&[(u32::MAX - 99, 100), (200, 300)]),
            ],
        ),
        options(
            "four selective acknowledgements",
            &[sack(&[0, 2, 4, 500].map(|at| (1_000_000 + at, 1_000_001 + at)))],
            &[sack(&[
                (u32::MAX - 499, u32::MAX - 498),
                (u32::MAX - 497, u32::MAX - 496),
                (u32::MAX - 495, u32::MAX - 494),
                (0, 1),
            ])],
        ),
        options(
            "options at odd offsets, and what is behind the end of their list",
            &[timestamps(20_001, 10_001)[1..].to_vec(), vec![0, 8, 9, 8, 9]],
            &[
                timestamps(u32::MAX - 8, u32::MAX - 18)[1..].to_vec(),
                vec![0, 8, 9, 8, 9],
            ],
        ),
        both("an end of the data", &|s| s.flags = FIN | ACK),
        both("a reset", &|s| s.flags = RST | ACK),
        both("a reset without acknowledgement, which echoes nothing", &|s| {
            (s.flags, s.ack) = (RST, 0);
            s.options[8..].fill(0);
        }),
        both("a new beginning, whose window has no scale", &|s| {
            (s.flags, s.ack, s.window) = (SYN, 0, 64240);
            s.options = vec![2, 4, 5, 180];
        }),
    ]
}

/// Windows by the scales of who sends them and of who gets them.
fn windows(ip: Ip) -> Vec<Case> {
    let table = [
        ("a window in smaller units", 7, 4, 100, 800),
        ("a window in greater units", 0, 7, 255, 1),
        ("a window smaller than a unit", 3, 7, 15, 0),
        ("a window that does not fit its field", 14, 0, 4, 65535),
        ("a window that just fits", 14, 0, 3, 49152),
        ("the greatest of all windows", 14, 14, 65535, 65535),
    ];
    let case = |(name, scale_in, scale_out, from, to)| {
        let from = from_client(ip).with(|s| s.window = from);
        let mut case = goes(ip, name, &from, &at_server(ip).with(|s| s.window = to));
        (case.translation.scale_in, case.translation.scale_out) = (scale_in, scale_out);
        case
    };
    table.map(case).into()
}

fn unchanged(ip: Ip, name: &'static str, action: Action, packet: Vec<u8>) -> Case {
    Case {
        ip,
        name,
        translation: upward(ip),
        result: packet.clone(),
        packet,
        action,
    }
}

fn with_byte(ip: Ip, at: usize, value: u8) -> Vec<u8> {
    let mut packet = from_client(ip).encode();
    packet[at] = value;
    packet
}

fn left_alone(ip: Ip) -> Vec<Case> {
    let other = end(ip, "10.1.0.2:41001", "[2001:db8:1:8000::2]:41001");
    let elsewhere = end(ip, "10.1.0.3:8080", "[2001:db8:2::1]:8080");
    let protocol = match ip {
        Ip::V4 => 9,
        Ip::V6 => 6,
    };
    let cut = from_client(ip).encode()[..ip.header() + 2].to_vec();
    [
        ("another port", from_client(ip).with(|s| s.source = other).encode()),
        (
            "another address",
            from_client(ip).with(|s| s.destination = elsewhere).encode(),
        ),
        ("the other direction", at_server(ip).encode()),
        ("another protocol", with_byte(ip, protocol, 17)),
        ("no version of IP", with_byte(ip, 0, 0x55)),
        ("ports cut off", cut),
    ]
    .map(|(name, packet)| unchanged(ip, name, Action::Unspecified, packet))
    .into()
}

fn refused(ip: Ip) -> Vec<Case> {
    let mut cut = from_client(ip).encode();
    cut.pop();
    // The lower bytes of what it says of its length, and of where the options of TCP end.
    let (length, least) = match ip {
        Ip::V4 => (3, 40),
        Ip::V6 => (5, 20),
    };
    let data_offset = ip.header() + 12;
    let scaled = from_client(ip).with(|s| {
        (s.flags, s.ack) = (SYN, 0);
        s.options = vec![2, 4, 5, 180, 1, 3, 3, 7];
    });
    [
        ("cut off", cut),
        ("a length without room for TCP", with_byte(ip, length, least - 1)),
        ("a TCP header shorter than any", with_byte(ip, data_offset, 0x40)),
        ("a TCP header longer than its packet", with_byte(ip, data_offset, 0xf0)),
        ("a hop too many", from_client(ip).with(|s| s.ttl = 1).encode()),
        ("a new beginning with a window scale", scaled.encode()),
    ]
    .map(|(name, packet)| unchanged(ip, name, Action::Drop, packet))
    .into()
}

/// Options of IPv4, and packets in parts.
fn of_ipv4() -> Vec<Case> {
    let ip = Ip::V4;
    let in_parts = |fragment| from_client(ip).with(|s| s.fragment = fragment).encode();
    let with_options = from_client(ip).with(|s| s.ip_options = vec![1, 1, 1, 0]);
    [
        ("the rest of a packet in parts", Action::Unspecified, in_parts(0x2010)),
        (
            "an IP header shorter than any",
            Action::Unspecified,
            with_byte(ip, 0, 0x44),
        ),
        ("another version", Action::Unspecified, with_byte(ip, 0, 0x65)),
        ("IP options", Action::Drop, with_options.encode()),
        ("the first part of a packet", Action::Drop, in_parts(0x2000)),
    ]
    .map(|(name, action, packet)| unchanged(ip, name, action, packet))
    .into()
}

/// Extension headers, and an address that is none of a packet's.
fn of_ipv6() -> Vec<Case> {
    let ip = Ip::V6;
    let mut extended = from_client(ip).encode();
    // Eight bytes that say nothing: the next header's kind, no more length, and padding (RFC 8200 section 4.3).
    extended.splice(40..40, [6, 0, 1, 4, 0, 0, 0, 0]);
    extended[5] += 8;
    extended[6] = 0;
    let mapped = from_client(ip).with(|s| {
        s.source = address("[::ffff:10.1.0.2]:41000");
        s.destination = address("[::ffff:10.1.0.1]:8080");
    });
    let not_ours = |name, packet| unchanged(ip, name, Action::Unspecified, packet);
    vec![
        not_ours("an extension header", extended),
        not_ours("another version", with_byte(ip, 0, 0x45)),
        Case {
            translation: upward(Ip::V4),
            ..not_ours("the mapped addresses of a connection of IPv4", mapped.encode())
        },
    ]
}

/// Options that are none, or that nobody here knows.
fn refused_options(ip: Ip) -> Vec<Case> {
    let behind = [timestamps(20_000, 10_000), vec![254, 4, 0, 0]].concat();
    let options: [(_, &[u8]); 11] = [
        ("an unknown option", &[30, 4, 0, 0]),
        ("an unknown option behind known ones", &behind),
        ("MSS outside of a SYN", &[2, 4, 5, 180]),
        ("window scale", &[1, 3, 3, 7]),
        ("an option without length", &[1, 1, 1, 8]),
        ("an option of length 0", &[8, 0, 0, 0]),
        ("an option of length 1", &[5, 1, 0, 0]),
        ("an option that goes on behind the header", &[8, 10, 0, 0]),
        ("timestamps of another length", &[8, 4, 0, 0]),
        ("half a selective acknowledgement", &[5, 6, 0, 0, 0, 0, 1, 1]),
        ("no selective acknowledgement in its option", &[5, 2, 1, 1]),
    ];
    options
        .map(|(name, options)| {
            let segment = from_client(ip).with(|s| s.options = options.to_vec());
            unchanged(ip, name, Action::Drop, segment.encode())
        })
        .into()
}
