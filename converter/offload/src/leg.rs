//! One of the two connections that a converter relays between.

use std::net::SocketAddr;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    pub source: SocketAddr,
    pub destination: SocketAddr,
}

impl Flow {
    #[must_use]
    pub fn reversed(self) -> Self {
        Self {
            source: self.destination,
            destination: self.source,
        }
    }
}

/// A connection's state while it rests: all that was sent is acknowledged, and all that came was read. Explicit congestion
/// notification (RFC 3168) is not for it: what one end is told of its path means nothing on the other's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leg {
    /// The converter's own end.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// Sequence number of the next byte that the converter would send (`SND.NXT`, RFC 9293 section 3.3.1).
    pub snd_nxt: u32,
    /// Sequence number of the next byte that it expects (`RCV.NXT`).
    pub rcv_nxt: u32,
    /// Bytes that the other end may still send, by what it was told (`RCV.WND`).
    pub room: u32,
    /// Bits by which windows that come in are to be shifted left (`Snd.Wind.Shift`, RFC 7323 section 2.3); 0 to 14.
    pub snd_scale: u8,
    /// Bits by which windows that go out are shifted right (`Rcv.Wind.Shift`); 0 to 14.
    pub rcv_scale: u8,
    /// Both clocks, if timestamps were agreed on.
    pub timestamps: Option<Timestamps>,
    /// Whether selective acknowledgements were agreed on (RFC 2018).
    pub sack: bool,
    /// Bytes of the longest segment that the other end may send, as the converter told it (RFC 6691).
    pub mss_in: u16,
    /// Bytes of the longest segment that the other end and the way to it take.
    pub mss_out: u16,
}

/// Timestamps of a connection (RFC 7323 section 3), each in ticks of its own clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamps {
    /// One that is no earlier than any that the converter has sent.
    pub ours: u32,
    /// The last one that it took from the other end (`TS.Recent`).
    pub theirs: u32,
}

impl Leg {
    /// What comes from the other end.
    pub fn incoming(&self) -> Flow {
        Flow {
            source: self.remote,
            destination: self.local,
        }
    }

    /// Whether segments that come by this leg can go out by `other`.
    pub(crate) fn fits(&self, other: &Self) -> Result<(), Incompatible> {
        let ends = [self.local, self.remote, other.local, other.remote];
        if ends.iter().any(|end| end.is_ipv4() != ends[0].is_ipv4()) {
            return Err(Incompatible::Versions);
        }
        if self.sack != other.sack {
            return Err(Incompatible::Sack);
        }
        if self.timestamps.is_some() != other.timestamps.is_some() {
            return Err(Incompatible::Timestamps);
        }
        if self.mss_in > other.mss_out {
            return Err(Incompatible::Mss);
        }
        Ok(())
    }
}

/// Why there can be no translation between two legs: one of them agreed on something that the other one did not, and
/// segments cannot be made so that both ends are right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Incompatible {
    /// One of them goes by IPv4, the other one by IPv6, whose header is 20 bytes longer: where links take equally long
    /// packets, the segments that come by IPv4 are too long for it anyway.
    #[error("one leg goes by IPv4, the other one by IPv6")]
    Versions,
    #[error("one leg has selective acknowledgements, the other one has not")]
    Sack,
    #[error("one leg has timestamps, the other one has not")]
    Timestamps,
    /// Segments that one end may send are too long for the other one, or for the way there.
    #[error("one end may send segments that are too long for the other one")]
    Mss,
}

impl Incompatible {
    /// For metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Versions => "versions",
            Self::Sack => "sack",
            Self::Timestamps => "timestamps",
            Self::Mss => "mss",
        }
    }
}
