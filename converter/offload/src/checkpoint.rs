//! A connection's state out of its socket, by the kernel's repair mode (tcp(7), `TCP_REPAIR`).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

use socket2::{Protocol, SockFilter, SockRef};
use tributary_sys::{
    SocketOption, TcpInfo, array, canonical, get_number, get_option, set_number, set_option, wait_for_packets_under_way,
};

use crate::leg::{Leg, Timestamps};

pub(crate) const RECEIVE_QUEUE: u32 = 1; // TCP_RECV_QUEUE
pub(crate) const SEND_QUEUE: u32 = 2; // TCP_SEND_QUEUE
/// `TCP_REPAIR_OFF_NO_WP`: out of repair mode, and nothing is sent.
const REPAIR_OFF_SILENTLY: i32 = -1;
/// `TCP_REPAIR_OFF`: out of repair mode, and the other end is asked for its window.
pub(crate) const REPAIR_OFF: i32 = 0;
pub(crate) const REPAIR_ON: i32 = 1;
/// Of `TCP_QUICKACK`: what is to be acknowledged is acknowledged now, and later as before (`__tcp_sock_set_quickack()` in
/// net/ipv4/tcp.c).
const ACKNOWLEDGE_NOW: i32 = 2;
/// Bytes of a segment's headers without options, by the version of IP (RFC 6691 section 2), and of timestamps with what fills
/// their last word.
const HEADERS_IPV4: u32 = 40;
const HEADERS_IPV6: u32 = 60;
const TIMESTAMPS_SPACE: u32 = 12;

/// For a segment from its TCP header on: 0 bytes of it are taken if it has data or a FIN, and else all (linux/filter.h).
const NO_DATA: [SockFilter; 10] = [
    SockFilter::new(0x30, 0, 0, 13), // A = flags
    SockFilter::new(0x45, 7, 0, 1),  // FIN
    SockFilter::new(0x30, 0, 0, 12), // A = length of the header, in its upper four bits
    SockFilter::new(0x74, 0, 0, 4),
    SockFilter::new(0x64, 0, 0, 2),
    SockFilter::new(0x07, 0, 0, 0), // X = A
    SockFilter::new(0x80, 0, 0, 0), // A = length of the segment
    SockFilter::new(0x1d, 0, 1, 0), // A == X
    SockFilter::new(0x06, 0, 0, u32::MAX),
    SockFilter::new(0x06, 0, 0, 0),
];

/// Bytes of `struct tcp_repair_window`.
pub(crate) const WINDOW: usize = 20;

/// All that is to be known of a connection that rests, to go on with it elsewhere. What it had learned of its path, its
/// congestion window and its round-trip times, is not in it. Addresses are those of its segments: of IPv4 also where the
/// socket is one of IPv6.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    pub local: SocketAddr,
    pub remote: SocketAddr,
    /// Sequence number of the next byte to be sent.
    pub snd_nxt: u32,
    /// Sequence number of the next byte that is expected.
    pub rcv_nxt: u32,
    /// Scales of windows, if they were agreed on.
    pub scales: Option<Scales>,
    /// Our clock of timestamps, in its own ticks, if they were agreed on; its lowest bit tells of the kernel's unit
    /// (`do_tcp_getsockopt()` in net/ipv4/tcp.c).
    pub clock: Option<u32>,
    pub sack: bool,
    /// Bytes of the longest segment that we said we take.
    pub mss_in: u32,
    /// Bytes of the longest segment that the other end takes.
    pub mss_out: u32,
    /// Bytes of the longest packet that the way to it takes.
    pub path_mtu: u32,
    /// `struct tcp_repair_window`, for the same kernel.
    pub(crate) window: [u8; WINDOW],
    /// Whether the socket had `SO_KEEPALIVE`, which it has again when it is released. It does not travel.
    pub(crate) keepalive: bool,
}

/// Bits by which windows are shifted (RFC 7323 section 2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scales {
    /// The other end's, for windows that come in.
    pub snd: u8,
    /// Ours, for windows that go out.
    pub rcv: u8,
}

impl Checkpoint {
    /// Has the socket that this was taken of go on, as it was before, or one of [`restore_dropping_all`]. If the other end's
    /// window has no room for a segment, it is asked for it: what opened it may have been dropped.
    ///
    /// [`restore_dropping_all`]: crate::restore_dropping_all
    pub fn release(&self, socket: impl AsFd) -> io::Result<()> {
        SockRef::from(&socket).set_keepalive(self.keepalive)?;
        let has_room = self.send_window() >= self.longest_segment();
        end_repair(socket, if has_room { REPAIR_OFF_SILENTLY } else { REPAIR_OFF })
    }

