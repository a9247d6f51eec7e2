//! The TCP options of a server's SYN+ACK, which RFC 8803 section 6.2.6 wants back. A socket does not keep them: a raw
//! socket sees them pass (raw(7)), for those connections alone whose client asked.

use std::io::{self, Read};
use std::net::SocketAddr;
use std::sync::Once;

use socket2::{Domain, Protocol, SockFilter, Socket, Type};
use tokio::net::TcpStream;

use tributary_sys::packet_filter::{WHOLE, and, if_equal, index, index_ipv4_header, indexed_byte, indexed_half, take};

// Offsets within a TCP header (RFC 9293 section 3.1).
const SOURCE: u32 = 0;
const DESTINATION: usize = 2;
const DATA_OFFSET: usize = 12;
const FLAGS: u32 = 13;
const OPTIONS: usize = 20;
const SYN_ACK: u32 = 0x12;

/// Sees the SYN+ACKs of one server and port, from before the connection is begun.
pub struct SynAckWatch(io::Result<Socket>);

impl SynAckWatch {
    /// Needs `CAP_NET_RAW`; without it there are no options to tell, which is logged once: any client may ask for them.
    pub fn open(server: SocketAddr) -> Self {
        let socket = open(server);
        if let Err(error) = &socket {
            static LOGGED: Once = Once::new();
            LOGGED.call_once(|| {
                tracing::warn!(
                    "cannot see the TCP options of servers for Extended Connect (needs CAP_NET_RAW): {error}"
                );
            });
        }
        Self(socket)
    }

    /// The options of the SYN+ACK that established `connection`, as in its header; empty if it was not seen.
    pub fn options(self, connection: &TcpStream) -> Vec<u8> {
        let (Ok(mut socket), Ok(own)) = (self.0, connection.local_addr()) else {
            return Vec::new();
        };
        let mut packet = [0; 256];
        while let Ok(length) = socket.read(&mut packet) {
            if let Some(options) = options(tcp_header(&packet[..length], own.is_ipv4()), own.port()) {
                return options.to_vec();
            }
        }
        Vec::new()
    }
}

fn open(server: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(
        Domain::for_address(server),
        Type::RAW.nonblocking(),
        Some(Protocol::TCP),
    )?;
    socket.attach_filter(&filter(server))?;
    socket.connect(&SocketAddr::new(server.ip(), 0).into())?;
    Ok(socket)
}

/// Lets through what comes from the server's port with SYN and ACK. IPv4 packets come with their IP header, IPv6 ones
/// without.
fn filter(server: SocketAddr) -> [SockFilter; 8] {
    let start = match server {
        SocketAddr::V4(_) => index_ipv4_header(),
        SocketAddr::V6(_) => index(0),
    };
    [
        start,
        indexed_half(SOURCE),
        if_equal(u32::from(server.port()), 0, 4),
        indexed_byte(FLAGS),
        and(SYN_ACK),
        if_equal(SYN_ACK, 0, 1),
        take(WHOLE),
        take(0),
    ]
}

fn tcp_header(packet: &[u8], ipv4: bool) -> &[u8] {
    let skip = if ipv4 {
        packet.first().map_or(0, |first| usize::from(first & 0xf) * 4)
    } else {
        0
    };
    packet.get(skip..).unwrap_or_default()
}

/// The options, if the segment is for this port.
fn options(segment: &[u8], port: u16) -> Option<&[u8]> {
    let destination = segment.get(DESTINATION..DESTINATION + 2)?;
    let end = usize::from(segment.get(DATA_OFFSET)? >> 4) * 4;
    (destination == port.to_be_bytes())
        .then(|| segment.get(OPTIONS..end))
        .flatten()
}
