//! The segment that asks for a TCP connection (RFC 9293 section 3.1), out of its IP packet (RFC 791, RFC 8200), and an option
//! by which a converter tells the next one in it where the connection is to go.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4};

const TCP: u8 = 6;

// Offsets in an IPv4 header (RFC 791 section 3.1), and the bits of its fragment offset.
const FRAGMENT4: usize = 6;
const PROTOCOL4: usize = 9;
const SOURCE4: usize = 12;
const DESTINATION4: usize = 16;
const FRAGMENT_OFFSET: u16 = 0x1fff;
// Offsets in an IPv6 header (RFC 8200 section 3), and its length.
const NEXT_HEADER6: usize = 6;
const SOURCE6: usize = 8;
const DESTINATION6: usize = 24;
const LENGTH6: usize = 40;
// Offsets in a TCP header, and its length without options.
const DESTINATION_PORT: usize = 2;
const DATA_OFFSET: usize = 12;
const FLAGS: usize = 13;
const OPTIONS: usize = 20;

const SYN: u8 = 0x02;
/// FIN, SYN, RST and ACK: of these a request has SYN alone.
const STATE: u8 = 0x17;

// Kinds of options (RFC 9293 section 3.1, RFC 8684 section 3), and the subtype of a join (RFC 8684 section 3.2).
const END: u8 = 0;
const NO_OPERATION: u8 = 1;
const MPTCP: u8 = 30;
const MP_JOIN: u8 = 1;
/// For experiments (RFC 6994 section 3), with this number of the experiment behind its length.
const EXPERIMENT: u8 = 254;
const EXPERIMENT_ID: [u8; 2] = *b"Tr";
/// Bytes of the option that tells a destination: kind, length, number, address and port. An IPv6 address does not fit beside
/// what Linux puts into its SYNs: 20 of 40 bytes (MSS, SACK-permitted, timestamps, window scale).
pub const DESTINATION_OPTION: usize = 10;

/// A client's wish for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Syn {
    /// Who asks.
    pub client: SocketAddr,
    pub server: SocketAddr,
    /// Whether it is a further subflow of a connection that is there already (RFC 8684 section 3.2).
    pub join: bool,
    /// Where the connection that it asks for is to go, if it comes from a converter that tells ([`destination_option`]).
    pub destination: Option<SocketAddrV4>,
}

/// The option that tells the next converter where a connection is to go.
pub fn destination_option(destination: SocketAddrV4) -> [u8; DESTINATION_OPTION] {
    let [a, b, c, d] = destination.ip().octets();
    let [high, low] = destination.port().to_be_bytes();
    let [first, second] = EXPERIMENT_ID;
    [EXPERIMENT, 10, first, second, a, b, c, d, high, low]
}

/// The SYN in `packet`, which begins with its IP header; `None` if it is no whole one: another segment, a fragment, an
/// IPv6 packet with extension headers, a malformed header or option.
pub fn parse(packet: &[u8]) -> Option<Syn> {
    match packet.first()? >> 4 {
        4 => parse4(packet),
        6 => parse6(packet),
        _ => None,
    }
}

fn parse4(packet: &[u8]) -> Option<Syn> {
    let header = usize::from(packet[0] & 0xf) * 4;
    let fragment = u16_at(packet, FRAGMENT4)? & FRAGMENT_OFFSET;
    if *packet.get(PROTOCOL4)? != TCP || fragment != 0 || header < DESTINATION4 + 4 {
        return None;
    }
    let address = |at| Some(IpAddr::V4(Ipv4Addr::from(array::<4>(packet, at)?)));
    segment(packet.get(header..)?, address(SOURCE4)?, address(DESTINATION4)?)
}

fn parse6(packet: &[u8]) -> Option<Syn> {
    if *packet.get(NEXT_HEADER6)? != TCP {
        return None;
    }
    let address = |at| Some(IpAddr::V6(Ipv6Addr::from(array::<16>(packet, at)?)));
    segment(packet.get(LENGTH6..)?, address(SOURCE6)?, address(DESTINATION6)?)
}

fn segment(segment: &[u8], source: IpAddr, destination: IpAddr) -> Option<Syn> {
    let options = segment.get(OPTIONS..usize::from(segment.get(DATA_OFFSET)? >> 4) * 4)?;
    if segment.get(FLAGS)? & STATE != SYN {
        return None;
    }
    let mut syn = Syn {
        client: SocketAddr::new(source, u16_at(segment, 0)?),
        server: SocketAddr::new(destination, u16_at(segment, DESTINATION_PORT)?),
        join: false,
        destination: None,
    };
    syn.take(options)?;
    Some(syn)
}

impl Syn {
    /// Takes in what `options` say; `None` if one is shorter than an option can be, or longer than there is room.
    fn take(&mut self, mut options: &[u8]) -> Option<()> {
        while let Some(kind) = options.first() {
            let length = match *kind {
                END => break,
                NO_OPERATION => 1,
                kind => {
                    let length = usize::from(*options.get(1)?);
                    self.take_one(kind, options.get(2..length)?);
                    length
                }
            };
            options = &options[length..];
        }
        Some(())
    }

    fn take_one(&mut self, kind: u8, value: &[u8]) {
        match kind {
            MPTCP => self.join |= value.first().is_some_and(|byte| byte >> 4 == MP_JOIN),
            EXPERIMENT => self.destination = self.destination.or_else(|| destination(value)),
            _ => {}
        }
    }
}

/// What the option of [`destination_option`] says; `None` if this is another experiment's.
fn destination(value: &[u8]) -> Option<SocketAddrV4> {
    let [first, second, a, b, c, d, high, low] = *value else {
        return None;
    };
    let address = SocketAddrV4::new(Ipv4Addr::new(a, b, c, d), u16::from_be_bytes([high, low]));
    ([first, second] == EXPERIMENT_ID).then_some(address)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_be_bytes)
}

fn array<const SIZE: usize>(bytes: &[u8], at: usize) -> Option<[u8; SIZE]> {
    bytes.get(at..at + SIZE)?.try_into().ok()
}
