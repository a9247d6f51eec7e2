//! Segments of one connection rewritten as segments of another one (RFC 9293 section 3.1), in packets of one version of IP.

use std::net::SocketAddr;

use crate::bytes::{put, u16_at};
use crate::checksum;
use crate::ip::Header;
use crate::leg::{Flow, Incompatible, Leg};
use tributary_sys::{array, octets};

// Offsets in a TCP header, its length without options, and its flags.
const SOURCE_PORT: usize = 0;
const DESTINATION_PORT: usize = 2;
const SEQUENCE: usize = 4;
const ACKNOWLEDGEMENT: usize = 8;
const DATA_OFFSET: usize = 12;
const FLAGS: usize = 13;
const WINDOW: usize = 14;
const CHECKSUM: usize = 16;
const OPTIONS: usize = 20;
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
// Kinds of options (RFC 9293 section 3.1, RFC 2018 section 3, RFC 7323 section 3.2) and lengths of them.
const END: u8 = 0;
const NO_OPERATION: u8 = 1;
const MSS: u8 = 2;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;
const MSS_LENGTH: usize = 4;
const TIMESTAMPS_LENGTH: usize = 10;

/// What becomes of a packet, here and in the kernel, whose programs call it so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It is not of this connection, and is left to others as it was.
    Unspecified,
    /// It is of this connection and cannot be rewritten: without a socket the kernel would answer it by a reset.
    Drop,
    /// It is rewritten, and goes out elsewhere.
    Redirect,
}

/// One direction: segments that come by one leg, and what has to be done for them to go out by the other one. Numbers
/// are added modulo 2^32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translation {
    /// What comes in.
    pub from: Flow,
    /// What goes out, by the same version of IP.
    pub to: Flow,
    /// Added to sequence numbers.
    pub sequence: u32,
    /// Added to acknowledgement numbers and selective acknowledgements.
    pub acknowledgement: u32,
    /// Added to the sender's timestamp (`TSval`).
    pub tsval: u32,
    /// Added to the timestamp that it echoes (`TSecr`).
    pub tsecr: u32,
    /// Bits by which its windows are to be shifted left.
    pub scale_in: u8,
    /// Bits by which windows are shifted right for who gets them.
    pub scale_out: u8,
    /// What the sender has sent so far; `None` if that is to be learned from its next packets.
    pub sender: Option<SenderState>,
}

/// The state of the sender of a direction, by which segments are validated (RFC 5961).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderState {
    /// Behind the last byte that it sent, in its own sequence numbers.
    pub sent: u32,
    /// The next byte that it expects, in the sequence numbers of who gets it.
    pub acknowledged: u32,
    /// Behind the last byte that it has room for, in the same.
    pub room_end: u32,
}

impl Translation {
    /// Both directions between two legs: what comes by `a`, and what comes by `b`.
    pub fn between(a: &Leg, b: &Leg) -> Result<[Self; 2], Incompatible> {
        a.fits(b)?;
        b.fits(a)?;
        Ok([Self::one_way(a, b), Self::one_way(b, a)])
    }

    /// The next byte that comes by `a` is the next one that goes out by `b`. So with timestamps: the last that came by `a`
    /// is now by `b`, after which both clocks go on as the senders' do: who compares them takes what he got himself
    /// (RFC 7323 sections 4 and 5).
    fn one_way(a: &Leg, b: &Leg) -> Self {
        let (tsval, tsecr) = a.timestamps.zip(b.timestamps).map_or((0, 0), |(a, b)| {
            (b.ours.wrapping_sub(a.theirs), b.theirs.wrapping_sub(a.ours))
        });
        Self {
            from: a.incoming(),
            to: b.incoming().reversed(),
            sequence: b.snd_nxt.wrapping_sub(a.rcv_nxt),
            acknowledgement: b.rcv_nxt.wrapping_sub(a.snd_nxt),
            tsval,
            tsecr,
            scale_in: a.snd_scale,
            scale_out: b.rcv_scale,
            sender: Some(SenderState {
                sent: a.rcv_nxt,
                acknowledged: b.rcv_nxt,
                room_end: b.rcv_nxt.wrapping_add(b.room),
            }),
        }
    }

    /// Rewrites `packet`, which begins with its IP header and may have padding at its end, as the kernel's programs do, which
    /// are tested by this.
    pub fn apply(&self, packet: &mut [u8]) -> Action {
        let Some(ip) = Header::of(packet) else {
            return Action::Unspecified;
        };
        if flow(packet, &ip) != Some(self.from) {
            return Action::Unspecified;
        }
        let rewritten = header_length(packet, &ip).and_then(|tcp| self.rewrite(packet, &ip, tcp));
        rewritten.map_or(Action::Drop, |()| Action::Redirect)
    }

