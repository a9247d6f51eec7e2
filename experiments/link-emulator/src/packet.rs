//! An AF_PACKET socket on one interface. The only module with `unsafe`: nix has no safe way to bind such a
//! socket and lacks its options (packet(7)).

use std::io::IoSliceMut;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant, SystemTime};

use nix::cmsg_space;
use nix::errno::Errno;
use nix::net::if_::if_nametoindex;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockType, recvmsg, send, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeSpec;

/// Longest frame that is forwarded. Longer ones are offload artefacts that no link carries.
pub const MAX_FRAME_BYTES: usize = 65_535;
/// The kernel doubles it and books a full frame as 2304 bytes: room for 7280 of them, 0.4 s at 200 Mbit/s, which outlasts
/// any pause of this process.
const BUFFER_BYTES: usize = 8 << 20;

pub struct PacketSocket {
    fd: OwnedFd,
}

/// Room for one frame and its arrival time.
pub struct ReceiveBuffer {
    frame: Vec<u8>,
    control: Vec<u8>,
}

impl ReceiveBuffer {
    pub fn new() -> Self {
        Self {
            frame: vec![0; MAX_FRAME_BYTES],
            control: cmsg_space!(TimeSpec),
        }
    }
}

pub struct Received<'a> {
    /// `None` if the frame was longer than [`MAX_FRAME_BYTES`].
    pub frame: Option<&'a [u8]>,
    pub arrival: Instant,
}

impl PacketSocket {
    /// Opens a socket that sees every frame which enters `interface`, and none which leaves it.
    pub fn open(interface: &str) -> nix::Result<Self> {
        let index = if_nametoindex(interface)? as libc::c_int;
        // No protocol before the bind: else frames of all other interfaces would come in until then.
        let fd = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None)?;
        setsockopt(&fd, sockopt::RcvBufForce, &BUFFER_BYTES)?;
        // What waits in a queue where it enters the far end is still this socket's: it must not stop the other direction.
        setsockopt(&fd, sockopt::SndBufForce, &BUFFER_BYTES)?;
        setsockopt(&fd, sockopt::ReceiveTimestampns, &true)?;
        set_packet_option(&fd, libc::PACKET_IGNORE_OUTGOING, &1)?;
        set_packet_option(&fd, libc::PACKET_ADD_MEMBERSHIP, &promiscuous(index))?;
        bind_to(&fd, index)?;
        Ok(Self { fd })
    }

    /// Reads one frame; EAGAIN if none is there.
    pub fn receive<'a>(&self, buffer: &'a mut ReceiveBuffer) -> nix::Result<Received<'a>> {
        let (length, stamp) = {
            let mut parts = [IoSliceMut::new(&mut buffer.frame)];
            // MSG_TRUNC: the length is that of the frame, not of the part that fitted.
            let message = recvmsg::<()>(
                self.fd.as_raw_fd(),
                &mut parts,
                Some(&mut buffer.control),
                MsgFlags::MSG_TRUNC | MsgFlags::MSG_DONTWAIT,
            )?;
            (message.bytes, message.cmsgs()?.find_map(kernel_stamp))
        };
        Ok(Received {
            frame: buffer.frame.get(..length),
            arrival: arrival_time(stamp),
        })
    }

    pub fn send(&self, frame: &[u8]) -> nix::Result<()> {
        send(self.fd.as_raw_fd(), frame, MsgFlags::empty()).map(drop)
    }

    /// Frames that the kernel dropped because this socket's buffer was full, since the last call.
    pub fn take_kernel_drops(&self) -> nix::Result<u32> {
        let mut statistics = libc::tpacket_stats {
            tp_packets: 0,
            tp_drops: 0,
        };
        let mut length = size_of::<libc::tpacket_stats>() as libc::socklen_t;
        // SAFETY: both pointers are to live variables, and `length` is the size of the first.
        let result = unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut statistics).cast(),
                &raw mut length,
            )
        };
        Errno::result(result).map(|_| statistics.tp_drops)
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn kernel_stamp(message: ControlMessageOwned) -> Option<Duration> {
    match message {
        ControlMessageOwned::ScmTimestampns(stamp) => Some(stamp.into()),
        _ => None,
    }
}

/// The kernel stamps with the wall clock, the link model counts on the monotonic one: carry over the age. It is the time
/// that this process took to wake up, and must not lengthen the link.
fn arrival_time(stamp: Option<Duration>) -> Instant {
    let now = Instant::now();
    stamp
        .and_then(|stamp| SystemTime::UNIX_EPOCH.checked_add(stamp))
        .and_then(|stamp| SystemTime::now().duration_since(stamp).ok())
        .and_then(|age| now.checked_sub(age))
        .unwrap_or(now)
}

fn promiscuous(index: libc::c_int) -> libc::packet_mreq {
    libc::packet_mreq {
        mr_ifindex: index,
        mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
        mr_alen: 0,
        mr_address: [0; 8],
    }
}

fn set_packet_option<T>(fd: &OwnedFd, option: libc::c_int, value: &T) -> nix::Result<()> {
    // SAFETY: the pointer and the size are those of one live value, which the kernel only reads.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_PACKET,
            option,
            (&raw const *value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    Errno::result(result).map(drop)
}

fn bind_to(fd: &OwnedFd, index: libc::c_int) -> nix::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as libc::c_ushort,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: index,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    // SAFETY: the pointer and the size are those of one live address, which the kernel only reads.
    let result = unsafe {
        libc::bind(
            fd.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    Errno::result(result).map(drop)
}
