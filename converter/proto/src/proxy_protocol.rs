//! Version 2 of the PROXY protocol: who the client is, told to a server that sees only the
//! converter (haproxy.org, `doc/proxy-protocol.txt`, section 2.2).

use std::net::{IpAddr, SocketAddr};

use crate::host::mapped;

const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
const VERSION: u8 = 2;
const COMMAND_PROXY: u8 = 1;
const TCP_OVER_IPV4: u8 = 0x11;
const TCP_OVER_IPV6: u8 = 0x21;

/// Returns the header that goes before the data of a connection from `source` to `destination`. When one of them is IPv6,
/// an IPv4 one beside it becomes IPv4-mapped, since both have one family.
pub fn header(source: SocketAddr, destination: SocketAddr) -> Vec<u8> {
    let (family, addresses) = match (source.ip(), destination.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            (TCP_OVER_IPV4, [source.octets(), destination.octets()].concat())
        }
        (source, destination) => (
            TCP_OVER_IPV6,
            [mapped(source).octets(), mapped(destination).octets()].concat(),
        ),
    };
    let ports = [source.port().to_be_bytes(), destination.port().to_be_bytes()].concat();
    let length = (addresses.len() + ports.len()).to_le_bytes()[0]; // below 256
    let fixed = [VERSION << 4 | COMMAND_PROXY, family, 0, length];
    [&SIGNATURE[..], &fixed, &addresses, &ports].concat()
}
