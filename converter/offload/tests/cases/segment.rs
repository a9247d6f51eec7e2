//! TCP segments in packets of both versions of IP, and the checksums that they ought to have.

use std::net::{IpAddr, SocketAddr};

pub const FIN: u8 = 0x01;
pub const SYN: u8 = 0x02;
pub const RST: u8 = 0x04;
pub const PSH: u8 = 0x08;
pub const ACK: u8 = 0x10;

/// The version of what goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ip {
    V4,
    V6,
}

impl Ip {
    /// Bytes of a header without anything more.
    pub fn header(self) -> usize {
        match self {
            Self::V4 => 20,
            Self::V6 => 40,
        }
    }

    fn of(packet: &[u8]) -> Self {
        if packet[0] >> 4 == 6 { Self::V6 } else { Self::V4 }
    }
}

/// A TCP segment in a packet of its addresses' version.
#[derive(Clone, Debug)]
pub struct Segment {
    pub source: SocketAddr,
    pub destination: SocketAddr,
    pub ttl: u8,
    /// IPv4's alone, as are its options.
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
    /// The same but for this.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// Its bytes, with all checksums computed over everything.
    pub fn encode(&self) -> Vec<u8> {
        let tcp = self.tcp();
        let header = match self.source {
            SocketAddr::V4(_) => self.ipv4(tcp.len()),
            SocketAddr::V6(_) => self.ipv6(tcp.len()),
        };
        [header, tcp].concat()
    }

    fn ipv4(&self, payload: usize) -> Vec<u8> {
        let header = 20 + self.ip_options.len();
        let total = u16::try_from(header + payload).expect("a packet");
        let mut ip = vec![0x40 | u8::try_from(header / 4).expect("a header"), 0];
        ip.extend(total.to_be_bytes());
        ip.extend([0x12, 0x34]);
        ip.extend(self.fragment.to_be_bytes());
        ip.extend([self.ttl, 6, 0, 0]);
        ip.extend(self.addresses());
        ip.extend(&self.ip_options);
        let sum = checksum(&ip);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        ip
    }

    /// With a traffic class and a flow label, which are to stay.
    fn ipv6(&self, payload: usize) -> Vec<u8> {
        let mut ip = vec![0x62, 0x81, 0x23, 0x45];
        ip.extend(u16::try_from(payload).expect("a packet").to_be_bytes());
        ip.extend([6, self.ttl]);
        ip.extend(self.addresses());
        ip
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
        let sum = tcp_checksum(&self.addresses(), &tcp);
        tcp[16..18].copy_from_slice(&sum.to_be_bytes());
        tcp
    }

    fn addresses(&self) -> Vec<u8> {
        let octets = |end: SocketAddr| match end.ip() {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        [self.source, self.destination].map(octets).concat()
    }
}

/// The checksum of a segment, with the addresses before it (RFC 9293 section 3.1, RFC 8200 section 8.1).
fn tcp_checksum(addresses: &[u8], tcp: &[u8]) -> u16 {
    let length = u32::try_from(tcp.len()).expect("a segment");
    checksum(&[addresses, &length.to_be_bytes(), &[0, 0, 0, 6], tcp].concat())
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

/// Whether all checksums of a packet without IP options are right.
pub fn is_whole(packet: &[u8]) -> bool {
    let ip = Ip::of(packet);
    let (header, tcp) = packet.split_at(ip.header());
    match ip {
        Ip::V4 => checksum(header) == 0 && tcp_checksum(&header[12..], tcp) == 0,
        Ip::V6 => tcp_checksum(&header[8..], tcp) == 0,
    }
}

pub fn timestamps(tsval: u32, tsecr: u32) -> Vec<u8> {
    let mut option = vec![1, 1, 8, 10];
    option.extend(tsval.to_be_bytes());
    option.extend(tsecr.to_be_bytes());
    option
}

pub fn sack(blocks: &[(u32, u32)]) -> Vec<u8> {
    let length = u8::try_from(2 + 8 * blocks.len()).expect("4 blocks");
    let edges = blocks.iter().flat_map(|&(left, right)| [left, right]);
    let mut option = vec![1, 1, 5, length];
    option.extend(edges.flat_map(u32::to_be_bytes));
    option
}
