//! Encodes a checkpoint as bytes, to be restored on another machine.

use std::net::{IpAddr, SocketAddr};
use tributary_sys::{array, mapped};

use crate::checkpoint::{Checkpoint, Scales, WINDOW};

const VERSION: u8 = 1;
// What was agreed on.
const SCALED: u8 = 1;
const TIMESTAMPS: u8 = 2;
const SACK: u8 = 4;
/// RFC 7323 section 2.3.
const MOST_SCALE: u8 = 14;

// Where things are.
const AGREED: usize = 1;
const SCALE_SND: usize = 2;
const SCALE_RCV: usize = 3;
const LOCAL: usize = 4;
const REMOTE: usize = 22;
const NUMBERS: usize = 40;
const WINDOWS: usize = 64;

/// Why bytes are no checkpointed connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCheckpoint {
    #[error("version {0} of a checkpoint")]
    Version(u8),
    #[error("unknown bits {0:#x} of what was agreed on")]
    Agreed(u8),
    #[error("a window's scale of {0}")]
    Scale(u8),
}

impl Checkpoint {
    pub const LENGTH: usize = WINDOWS + WINDOW;

    /// In network byte order: version, what was agreed on, both scales, both ends (an address of IPv6, in which one of IPv4 is
    /// mapped, and a port), then numbers of four bytes: next to be sent, next expected, clock, longest segments in and out, the path's, and `struct
    /// tcp_repair_window`.
    pub fn to_bytes(&self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        let scales = self.scales.unwrap_or(Scales { snd: 0, rcv: 0 });
        bytes[..LOCAL].copy_from_slice(&[VERSION, self.agreed(), scales.snd, scales.rcv]);
        bytes[LOCAL..REMOTE].copy_from_slice(&end(self.local));
        bytes[REMOTE..NUMBERS].copy_from_slice(&end(self.remote));
        for (place, number) in bytes[NUMBERS..].chunks_exact_mut(4).zip(self.numbers()) {
            place.copy_from_slice(&number.to_be_bytes());
        }
        bytes
    }

    fn agreed(&self) -> u8 {
        let bit = |agreed, bit| if agreed { bit } else { 0 };
        bit(self.scales.is_some(), SCALED) | bit(self.clock.is_some(), TIMESTAMPS) | bit(self.sack, SACK)
    }

    fn numbers(&self) -> [u32; 11] {
        let window: [u32; 5] = std::array::from_fn(|at| u32::from_ne_bytes(array(&self.window, 4 * at)));
        let [wl1, wnd, max, rcv_wnd, rcv_wup] = window;
        [
            self.snd_nxt,
            self.rcv_nxt,
            self.clock.unwrap_or(0),
            self.mss_in,
            self.mss_out,
            self.path_mtu,
            wl1,
            wnd,
            max,
            rcv_wnd,
            rcv_wup,
        ]
    }

    /// The connection that [`Checkpoint::to_bytes`] made these of.
    pub fn from_bytes(bytes: &[u8; Self::LENGTH]) -> Result<Self, InvalidCheckpoint> {
        let (agreed, snd, rcv) = (bytes[AGREED], bytes[SCALE_SND], bytes[SCALE_RCV]);
        if bytes[0] != VERSION {
            return Err(InvalidCheckpoint::Version(bytes[0]));
        }
        if agreed & !(SCALED | TIMESTAMPS | SACK) != 0 {
            return Err(InvalidCheckpoint::Agreed(agreed));
        }
        if snd.max(rcv) > MOST_SCALE {
            return Err(InvalidCheckpoint::Scale(snd.max(rcv)));
        }
        let number = |at| u32::from_be_bytes(array(bytes, NUMBERS + 4 * at));
        let mut window = [0; WINDOW];
        for (at, place) in window.chunks_exact_mut(4).enumerate() {
            place.copy_from_slice(&number(6 + at).to_ne_bytes());
        }
        Ok(Self {
            local: address(bytes, LOCAL),
            remote: address(bytes, REMOTE),
            snd_nxt: number(0),
            rcv_nxt: number(1),
            scales: (agreed & SCALED != 0).then_some(Scales { snd, rcv }),
            clock: (agreed & TIMESTAMPS != 0).then(|| number(2)),
            sack: agreed & SACK != 0,
            mss_in: number(3),
            mss_out: number(4),
            path_mtu: number(5),
            window,
            keepalive: false,
        })
    }
}

