//! Segments, and a table of what becomes of them: for the arithmetic in Rust and for the kernel's program alike.
#![allow(dead_code)] // each test uses some of it

use std::net::{IpAddr, SocketAddr};

use tributary_transplant::{Event, Leg, Outcome, Refusal, Timestamps, Translation};

pub const FIN: u8 = 0x01;
pub const SYN: u8 = 0x02;
pub const RST: u8 = 0x04;
pub const PSH: u8 = 0x08;
pub const ACK: u8 = 0x10;

/// A TCP segment in an IPv4 packet.
#[derive(Clone, Debug)]
pub struct Segment {
    pub source: SocketAddr,
    pub destination: SocketAddr,
    pub ttl: u8,
    pub fragment: u16,
    pub ip_options: Vec<u8>,
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub window: u16,
    pub options: Vec<u8>,
    pub payload: Vec<u8>,
}

impl Segment {
    /// Its bytes, with both checksums computed over everything.
    pub fn encode(&self) -> Vec<u8> {
        let tcp = self.tcp();
        let header = 20 + self.ip_options.len();
        let total = u16::try_from(header + tcp.len()).expect("a packet");
        let mut ip = vec![0x40 | u8::try_from(header / 4).expect("a header"), 0];
        ip.extend(total.to_be_bytes());
        ip.extend([0x12, 0x34]);
        ip.extend(self.fragment.to_be_bytes());
        ip.extend([self.ttl, 6, 0, 0]);
        ip.extend(octets(self.source));
        ip.extend(octets(self.destination));
        ip.extend(&self.ip_options);
        let sum = checksum(&ip);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        [ip, tcp].concat()
    }

    fn tcp(&self) -> Vec<u8> {
        let header = u8::try_from(20 + self.options.len()).expect("options");
        let mut tcp = self.source.port().to_be_bytes().to_vec();
        tcp.extend(self.destination.port().to_be_bytes());
        tcp.extend(self.seq.to_be_bytes());
        tcp.extend(self.ack.to_be_bytes());
        tcp.extend([header << 2, self.flags]);
        tcp.extend(self.window.to_be_bytes());
        tcp.extend([0, 0, 0, 0]);
        tcp.extend(&self.options);
        tcp.extend(&self.payload);
        let sum = checksum(&[self.pseudo_header(tcp.len()), tcp.clone()].concat());
        tcp[16..18].copy_from_slice(&sum.to_be_bytes());
        tcp
    }

    fn pseudo_header(&self, length: usize) -> Vec<u8> {
        let mut bytes = octets(self.source);
        bytes.extend(octets(self.destination));
        bytes.extend([0, 6]);
        bytes.extend(u16::try_from(length).expect("a segment").to_be_bytes());
        bytes
    }
}

