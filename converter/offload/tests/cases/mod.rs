//! Segments, and a table of what becomes of them: for the arithmetic in Rust and for the kernel's program alike.
#![allow(dead_code)] // each test uses some of it

pub mod segment;

use std::net::SocketAddr;

use tributary_offload::{Event, Leg, Outcome, Refusal, Timestamps, Translation};

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
    pub outcome: Outcome,
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
    let mut all: Vec<_> = [Ip::V4, Ip::V6].into_iter().flat_map(of_both).collect();
    all.extend(of_ipv4());
    all.extend(of_ipv6());
    all
}

fn of_both(ip: Ip) -> Vec<Case> {
    let mut all = forwarded(ip);
    all.extend(options(ip));
    all.extend(windows(ip));
    all.extend(left_alone(ip));
    all.extend(events(ip));
    all.extend(refused(ip));
    all.extend(refused_options(ip));
    all
}

fn forward(ip: Ip, name: &'static str, event: Event, from: &Segment, to: &Segment) -> Case {
    Case {
        ip,
        name,
        translation: upward(ip),
        packet: from.encode(),
        outcome: Outcome::Forward(event),
        result: to.encode(),
    }
}

fn forwarded(ip: Ip) -> Vec<Case> {
    let goes = |name, from: Segment, to: Segment| forward(ip, name, Event::Goes, &from, &to);
    let both =
        |change: &dyn Fn(Segment) -> Segment| (change(from_client(ip)), change(at_server(ip)));
    let mut cases = vec![goes("the next bytes", from_client(ip), at_server(ip))];
    let mut add = |name, event, (from, to): (Segment, Segment)| {
        cases.push(forward(ip, name, event, &from, &to));
    };
    add(
        "numbers beyond the wrap of sequence, acknowledgement and both clocks",
        Event::Goes,
        (
            Segment {
                seq: 2_000_100,
                ack: 1_000_500,
                options: timestamps(20_010, 10_020),
                ..from_client(ip)
            },
            Segment {
                seq: 0,
                ack: 0,
                options: timestamps(0, 0),
                ..at_server(ip)
            },
        ),
    );
    add(
        "payload of even length",
        Event::Goes,
        both(&|s| Segment {
            payload: vec![7; 1000],
            ..s
        }),
    );
    add(
        "no payload",
        Event::Goes,
        both(&|s| Segment {
            payload: vec![],
            ..s
        }),
    );
    cases.push(Case {
        ip,
        name: "padding behind the packet stays",
        translation: upward(ip),
        packet: [from_client(ip).encode(), vec![1, 2, 3]].concat(),
        outcome: Outcome::Forward(Event::Goes),
        result: [at_server(ip).encode(), vec![1, 2, 3]].concat(),
    });
    cases
}

/// Options that are rewritten.
fn options(ip: Ip) -> Vec<Case> {
    let with_options = |from, to| {
        (
            Segment {
                options: from,
                ..from_client(ip)
            },
            Segment {
                options: to,
                ..at_server(ip)
            },
        )
    };
    let mut cases = vec![];
    let mut add = |name, event, (from, to): (Segment, Segment)| {
        cases.push(forward(ip, name, event, &from, &to));
    };
    add("no options", Event::Goes, with_options(vec![], vec![]));
    add(
        "a selective acknowledgement across the wrap, behind timestamps",
        Event::Goes,
        with_options(
            [
                timestamps(20_001, 10_001),
                sack(&[(1_000_400, 1_000_600), (1_000_700, 1_000_800)]),
            ]
            .concat(),
            [
                timestamps(u32::MAX - 8, u32::MAX - 18),
                sack(&[(u32::MAX - 99, 100), (200, 300)]),
            ]
            .concat(),
        ),
    );
    add(
        "four selective acknowledgements",
        Event::Goes,
        with_options(
            sack(&[
                (1_000_000, 1_000_001),
                (1_000_002, 1_000_003),
                (1_000_004, 1_000_005),
                (1_000_500, 1_000_501),
            ]),
            sack(&[
                (u32::MAX - 499, u32::MAX - 498),
                (u32::MAX - 497, u32::MAX - 496),
                (u32::MAX - 495, u32::MAX - 494),
                (0, 1),
            ]),
        ),
    );
    add(
        "options at odd offsets, and what is behind the end of their list",
        Event::Goes,
        with_options(
            [&[1][..], &timestamps(20_001, 10_001)[2..], &[0, 8, 9, 8, 9]].concat(),
            [
                &[1][..],
                &timestamps(u32::MAX - 8, u32::MAX - 18)[2..],
                &[0, 8, 9, 8, 9],
            ]
            .concat(),
        ),
    );
    cases
}

