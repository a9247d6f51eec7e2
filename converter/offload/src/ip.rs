//! The headers before a TCP segment: IPv4's (RFC 791 section 3.1) and IPv6's (RFC 8200 section 3).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use crate::bytes::{put, u16_at};
use crate::checksum;
use tributary_sys::array;

const TCP: u8 = 6;

/// Where a version has what is rewritten.
#[derive(Debug)]
struct Layout {
    hops: usize,
    addresses: Range<usize>,
    checksum: Option<usize>,
}

const IPV4: Layout = Layout {
    hops: 8,
    addresses: 12..20,
    checksum: Some(10),
};
const IPV6: Layout = Layout {
    hops: 7,
    addresses: 8..40,
    checksum: None,
};

// Other offsets in an IPv4 header, its length without options, and the bits of its fragment field.
const TOTAL_LENGTH: usize = 2;
const FRAGMENT: usize = 6;
const PROTOCOL: usize = 9;
const IPV4_LENGTH: usize = 20;
const MORE_FRAGMENTS: u16 = 0x2000;
const FRAGMENT_OFFSET: u16 = 0x1fff;
// Other offsets in an IPv6 header, and its length.
const PAYLOAD_LENGTH: usize = 4;
const NEXT_HEADER: usize = 6;
const IPV6_LENGTH: usize = 40;

/// What is asked of a header, whichever its version is.
#[derive(Debug)]
pub struct Header {
    pub source: IpAddr,
    pub destination: IpAddr,
    /// Its bytes; behind them TCP's header begins.
    pub length: usize,
    /// Bytes of the whole packet, by what it says itself.
    pub total: usize,
    /// How many nodes may still send it on.
    pub hops: u8,
    /// Whether it has IPv4's options.
    pub options: bool,
    /// Whether other parts of the packet are to come.
    pub fragment: bool,
    layout: &'static Layout,
}

impl Header {
    /// The header that `packet` begins with; `None` if no TCP header begins behind it. What is behind an extension header of
    /// IPv6 is not looked for.
    pub fn of(packet: &[u8]) -> Option<Self> {
        match packet.first()? >> 4 {
            4 => ipv4(packet),
            6 => ipv6(packet),
            _ => None,
        }
    }

    /// Both addresses in `packet`, which begins with this header.
    pub fn addresses<'a>(&self, packet: &'a [u8]) -> &'a [u8] {
        &packet[self.layout.addresses.clone()]
    }

    /// Counts a hop, and puts other addresses of the same version into `packet`, which begins with this header.
    pub fn rewrite(&self, packet: &mut [u8], addresses: &[u8]) {
        let header = &mut packet[..self.length];
        let old = header.to_vec();
        header[self.layout.hops] -= 1;
        header[self.layout.addresses.clone()].copy_from_slice(addresses);
        if let Some(at) = self.layout.checksum {
            let sum = checksum::updated(u16_at(&old, at), &old, header);
            put(header, at, sum.to_be_bytes());
        }
    }
}

fn ipv4(packet: &[u8]) -> Option<Header> {
    if packet.len() < IPV4_LENGTH || packet[PROTOCOL] != TCP {
        return None;
    }
    let length = usize::from(packet[0] & 0xf) * 4;
    let fragment = u16_at(packet, FRAGMENT);
    if length < IPV4_LENGTH || fragment & FRAGMENT_OFFSET != 0 {
        return None;
    }
    let address = |at| Ipv4Addr::from(array::<4>(packet, at)).into();
    Some(Header {
        source: address(IPV4.addresses.start),
        destination: address(IPV4.addresses.start + 4),
        length,
        total: u16_at(packet, TOTAL_LENGTH).into(),
        hops: packet[IPV4.hops],
        options: length != IPV4_LENGTH,
        fragment: fragment & MORE_FRAGMENTS != 0,
        layout: &IPV4,
    })
}

fn ipv6(packet: &[u8]) -> Option<Header> {
    if packet.len() < IPV6_LENGTH || packet[NEXT_HEADER] != TCP {
        return None;
    }
    let address = |at| Ipv6Addr::from(array::<16>(packet, at)).into();
    Some(Header {
        source: address(IPV6.addresses.start),
        destination: address(IPV6.addresses.start + 16),
        length: IPV6_LENGTH,
        total: IPV6_LENGTH + usize::from(u16_at(packet, PAYLOAD_LENGTH)),
        hops: packet[IPV6.hops],
        options: false,
        fragment: false,
        layout: &IPV6,
    })
}