fn octets(end: SocketAddr) -> Vec<u8> {
    match end.ip() {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// The Internet checksum of all of `bytes` (RFC 1071 section 4.1).
pub fn checksum(bytes: &[u8]) -> u16 {
    let mut sum = 0_u64;
    for pair in bytes.chunks(2) {
        sum += u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).expect("folded")
}

/// Whether both checksums of a packet without IP options are right.
pub fn is_whole(packet: &[u8]) -> bool {
    let total = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
    let length = u16::try_from(total - 20).expect("a segment").to_be_bytes();
    let tcp = [&packet[12..20], &[0, 6], &length, &packet[20..total]].concat();
    checksum(&packet[..20]) == 0 && checksum(&tcp) == 0
}

pub fn timestamps(tsval: u32, tsecr: u32) -> Vec<u8> {
    let mut option = vec![1, 1, 8, 10];
    option.extend(tsval.to_be_bytes());
    option.extend(tsecr.to_be_bytes());
    option
}

pub fn sack(blocks: &[(u32, u32)]) -> Vec<u8> {
    let mut option = vec![
        1,
        1,
        5,
        u8::try_from(2 + 8 * blocks.len()).expect("4 blocks"),
    ];
    for (left, right) in blocks {
        option.extend(left.to_be_bytes());
        option.extend(right.to_be_bytes());
    }
    option
}

pub fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// The leg to the client, in the middle of its numbers.
pub fn to_client() -> Leg {
    Leg {
        local: address("10.1.0.1:8080"),
        remote: address("10.1.0.2:41000"),
        snd_nxt: 1_000_000,
        rcv_nxt: 2_000_000,
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
pub fn to_server() -> Leg {
    Leg {
        local: address("10.2.0.1:52000"),
        remote: address("10.2.0.9:80"),
        snd_nxt: u32::MAX - 99,
        rcv_nxt: u32::MAX - 499,
        snd_scale: 10,
        rcv_scale: 4,
        timestamps: Some(Timestamps {
            ours: u32::MAX - 9,
            theirs: u32::MAX - 19,
        }),
        ..to_client()
    }
}

/// A segment from the client: its next bytes.
pub fn from_client() -> Segment {
    Segment {
        source: to_client().remote,
        destination: to_client().local,
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
pub fn at_server() -> Segment {
    Segment {
        source: to_server().local,
        destination: to_server().remote,
        ttl: 63,
        seq: u32::MAX - 99,
        ack: u32::MAX - 499,
        window: 800, // 100 * 2^7 / 2^4
        options: timestamps(u32::MAX - 9, u32::MAX - 19),
        ..from_client()
    }
}

/// A packet, what is to become of it, and as what it goes on.
pub struct Case {
    pub name: &'static str,
    pub translation: Translation,
    pub packet: Vec<u8>,
    pub outcome: Outcome,
    pub result: Vec<u8>,
}

/// What comes from the client.
pub fn upward() -> Translation {
    Translation::between(&to_client(), &to_server()).expect("they fit")[0]
}

pub fn cases() -> Vec<Case> {
    let mut all = forwarded();
    all.extend(options());
    all.extend(windows());
    all.extend(left_alone());
    all.extend(events());
    all.extend(refused());
    all.extend(refused_options());
    all
}

fn forward(name: &'static str, event: Event, from: &Segment, to: &Segment) -> Case {
    Case {
        name,
        translation: upward(),
        packet: from.encode(),
        outcome: Outcome::Forward(event),
        result: to.encode(),
    }
}

fn forwarded() -> Vec<Case> {
    let goes = |name, from: Segment, to: Segment| forward(name, Event::Goes, &from, &to);
    let both = |change: &dyn Fn(Segment) -> Segment| (change(from_client()), change(at_server()));
    let mut cases = vec![goes("the next bytes", from_client(), at_server())];
    let mut add =
        |name, event, (from, to): (Segment, Segment)| cases.push(forward(name, event, &from, &to));
    add(
        "numbers beyond the wrap of sequence, acknowledgement and both clocks",
        Event::Goes,
        (
            Segment {
                seq: 2_000_100,
                ack: 1_000_500,
                options: timestamps(20_010, 10_020),
                ..from_client()
            },
            Segment {
                seq: 0,
                ack: 0,
                options: timestamps(0, 0),
                ..at_server()
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
        name: "padding behind the packet stays",
        translation: upward(),
        packet: [from_client().encode(), vec![1, 2, 3]].concat(),
        outcome: Outcome::Forward(Event::Goes),
        result: [at_server().encode(), vec![1, 2, 3]].concat(),
    });
    cases
}

/// Options that are rewritten.
fn options() -> Vec<Case> {
    let with_options = |from, to| {
        (
            Segment {
                options: from,
                ..from_client()
            },
            Segment {
                options: to,
                ..at_server()
            },
        )
    };
    let mut cases = vec![];
    let mut add =
        |name, event, (from, to): (Segment, Segment)| cases.push(forward(name, event, &from, &to));
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
fn events() -> Vec<Case> {
    let both = |change: &dyn Fn(Segment) -> Segment| (change(from_client()), change(at_server()));
    let flagged = |flags| both(&|segment| Segment { flags, ..segment });
    let mut cases = vec![];
    let mut add =
        |name, event, (from, to): (Segment, Segment)| cases.push(forward(name, event, &from, &to));
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
fn windows() -> Vec<Case> {
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
                ..from_client()
            };
            let to = Segment {
                window: to,
                ..at_server()
            };
            let case = forward(name, Event::Goes, &from, &to);
            let translation = Translation {
                scale_in,
                scale_out,
                ..upward()
            };
            Case {
                translation,
                ..case
            }
        })
        .collect()
}

fn unchanged(name: &'static str, outcome: Outcome, packet: Vec<u8>) -> Case {
    Case {
        name,
        translation: upward(),
        result: packet.clone(),
        packet,
        outcome,
    }
}

fn with_byte(at: usize, value: u8) -> Vec<u8> {
    let mut packet = from_client().encode();
    packet[at] = value;
    packet
}

fn left_alone() -> Vec<Case> {
    let not_ours = |name, packet| unchanged(name, Outcome::NotOurs, packet);
    let other = Segment {
        source: address("10.1.0.2:41001"),
        ..from_client()
    };
    let elsewhere = Segment {
        destination: address("10.1.0.3:8080"),
        ..from_client()
    };
    vec![
        not_ours("another port", other.encode()),
        not_ours("another address", elsewhere.encode()),
        not_ours("the other direction", at_server().encode()),
        not_ours(
            "the rest of a packet in parts",
            Segment {
                fragment: 0x2010,
                ..from_client()
            }
            .encode(),
        ),
        not_ours("another protocol", with_byte(9, 17)),
        not_ours("another version", with_byte(0, 0x65)),
        not_ours("an IP header shorter than any", with_byte(0, 0x44)),
        not_ours("ports cut off", from_client().encode()[..22].to_vec()),
    ]
}

fn refused() -> Vec<Case> {
    let refused = |name, reason, packet| unchanged(name, Outcome::Refuse(reason), packet);
    let long = from_client().encode().len();
    vec![
        refused(
            "IP options",
            Refusal::IpOptions,
            Segment {
                ip_options: vec![1, 1, 1, 0],
                ..from_client()
            }
            .encode(),
        ),
        refused(
            "the first part of a packet",
            Refusal::Fragment,
            Segment {
                fragment: 0x2000,
                ..from_client()
            }
            .encode(),
        ),
        refused(
            "cut off",
            Refusal::Malformed,
            from_client().encode()[..long - 1].to_vec(),
        ),
        refused(
            "a total length without room for TCP",
            Refusal::Malformed,
            with_byte(3, 39),
        ),
        refused(
            "a TCP header shorter than any",
            Refusal::Malformed,
            with_byte(32, 0x40),
        ),
        refused(
            "a TCP header longer than its packet",
            Refusal::Malformed,
            with_byte(32, 0xf0),
        ),
        refused(
            "a hop too many",
            Refusal::TimeToLive,
            Segment {
                ttl: 1,
                ..from_client()
            }
            .encode(),
        ),
    ]
}

/// Options that are none, or that nobody here knows.
fn refused_options() -> Vec<Case> {
    let refused = |name, reason, packet| unchanged(name, Outcome::Refuse(reason), packet);
    let with = |options: &[u8]| {
        let options = options.to_vec();
        Segment {
            options,
            ..from_client()
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