/// What is not mere data.
fn events(ip: Ip) -> Vec<Case> {
    let both =
        |change: &dyn Fn(Segment) -> Segment| (change(from_client(ip)), change(at_server(ip)));
    let flagged = |flags| both(&|segment| Segment { flags, ..segment });
    let mut cases = vec![];
    let mut add = |name, event, (from, to): (Segment, Segment)| {
        cases.push(forward(ip, name, event, &from, &to));
    };
    add("an end of the data", Event::Fin, flagged(FIN | ACK));
    add("a reset", Event::Reset, flagged(RST | ACK));
    let unacknowledged = |segment: Segment, flags| Segment {
        flags,
        ack: 0,
        ..segment
    };
    let clock = |segment: &Segment| {
        segment.options[4..8]
            .try_into()
            .map(u32::from_be_bytes)
            .expect("a timestamp")
    };
    add(
        "a reset without acknowledgement, which echoes nothing",
        Event::Reset,
        both(&|s| Segment {
            options: timestamps(clock(&s), 0),
            ..unacknowledged(s, RST)
        }),
    );
    add(
        "a new beginning, whose window has no scale",
        Event::Syn,
        both(&|s| Segment {
            options: vec![2, 4, 5, 180],
            window: 64240,
            ..unacknowledged(s, SYN)
        }),
    );
    cases
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
    table
        .into_iter()
        .map(|(name, scale_in, scale_out, from, to)| {
            let from = Segment {
                window: from,
                ..from_client(ip)
            };
            let to = Segment {
                window: to,
                ..at_server(ip)
            };
            let case = forward(ip, name, Event::Goes, &from, &to);
            let translation = Translation {
                scale_in,
                scale_out,
                ..upward(ip)
            };
            Case {
                translation,
                ..case
            }
        })
        .collect()
}

fn unchanged(ip: Ip, name: &'static str, outcome: Outcome, packet: Vec<u8>) -> Case {
    Case {
        ip,
        name,
        translation: upward(ip),
        result: packet.clone(),
        packet,
        outcome,
    }
}

fn with_byte(ip: Ip, at: usize, value: u8) -> Vec<u8> {
    let mut packet = from_client(ip).encode();
    packet[at] = value;
    packet
}

fn left_alone(ip: Ip) -> Vec<Case> {
    let not_ours = |name, packet| unchanged(ip, name, Outcome::NotOurs, packet);
    let other = Segment {
        source: end(ip, "10.1.0.2:41001", "[2001:db8:1:8000::2]:41001"),
        ..from_client(ip)
    };
    let elsewhere = Segment {
        destination: end(ip, "10.1.0.3:8080", "[2001:db8:2::1]:8080"),
        ..from_client(ip)
    };
    let protocol = match ip {
        Ip::V4 => 9,
        Ip::V6 => 6,
    };
    vec![
        not_ours("another port", other.encode()),
        not_ours("another address", elsewhere.encode()),
        not_ours("the other direction", at_server(ip).encode()),
        not_ours("another protocol", with_byte(ip, protocol, 17)),
        not_ours("no version of IP", with_byte(ip, 0, 0x55)),
        not_ours(
            "ports cut off",
            from_client(ip).encode()[..ip.header() + 2].to_vec(),
        ),
    ]
}

fn refused(ip: Ip) -> Vec<Case> {
    let refused = |name, reason, packet| unchanged(ip, name, Outcome::Refuse(reason), packet);
    let long = from_client(ip).encode().len();
    // The lower bytes of what it says of its length, and of where the options of TCP end.
    let (length, least) = match ip {
        Ip::V4 => (3, 40),
        Ip::V6 => (5, 20),
    };
    let data_offset = ip.header() + 12;
    vec![
        refused(
            "cut off",
            Refusal::Malformed,
            from_client(ip).encode()[..long - 1].to_vec(),
        ),
        refused(
            "a length without room for TCP",
            Refusal::Malformed,
            with_byte(ip, length, least - 1),
        ),
        refused(
            "a TCP header shorter than any",
            Refusal::Malformed,
            with_byte(ip, data_offset, 0x40),
        ),
        refused(
            "a TCP header longer than its packet",
            Refusal::Malformed,
            with_byte(ip, data_offset, 0xf0),
        ),
        refused(
            "a hop too many",
            Refusal::TimeToLive,
            Segment {
                ttl: 1,
                ..from_client(ip)
            }
            .encode(),
        ),
        refused(
            "a new beginning with a window scale",
            Refusal::Option,
            Segment {
                options: vec![2, 4, 5, 180, 1, 3, 3, 7],
                flags: SYN,
                ack: 0,
                ..from_client(ip)
            }
            .encode(),
        ),
    ]
}

