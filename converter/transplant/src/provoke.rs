//! Has the other end of a connection speak that has no socket here any more: the kernel then answers by a reset that is
//! right for it (RFC 9293 section 3.5.2, RFC 5961 section 3.2), although nobody here knows how far the connection has come.

use std::io;
use std::net::{SocketAddr, SocketAddrV4};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::checksum;
use crate::freeze::Frozen;

/// Bytes of a TCP header without options, its length in the upper bits of a byte, and its flags.
const HEADER: usize = 20;
const DATA_OFFSET: u8 = 5 << 4;
const ACK: u8 = 0x10;
const CHECKSUM: usize = 16;
const TCP: u8 = 6;
/// Of the segment.
const LENGTH: u8 = 21;

/// Sends the connection's other end a byte that it had before `frozen` was taken, which it answers by what it expects next
/// (RFC 9293 section 3.10.7.4). Without data that would be limited to one answer in half a second
/// (`tcp_oow_rate_limited()` in `net/ipv4/tcp_input.c`). Needs `CAP_NET_RAW`. IPv4 alone; raises
/// [`io::ErrorKind::Unsupported`] for IPv6.
pub fn provoke(frozen: &Frozen) -> io::Result<()> {
    let (SocketAddr::V4(local), SocketAddr::V4(remote)) = (frozen.local, frozen.remote) else {
        return Err(io::ErrorKind::Unsupported.into());
    };
    let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::TCP))?;
    socket.bind(&SockAddr::from(SocketAddrV4::new(*local.ip(), 0)))?;
    let to = SockAddr::from(SocketAddrV4::new(*remote.ip(), 0));
    socket.send_to(&segment(frozen, [local, remote]), &to)?;
    Ok(())
}

fn segment(frozen: &Frozen, ends: [SocketAddrV4; 2]) -> [u8; HEADER + 1] {
    let mut segment = [0; HEADER + 1];
    segment[..2].copy_from_slice(&ends[0].port().to_be_bytes());
    segment[2..4].copy_from_slice(&ends[1].port().to_be_bytes());
    segment[4..8].copy_from_slice(&frozen.snd_nxt.wrapping_sub(1).to_be_bytes());
    segment[8..12].copy_from_slice(&frozen.rcv_nxt.to_be_bytes());
    segment[12..14].copy_from_slice(&[DATA_OFFSET, ACK]);
    // The byte of data is 0, and changes no sum.
    let sum = checksum::of(&[&pseudo_header(ends)[..], &segment[..HEADER]].concat());
    segment[CHECKSUM..CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
    segment
}

/// RFC 9293 section 3.1.
fn pseudo_header(ends: [SocketAddrV4; 2]) -> [u8; 12] {
    let ends = ends.map(|end| end.ip().octets());
    let mut header = [0; 12];
    header[..8].copy_from_slice(ends.as_flattened());
    header[9] = TCP;
    header[11] = LENGTH;
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_segment_is_the_last_byte_that_was_acknowledged_with_a_checksum_that_is_right() {
        let ends =
            ["192.0.2.1:80", "198.51.100.7:40000"].map(|end| end.parse().expect("an address"));
        let frozen = Frozen {
            local: SocketAddr::V4(ends[0]),
            remote: SocketAddr::V4(ends[1]),
            snd_nxt: 0x0100_0000,
            rcv_nxt: 7,
            scales: None,
            clock: None,
            sack: false,
            mss_in: 1460,
            mss_out: 1460,
            path_mtu: 1500,
            window: [0; 20],
            keepalive: false,
        };
        let segment = segment(&frozen, ends);
        assert_eq!(segment[4..12], [0, 0xff, 0xff, 0xff, 0, 0, 0, 7]);
        let all = [&pseudo_header(ends)[..], &segment, &[0]].concat();
        assert_eq!(checksum::of(&all), 0);
    }
}