    /// Bytes of the longest segment that both the other end and the way to it take.
    pub(crate) fn longest_segment(&self) -> u32 {
        let headers = match self.remote {
            SocketAddr::V4(_) => HEADERS_IPV4,
            SocketAddr::V6(_) => HEADERS_IPV6,
        };
        self.mss_out.min(self.path_mtu.saturating_sub(headers))
    }

    /// Bytes that the other end takes behind those that it has acknowledged (`snd_wnd`).
    fn send_window(&self) -> u32 {
        u32::from_ne_bytes(array(&self.window, 4))
    }

    /// Bytes that the other end may still send, by what it was told: up to `rcv_wup` and `rcv_wnd` together.
    fn room(&self) -> u32 {
        let [wnd, wup] = [12, 16].map(|at| u32::from_ne_bytes(array(&self.window, at)));
        let room = wup.wrapping_add(wnd).wrapping_sub(self.rcv_nxt);
        // What came was read, but for what overtook the last window.
        i32::try_from(room).map_or(0, |_| room)
    }

    /// One side of a translation; `theirs` is the last timestamp that came from the other end, if there are timestamps.
    pub fn leg(&self, theirs: u32) -> Leg {
        let scales = self.scales.unwrap_or(Scales { snd: 0, rcv: 0 });
        Leg {
            local: self.local,
            remote: self.remote,
            snd_nxt: self.snd_nxt,
            rcv_nxt: self.rcv_nxt,
            room: self.room(),
            snd_scale: scales.snd,
            rcv_scale: scales.rcv,
            // The tick that the lowest bit may stand for was not sent yet, or just now.
            timestamps: self.clock.map(|clock| Timestamps {
                ours: clock | 1,
                theirs,
            }),
            sack: self.sack,
            mss_in: u16::try_from(self.mss_in).unwrap_or(u16::MAX),
            mss_out: u16::try_from(self.longest_segment()).unwrap_or(u16::MAX),
        }
    }
}

/// Why a connection cannot be checkpointed. The socket goes on.
#[derive(Debug, thiserror::Error)]
pub enum NotQuiescent {
    /// It is not a socket of TCP alone: of Multipath TCP, for one, also where that fell back to TCP.
    #[error("the socket is not one of plain TCP")]
    NotTcp,
    /// Its addresses are of one link alone (RFC 4291 section 2.5.6), and without that link they say nothing.
    #[error("the addresses are link-local")]
    LinkLocal,
    /// It is not established, but in this state (`include/net/tcp_states.h`).
    #[error("the connection is in state {0}, not established")]
    State(u8),
    /// Something was agreed on that cannot be gone on with elsewhere, by `TCPI_OPT_` bits: 8 and 16 are explicit
    /// congestion notification.
    #[error("options {0:#x} of TCP_INFO were agreed on")]
    Options(u8),
    /// A protocol of the kernel's is above it (`TCP_ULP`).
    #[error("a protocol of the kernel is above TCP")]
    Upper,
    #[error("{0} bytes are not acknowledged")]
    InFlight(u32),
    #[error("{0} bytes are not read")]
    Unread(u32),
    #[error("bytes are missing before others")]
    OutOfOrder,
    /// The kernel refuses: without `CAP_NET_ADMIN` it does.
    #[error("the kernel refuses: {0}")]
    Kernel(#[from] io::Error),
}

impl NotQuiescent {
    /// Whether it may be gone a moment later.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::InFlight(_) | Self::Unread(_) | Self::OutOfOrder)
    }

    /// For metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::NotTcp => "mptcp",
            Self::LinkLocal => "link-local",
            Self::State(_) => "state",
            Self::Options(bits) if bits & TcpInfo::ECN != 0 => "ecn",
            Self::Options(_) => "options",
            Self::Upper => "tls",
            Self::InFlight(_) => "in-flight",
            Self::Unread(_) => "unread",
            Self::OutOfOrder => "out-of-order",
            Self::Kernel(_) => "kernel",
        }
    }
}