/// Options of IPv4, and packets in parts.
fn of_ipv4() -> Vec<Case> {
    let ip = Ip::V4;
    let in_parts = |fragment| {
        Segment {
            fragment,
            ..from_client(ip)
        }
        .encode()
    };
    let with_options = Segment {
        ip_options: vec![1, 1, 1, 0],
        ..from_client(ip)
    };
    let not_ours = |name, packet| unchanged(ip, name, Outcome::NotOurs, packet);
    let refused = |name, reason, packet| unchanged(ip, name, Outcome::Refuse(reason), packet);
    vec![
        not_ours("the rest of a packet in parts", in_parts(0x2010)),
        not_ours("an IP header shorter than any", with_byte(ip, 0, 0x44)),
        not_ours("another version", with_byte(ip, 0, 0x65)),
        refused("IP options", Refusal::IpOptions, with_options.encode()),
        refused(
            "the first part of a packet",
            Refusal::Fragment,
            in_parts(0x2000),
        ),
    ]
}

/// Extension headers, and an address that is none of a packet's.
fn of_ipv6() -> Vec<Case> {
    let ip = Ip::V6;
    let mut extended = from_client(ip).encode();
    // Eight bytes that say nothing: the next header's kind, no more length, and padding (RFC 8200 section 4.3).
    extended.splice(40..40, [6, 0, 1, 4, 0, 0, 0, 0]);
    extended[5] += 8;
    extended[6] = 0;
    let mapped = Segment {
        source: address("[::ffff:10.1.0.2]:41000"),
        destination: address("[::ffff:10.1.0.1]:8080"),
        ..from_client(ip)
    };
    let not_ours = |name, packet| unchanged(ip, name, Outcome::NotOurs, packet);
    vec![
        not_ours("an extension header", extended),
        not_ours("another version", with_byte(ip, 0, 0x45)),
        Case {
            translation: upward(Ip::V4),
            ..not_ours(
                "the mapped addresses of a connection of IPv4",
                mapped.encode(),
            )
        },
    ]
}

/// Options that are none, or that nobody here knows.
fn refused_options(ip: Ip) -> Vec<Case> {
    let refused = |name, reason, packet| unchanged(ip, name, Outcome::Refuse(reason), packet);
    let with = |options: &[u8]| {
        let options = options.to_vec();
        Segment {
            options,
            ..from_client(ip)
        }
        .encode()
    };
    vec![
        refused("an unknown option", Refusal::Option, with(&[30, 4, 0, 0])),
        refused(
            "an unknown option behind known ones",
            Refusal::Option,
            with(&[timestamps(20_000, 10_000), vec![254, 4, 0, 0]].concat()),
        ),
        refused(
            "MSS outside of a SYN",
            Refusal::Option,
            with(&[2, 4, 5, 180]),
        ),
        refused("window scale", Refusal::Option, with(&[1, 3, 3, 7])),
        refused(
            "an option without length",
            Refusal::Malformed,
            with(&[1, 1, 1, 8]),
        ),
        refused(
            "an option of length 0",
            Refusal::Malformed,
            with(&[8, 0, 0, 0]),
        ),
        refused(
            "an option of length 1",
            Refusal::Malformed,
            with(&[5, 1, 0, 0]),
        ),
        refused(
            "an option that goes on behind the header",
            Refusal::Malformed,
            with(&[8, 10, 0, 0]),
        ),
        refused(
            "timestamps of another length",
            Refusal::Malformed,
            with(&[8, 4, 0, 0]),
        ),
        refused(
            "half a selective acknowledgement",
            Refusal::Malformed,
            with(&[5, 6, 0, 0, 0, 0, 1, 1]),
        ),
        refused(
            "no selective acknowledgement in its option",
            Refusal::Malformed,
            with(&[5, 2, 1, 1]),
        ),
    ]
}
