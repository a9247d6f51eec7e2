//! Addresses in the forms that sockets and headers have.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// An address as a header has it.
pub fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(four) => four.octets().to_vec(),
        IpAddr::V6(six) => six.octets().to_vec(),
    }
}

/// An address as IPv6's: one of IPv4 is mapped (RFC 4291 section 2.5.5.2).
pub fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(four) => four.to_ipv6_mapped(),
        IpAddr::V6(six) => six,
    }
}

/// The address without its IPv4-mapped form, in which sockets for both families have it.
pub fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