    /// `None`, and nothing is done, if there is an option that cannot be rewritten.
    fn rewrite(&self, packet: &mut [u8], ip: &Header, header: usize) -> Option<()> {
        let place = ip.length..ip.length + header;
        let old = packet[place.clone()].to_vec();
        let mut new = old.clone();
        self.options(&mut new)?;
        self.fixed_part(&mut new);

        // What it covers of the IP header is the same in both versions but for the addresses (RFC 8200 section 8.1).
        let others = [self.to.source, self.to.destination].map(|end| octets(end.ip()));
        let others = others.concat();
        let sum = checksum::updated(u16_at(&old, CHECKSUM), ip.addresses(packet), &others);
        let sum = checksum::updated(sum, &old, &new);
        put(&mut new, CHECKSUM, sum.to_be_bytes());
        packet[place].copy_from_slice(&new);
        ip.rewrite(packet, &others);
        Some(())
    }

    /// Rewrites all of the TCP header but its options and its checksum.
    fn fixed_part(&self, header: &mut [u8]) {
        let flags = header[FLAGS];
        put(header, SOURCE_PORT, self.to.source.port().to_be_bytes());
        put(header, DESTINATION_PORT, self.to.destination.port().to_be_bytes());
        add(header, SEQUENCE, self.sequence);
        if flags & ACK != 0 {
            add(header, ACKNOWLEDGEMENT, self.acknowledgement);
        }
        // A SYN's window has no scale (RFC 7323 section 2.2).
        if flags & SYN == 0 {
            let window = self.window(u16_at(header, WINDOW));
            put(header, WINDOW, window.to_be_bytes());
        }
    }

    /// The window field that offers no more than `field` does, and at most 65535 units of the other scale.
    fn window(&self, field: u16) -> u16 {
        let bytes = u32::from(field) << self.scale_in;
        u16::try_from(bytes >> self.scale_out).unwrap_or(u16::MAX)
    }

    fn options(&self, header: &mut [u8]) -> Option<()> {
        let flags = header[FLAGS];
        let mut at = OPTIONS;
        while at < header.len() && header[at] != END {
            if header[at] == NO_OPERATION {
                at += 1;
                continue;
            }
            let length = usize::from(*header.get(at + 1)?);
            if length < 2 {
                return None;
            }
            self.option(header.get_mut(at..at + length)?, flags)?;
            at += length;
        }
        Some(())
    }

    /// All but timestamps, selective acknowledgements, padding, and the longest segment in a SYN are unknown.
    fn option(&self, option: &mut [u8], flags: u8) -> Option<()> {
        match (option[0], option.len()) {
            (TIMESTAMPS, TIMESTAMPS_LENGTH) => {
                add(option, 2, self.tsval);
                // Without ACK it echoes nothing (RFC 7323 section 3.2).
                if flags & ACK != 0 {
                    add(option, 6, self.tsecr);
                }
            }
            (SACK, length) if length > 2 && length % 8 == 2 => {
                for edge in (2..length).step_by(4) {
                    add(option, edge, self.acknowledgement);
                }
            }
            (MSS, MSS_LENGTH) if flags & SYN != 0 => {}
            _ => return None,
        }
        Some(())
    }
}

/// The length of the TCP header; `None` if the packet has IPv4's options, is the first part of one (without it the others never
/// become a whole one), has lengths that contradict each other, or has been on its way for too long (RFC 1812 section 5.3.1, RFC
/// 8200 section 3).
fn header_length(packet: &[u8], ip: &Header) -> Option<usize> {
    let is_whole = ip.total <= packet.len() && ip.total >= ip.length + OPTIONS;
    if ip.options || ip.fragment || ip.hops <= 1 || !is_whole {
        return None;
    }
    let tcp = usize::from(packet[ip.length + DATA_OFFSET] >> 4) * 4;
    (tcp >= OPTIONS && ip.length + tcp <= ip.total).then_some(tcp)
}

fn flow(packet: &[u8], ip: &Header) -> Option<Flow> {
    let ports = packet.get(ip.length..ip.length + 4)?;
    Some(Flow {
        source: SocketAddr::new(ip.source, u16_at(ports, SOURCE_PORT)),
        destination: SocketAddr::new(ip.destination, u16_at(ports, DESTINATION_PORT)),
    })
}

fn add(bytes: &mut [u8], at: usize, number: u32) {
    let sum = u32::from_be_bytes(array(bytes, at)).wrapping_add(number);
    put(bytes, at, sum.to_be_bytes());
}
