//! Has the other end of a connection speak that has no socket here any more: the kernel then answers by a reset that is
//! right for it (RFC 9293 section 3.5.2, RFC 5961 section 3.2), although nobody here knows how far the connection has come.

use std::io;
use std::net::{SocketAddr, SocketAddrV4};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::checkpoint::Checkpoint;
use crate::checksum;

/// Bytes of a TCP header without options, the flag of all segments but a connection's first, and where the checksum is.
const HEADER: usize = 20;
const ACK: u8 = 0x10;
const CHECKSUM: usize = 16;
const TCP: u8 = 6;
/// What timestamps begin with: two bytes that fill up, their kind and their length (RFC 7323 appendix A).
const TIMESTAMPS: [u8; 4] = [1, 1, 8, 10];

/// Sends the connection's other end a byte that it had before `state` was taken, which it answers by what it expects next
/// (RFC 9293 section 3.10.7.4). Without data that would be limited to one answer in half a second
/// (`tcp_oow_rate_limited()` in `net/ipv4/tcp_input.c`). Needs `CAP_NET_RAW`. IPv4 alone; raises
/// [`io::ErrorKind::Unsupported`] for IPv6.
///
/// Where timestamps were agreed on it has one, as a segment without may be dropped (RFC 7323 section 3.2). An old one is
/// answered like an old byte (section 5.3, R1).
pub fn send_probe(state: &Checkpoint) -> io::Result<()> {
    let (SocketAddr::V4(local), SocketAddr::V4(remote)) = (state.local, state.remote) else {
        return Err(io::ErrorKind::Unsupported.into());
    };
    let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::TCP))?;
    socket.bind(&SockAddr::from(SocketAddrV4::new(*local.ip(), 0)))?;
    let to = SockAddr::from(SocketAddrV4::new(*remote.ip(), 0));
    socket.send_to(&segment(state, [local, remote]), &to)?;
    Ok(())
}

fn segment(state: &Checkpoint, ends: [SocketAddrV4; 2]) -> Vec<u8> {
    let options = state.clock.map_or(vec![], timestamps);
    let length = HEADER + options.len();
    // In words of four bytes, in the upper bits.
    let data_offset = u8::try_from(length << 2).unwrap_or(u8::MAX);
    let mut segment = [
        &ends[0].port().to_be_bytes()[..],
        &ends[1].port().to_be_bytes(),
        &state.snd_nxt.wrapping_sub(1).to_be_bytes(),
        &state.rcv_nxt.to_be_bytes(),
        &[data_offset, ACK],
        // No window, no checksum yet, nothing urgent.
        &[0; 6],
        &options,
    ]
    .concat();
    // The byte of data is 0, and changes no sum.
    let sum = checksum::of(&[&pseudo_header(ends, length + 1)[..], &segment].concat());
    segment[CHECKSUM..CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
    segment.push(0);
    segment
}

/// The option with our clock, which echoes nothing. The tick that the lowest bit may stand for was sent by now.
fn timestamps(clock: u32) -> Vec<u8> {
    [&TIMESTAMPS[..], &(clock | 1).to_be_bytes(), &[0; 4]].concat()
}

/// RFC 9293 section 3.1, before a segment of so many bytes.
fn pseudo_header(ends: [SocketAddrV4; 2], length: usize) -> [u8; 12] {
    let ends = ends.map(|end| end.ip().octets());
    let mut header = [0; 12];
    header[..8].copy_from_slice(ends.as_flattened());
    header[9] = TCP;
    header[11] = u8::try_from(length).unwrap_or(u8::MAX);
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_segment_is_the_last_byte_that_was_acknowledged_with_a_checksum_that_is_right() {
        let ends = ["192.0.2.1:80", "198.51.100.7:40000"].map(|end| end.parse().expect("an address"));
        let state = Checkpoint {
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
        let with_clock = Checkpoint {
            clock: Some(0x0102_0304),
            ..state.clone()
        };
        for (state, length) in [(state, 21), (with_clock, 33)] {
            let segment = segment(&state, ends);
            assert_eq!(segment.len(), length);
            assert_eq!(segment[4..12], [0, 0xff, 0xff, 0xff, 0, 0, 0, 7]);
            let padded = [&pseudo_header(ends, length)[..], &segment, &[0]].concat();
            assert_eq!(checksum::of(&padded), 0);
            assert_eq!(usize::from(segment[12] >> 4) * 4, length - 1);
            let timestamps = [1, 1, 8, 10, 1, 2, 3, 5, 0, 0, 0, 0];
            assert!(length == 21 || segment[20..32] == timestamps);
        }
    }
}
