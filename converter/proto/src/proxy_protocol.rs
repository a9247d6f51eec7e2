//! Version 2 of the PROXY protocol: who the client is, told to a server that sees only the
//! converter (haproxy.org, `doc/proxy-protocol.txt`, section 2.2).

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
const VERSION: u8 = 2;
const COMMAND_PROXY: u8 = 1;
const TCP_OVER_IPV4: u8 = 0x11;
const TCP_OVER_IPV6: u8 = 0x21;
/// Bytes in the fixed part: signature, version and command, family and protocol, length.
const FIXED_LENGTH: usize = 16;
const INET_LENGTH: usize = 12;
const INET6_LENGTH: usize = 36;

/// Returns the header that goes before the data of a connection from `source` to `destination`. When one of them is IPv6,
/// an IPv4 one beside it becomes IPv4-mapped, since both have one family.
pub fn header(source: SocketAddr, destination: SocketAddr) -> Vec<u8> {
    let mut header = match (source.ip(), destination.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let mut header = fixed(TCP_OVER_IPV4, INET_LENGTH);
            header.extend(source.octets());
            header.extend(destination.octets());
            header
        }
        (source, destination) => {
            let mut header = fixed(TCP_OVER_IPV6, INET6_LENGTH);
            header.extend(mapped(source).octets());
            header.extend(mapped(destination).octets());
            header
        }
    };
    header.extend(source.port().to_be_bytes());
    header.extend(destination.port().to_be_bytes());
    header
}

fn fixed(family: u8, length: usize) -> Vec<u8> {
    let mut header = Vec::with_capacity(FIXED_LENGTH + length);
    header.extend(SIGNATURE);
    // The lengths of addresses are below 256.
    header.extend([VERSION << 4 | COMMAND_PROXY, family, 0, length.to_le_bytes()[0]]);
    header
}

fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}
