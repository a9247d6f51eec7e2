//! Options and counts of sockets that no library has.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _};

pub(crate) const SOL_MPTCP: i32 = 284; // include/linux/socket.h

/// A socket option. Only these: nothing in their values is a pointer, which the kernel would follow.
#[derive(Clone, Copy, Debug)]
pub struct SocketOption {
    level: i32,
    name: i32,
}

// Their names are the kernel's: socket(7), ip(7), ipv6(7), tcp(7), netlink(7), include/uapi/linux/{tcp,mptcp}.h.
impl SocketOption {
    pub const MEMINFO: Self = Self::of(libc::SOL_SOCKET, libc::SO_MEMINFO);
    pub const RCVBUF: Self = Self::of(libc::SOL_SOCKET, libc::SO_RCVBUF);
    pub const RCVBUFFORCE: Self = Self::of(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE);
    pub const RCVLOWAT: Self = Self::of(libc::SOL_SOCKET, libc::SO_RCVLOWAT);
    pub const IP_BIND_ADDRESS_NO_PORT: Self = Self::of(libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT);
    pub const IP_RECVERR: Self = Self::of(libc::IPPROTO_IP, libc::IP_RECVERR);
    pub const IPV6_RECVERR: Self = Self::of(libc::IPPROTO_IPV6, libc::IPV6_RECVERR);
    pub const IPV6_TRANSPARENT: Self = Self::of(libc::IPPROTO_IPV6, libc::IPV6_TRANSPARENT);
    pub const NETLINK_ADD_MEMBERSHIP: Self = Self::of(libc::SOL_NETLINK, libc::NETLINK_ADD_MEMBERSHIP);
    pub const TCP_FASTOPEN: Self = Self::of(libc::IPPROTO_TCP, libc::TCP_FASTOPEN);
    pub const TCP_FASTOPEN_CONNECT: Self = Self::of(libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT);
    pub const TCP_FASTOPEN_NO_COOKIE: Self = Self::of(libc::IPPROTO_TCP, 34);
    pub const TCP_INFO: Self = Self::of(libc::IPPROTO_TCP, libc::TCP_INFO);
    pub const TCP_INQ: Self = Self::of(libc::IPPROTO_TCP, super::receive::TCP_INQ);
    pub const TCP_QUEUE_SEQ: Self = Self::of(libc::IPPROTO_TCP, libc::TCP_QUEUE_SEQ);
    pub const TCP_QUICKACK: Self = Self::of(libc::IPPROTO_TCP, libc::TCP_QUICKACK);
    pub const TCP_REPAIR: Self = Self::of(libc::IPPROTO_TCP, libc::TCP_REPAIR);
    pub const TCP_REPAIR_OPTIONS: Self = Self::of(libc::IPPROTO_TCP, libc::TCP_REPAIR_OPTIONS);
    pub const TCP_REPAIR_QUEUE: Self = Self::of(libc::IPPROTO_TCP, libc::TCP_REPAIR_QUEUE);
    pub const TCP_REPAIR_WINDOW: Self = Self::of(libc::IPPROTO_TCP, libc::TCP_REPAIR_WINDOW);
    pub const TCP_TIMESTAMP: Self = Self::of(libc::IPPROTO_TCP, libc::TCP_TIMESTAMP);
    pub const TCP_ULP: Self = Self::of(libc::IPPROTO_TCP, libc::TCP_ULP);
    pub const TCP_WINDOW_CLAMP: Self = Self::of(libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP);
    pub(crate) const MPTCP_INFO: Self = Self::of(SOL_MPTCP, 1);
    pub(crate) const MPTCP_TCPINFO: Self = Self::of(SOL_MPTCP, 2);
    pub(crate) const MPTCP_SUBFLOW_ADDRS: Self = Self::of(SOL_MPTCP, 3);

    const fn of(level: i32, name: i32) -> Self {
        Self { level, name }
    }
}

/// Reads an option into `value`, which may also hold what the kernel wants to know; returns its length in bytes.
pub fn get_option(socket: impl AsFd, option: SocketOption, value: &mut [u8]) -> io::Result<usize> {
    let mut length = libc::socklen_t::try_from(value.len()).map_err(io::Error::other)?;
    // SAFETY: the pointer and the length describe `value`, which outlives the call; the kernel writes no further, and
    // no option that there is a `SocketOption` for makes it write anywhere else.
    checked(unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            option.level,
            option.name,
            value.as_mut_ptr().cast(),
            &raw mut length,
        )
    })?;
    Ok(length as usize)
}

pub fn set_option(socket: impl AsFd, option: SocketOption, value: &[u8]) -> io::Result<()> {
    let length = libc::socklen_t::try_from(value.len()).map_err(io::Error::other)?;
    // SAFETY: the pointer and the length describe `value`, which outlives the call.
    checked(unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            option.level,
            option.name,
            value.as_ptr().cast(),
            length,
        )
    })
}

pub fn get_number(socket: impl AsFd, option: SocketOption) -> io::Result<u32> {
    let mut value = [0; 4];
    get_option(socket, option, &mut value)?;
    Ok(u32::from_ne_bytes(value))
}

pub fn set_number(socket: impl AsFd, option: SocketOption, value: i32) -> io::Result<()> {
    set_option(socket, option, &value.to_ne_bytes())
}

/// Bytes of a receive buffer.
#[derive(Clone, Copy, Debug)]
pub struct ReceiveMemory {
    /// By what came in, read or not, in order or not.
    pub taken: u32,
    /// Beyond these nothing more is taken (`SO_RCVBUF`).
    pub most: u32,
}

/// A socket's (`SO_MEMINFO`, `sock_diag(7)`).
pub fn receive_memory(socket: impl AsFd) -> io::Result<ReceiveMemory> {
    let mut value = [0; 36]; // SK_MEMINFO_VARS numbers
    get_option(socket, SocketOption::MEMINFO, &mut value)?;
    let [taken, most] = [0, 4].map(|at| u32::from_ne_bytes(super::array(&value, at)));
    Ok(ReceiveMemory { taken, most })
}

/// Bytes that came and were not read yet (`SIOCINQ`, tcp(7)).
pub fn unread(socket: impl AsFd) -> io::Result<u32> {
    u32::try_from(rustix::io::ioctl_fionread(socket)?).map_err(io::Error::other)
}

/// Bytes that were written and are not acknowledged yet (`SIOCOUTQ`, tcp(7)). An end counts as one of them.
pub fn unacknowledged(socket: impl AsFd) -> io::Result<u32> {
    let mut value: libc::c_int = 0;
    // SAFETY: the request writes one int, which outlives the call.
    checked(unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut value) })?;
    u32::try_from(value).map_err(io::Error::other)
}

pub(crate) fn checked(code: libc::c_int) -> io::Result<()> {
    if code == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