fn end(end: SocketAddr) -> [u8; 18] {
    let mut bytes = [0; 18];
    bytes[..16].copy_from_slice(&mapped(end.ip()).octets());
    bytes[16..].copy_from_slice(&end.port().to_be_bytes());
    bytes
}

fn address(bytes: &[u8], at: usize) -> SocketAddr {
    let address = IpAddr::from(array::<16>(bytes, at)).to_canonical();
    SocketAddr::new(address, u16::from_be_bytes(array(bytes, at + 16)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn example() -> Checkpoint {
        Checkpoint {
            local: "192.0.2.1:80".parse().expect("an address"),
            remote: "198.51.100.7:40000".parse().expect("an address"),
            snd_nxt: 1,
            rcv_nxt: 2,
            scales: Some(Scales { snd: 7, rcv: 8 }),
            clock: Some(0x0102_0304),
            sack: true,
            mss_in: 1460,
            mss_out: 1448,
            path_mtu: 1500,
            window: std::array::from_fn(|at| u8::try_from(at).expect("small")),
            keepalive: false,
        }
    }

    #[test]
    fn a_connection_becomes_itself_again() {
        let plain = Checkpoint {
            scales: None,
            clock: None,
            sack: false,
            ..example()
        };
        let six = Checkpoint {
            local: "[2001:db8::1]:80".parse().expect("an address"),
            remote: "[2001:db8::2]:40000".parse().expect("an address"),
            ..example()
        };
        for each in [example(), plain, six] {
            assert_eq!(Checkpoint::from_bytes(&each.to_bytes()), Ok(each));
        }
    }

    #[test]
    fn its_bytes_are_these() {
        let bytes = example().to_bytes();
        assert_eq!(bytes[..4], [1, 7, 7, 8]);
        let mapped = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
        assert_eq!(bytes[4..16], mapped);
        assert_eq!(bytes[16..22], [192, 0, 2, 1, 0, 80]);
        assert_eq!(bytes[22..34], mapped);
        assert_eq!(bytes[34..40], [198, 51, 100, 7, 0x9c, 0x40]);
        assert_eq!(bytes[40..52], [0, 0, 0, 1, 0, 0, 0, 2, 1, 2, 3, 4]);
        assert_eq!(bytes[52..60], [0, 0, 5, 180, 0, 0, 5, 168]);
    }

    #[test]
    fn what_is_not_known_is_refused_by_name() {
        let with = |at: usize, byte| {
            let mut bytes = example().to_bytes();
            bytes[at] = byte;
            Checkpoint::from_bytes(&bytes)
        };
        assert_eq!(with(0, 2), Err(InvalidCheckpoint::Version(2)));
        assert_eq!(with(AGREED, 8), Err(InvalidCheckpoint::Agreed(8)));
        assert_eq!(with(SCALE_SND, 15), Err(InvalidCheckpoint::Scale(15)));
        assert_eq!(with(SCALE_RCV, 15), Err(InvalidCheckpoint::Scale(15)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_a_connection(bytes in prop::collection::vec(any::<u8>(), Checkpoint::LENGTH)) {
            let mut whole: [u8; Checkpoint::LENGTH] = bytes.try_into().expect("so many");
            whole[0] = VERSION;
            if let Ok(state) = Checkpoint::from_bytes(&whole) {
                prop_assert_eq!(Checkpoint::from_bytes(&state.to_bytes()), Ok(state));
            }
        }
    }
}