/// Has the kernel drop all that comes for these sockets, and neither acknowledge nor answer it. When this returns nothing
/// that came before is under way to them any more, which takes some milliseconds.
pub fn drop_all(sockets: &[BorrowedFd<'_>]) -> io::Result<()> {
    for socket in sockets {
        begin_dropping_all(socket)?;
    }
    wait_for_packets_under_way()
}

/// The same, also for a socket that listens, without the wait: what a processor has begun to take may still come in.
/// [`is_unchanged`] says whether something did.
pub fn begin_dropping_all(socket: impl AsFd) -> io::Result<()> {
    let take_nothing = [SockFilter::new(0x06, 0, 0, 0)]; // BPF_RET
    SockRef::from(&socket).attach_filter(&take_nothing)
}

/// Has the kernel drop the data that comes for these sockets, and take acknowledgements and resets: what is in flight from
/// here can come to rest. When this returns no data is under way to them any more, which takes some milliseconds.
/// [`release`] ends it.
pub fn drop_incoming_data(sockets: &[BorrowedFd<'_>]) -> io::Result<()> {
    begin_dropping_data(sockets)?;
    wait_for_packets_under_way()
}

/// The first half of [`drop_incoming_data`], which does not wait: data may be under way to them until [`tributary_sys::wait_for_packets_under_way`]
/// has returned.
pub fn begin_dropping_data(sockets: &[BorrowedFd<'_>]) -> io::Result<()> {
    for socket in sockets {
        SockRef::from(socket).attach_filter(&NO_DATA)?;
    }
    Ok(())
}

/// Has a socket go on that dropped packets or data; [`Checkpoint::release`] is for one that was checkpointed.
pub fn release(socket: impl AsFd) -> io::Result<()> {
    end_repair(socket, REPAIR_OFF_SILENTLY)
}

fn end_repair(socket: impl AsFd, mode: i32) -> io::Result<()> {
    SockRef::from(&socket).detach_filter()?;
    set_number(&socket, SocketOption::TCP_REPAIR, mode)?;
    // Out of repair mode it is gone (`do_tcp_setsockopt()` in net/ipv4/tcp.c), and a listener that starts again could not
    // have the port.
    SockRef::from(&socket).set_reuse_address(true)
}

/// What would keep [`checkpoint()`] from the state of a socket at this moment. Costs little, and acknowledgements still come in.
pub fn check_quiescent(socket: impl AsFd) -> Result<(), NotQuiescent> {
    ends(socket.as_fd())?;
    check(socket.as_fd(), &TcpInfo::of(socket.as_fd())?)
}

/// Checkpoints a socket that drops all packets ([`drop_all`]) or data ([`drop_incoming_data`]): without that, bytes that
/// arrive meanwhile would be lost. From then on it sends nothing, even when it is closed. After an error it still drops
/// packets, and is otherwise as before.
///
/// Repair mode stops none of the kernel's timers (docs/timers.md). All that was sent is acknowledged, so none waits for an
/// acknowledgement; the one of keep-alive probes would reset the other end, whose answers are dropped
/// (`tcp_keepalive_timer()` in `net/ipv4/tcp_timer.c`), and the one of delayed acknowledgements would send a clock that may be
/// ahead of that of whoever goes on with the connection (RFC 7323 section 5).
pub fn checkpoint(socket: impl AsFd) -> Result<Checkpoint, NotQuiescent> {
    let socket = socket.as_fd();
    let [local, remote] = ends(socket)?;
    let info = TcpInfo::of(socket)?;
    check(socket, &info)?;
    set_number(socket, SocketOption::TCP_QUICKACK, ACKNOWLEDGE_NOW)?;
    set_number(socket, SocketOption::TCP_REPAIR, REPAIR_ON)?;
    let keepalive = SockRef::from(&socket).keepalive()?;
    SockRef::from(&socket).set_keepalive(false)?;
    state(socket, &info, local, remote)
        .map(|state| Checkpoint { keepalive, ..state })
        .inspect_err(|_| {
            // Both were so a moment ago, and nothing else is of use to who asks.
            let _ = set_number(socket, SocketOption::TCP_REPAIR, REPAIR_OFF_SILENTLY);
            let _ = SockRef::from(&socket).set_keepalive(keepalive);
        })
        .map_err(NotQuiescent::from)
}

/// Checkpoints two sockets that drop data: an acknowledgement that arrives meanwhile changes nothing in a checkpoint. After
/// an error both go on.
pub fn checkpoint_both(sockets: [BorrowedFd<'_>; 2]) -> Result<[Checkpoint; 2], NotQuiescent> {
    let [first, second] = sockets;
    let first_state = checkpoint(first).inspect_err(|_| {
        // The caller needs the first error; both could drop packets a moment ago.
        let _ = release(first).and(release(second));
    })?;
    match checkpoint(second) {
        Ok(second_state) => Ok([first_state, second_state]),
        Err(obstacle) => {
            first_state.release(first).and(release(second))?;
            Err(obstacle)
        }
    }
}

/// Whether a socket has acknowledged nothing since its checkpoint.
pub fn is_unchanged(socket: impl AsFd, state: &Checkpoint) -> io::Result<bool> {
    Ok(queue_end(socket.as_fd(), RECEIVE_QUEUE)? == state.rcv_nxt)
}

/// Sends a window probe (RFC 9293 section 3.8.6.1) to the other end of a socket in repair mode, which stays in it.
pub(crate) fn ask_for_window(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_number(socket, SocketOption::TCP_REPAIR, REPAIR_OFF)?;
    set_number(socket, SocketOption::TCP_REPAIR, REPAIR_ON)
}

/// Both addresses, this end's first, as segments have them.
pub(crate) fn ends(socket: BorrowedFd<'_>) -> Result<[SocketAddr; 2], NotQuiescent> {
    let socket = SockRef::from(&socket);
    if socket.protocol()? != Some(Protocol::TCP) {
        return Err(NotQuiescent::NotTcp);
    }
    let ends = [socket.local_addr()?, socket.peer_addr()?];
    match ends.map(|end| end.as_socket().map(canonical)) {
        [Some(local), Some(remote)] if is_link_local(local) || is_link_local(remote) => Err(NotQuiescent::LinkLocal),
        [Some(local), Some(remote)] => Ok([local, remote]),
        _ => Err(NotQuiescent::NotTcp),
    }
}

fn is_link_local(end: SocketAddr) -> bool {
    matches!(end.ip(), IpAddr::V6(address) if address.is_unicast_link_local())
}

fn check(socket: BorrowedFd<'_>, info: &TcpInfo) -> Result<(), NotQuiescent> {
    if info.state() != TcpInfo::ESTABLISHED {
        return Err(NotQuiescent::State(info.state()));
    }
    let known = TcpInfo::TIMESTAMPS | TcpInfo::SACK | TcpInfo::SCALED | TcpInfo::HARMLESS;
    if info.options() & !known != 0 {
        return Err(NotQuiescent::Options(info.options() & !known));
    }
    if get_option(socket, SocketOption::TCP_ULP, &mut [0; 16])? != 0 {
        return Err(NotQuiescent::Upper);
    }
    match tributary_sys::unacknowledged(socket)? {
        0 => {}
        bytes => return Err(NotQuiescent::InFlight(bytes)),
    }
    match tributary_sys::unread(socket)? {
        0 => {}
        bytes => return Err(NotQuiescent::Unread(bytes)),
    }
    // All that is in order was read: what still takes memory is not in order.
    if tributary_sys::receive_memory(socket)?.taken != 0 {
        return Err(NotQuiescent::OutOfOrder);
    }
    Ok(())
}

fn state(socket: BorrowedFd<'_>, info: &TcpInfo, local: SocketAddr, remote: SocketAddr) -> io::Result<Checkpoint> {
    let agreed = |bit| info.options() & bit != 0;
    let (snd, rcv) = info.scales();
    let clock = agreed(TcpInfo::TIMESTAMPS).then(|| get_number(socket, SocketOption::TCP_TIMESTAMP));
    // Timestamps are taken off what was said (tcp_finish_connect() in net/ipv4/tcp_input.c); in a restored socket they are
    // not, and this is too much, which is the safe side.
    let spent = if clock.is_some() { TIMESTAMPS_SPACE } else { 0 };
    let mut window = [0; WINDOW];
    get_option(socket, SocketOption::TCP_REPAIR_WINDOW, &mut window)?;
    Ok(Checkpoint {
        local,
        remote,
        snd_nxt: queue_end(socket, SEND_QUEUE)?,
        rcv_nxt: queue_end(socket, RECEIVE_QUEUE)?,
        scales: agreed(TcpInfo::SCALED).then_some(Scales { snd, rcv }),
        clock: clock.transpose()?,
        sack: agreed(TcpInfo::SACK),
        mss_in: info.advertised_mss() + spent,
        mss_out: SockRef::from(&socket).tcp_mss()?,
        path_mtu: info.path_mtu(),
        window,
        keepalive: false,
    })
}

fn queue_end(socket: BorrowedFd<'_>, queue: u32) -> io::Result<u32> {
    set_option(socket, SocketOption::TCP_REPAIR_QUEUE, &queue.to_ne_bytes())?;
    get_number(socket, SocketOption::TCP_QUEUE_SEQ)
}
