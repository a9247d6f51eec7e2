//! The only unsafe code beside `bpf.rs`: socket options that no library wraps, and descriptors that were passed. No
//! promise of a caller's is needed for any of it to be sound.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Once;

const SOL_MPTCP: i32 = 284; // include/linux/socket.h
const STANDARD: RawFd = 2;
/// Also the type of the control message.
pub const TCP_INQ: i32 = 36; // include/uapi/linux/tcp.h

/// An option that can be read from a socket. Only these: others have pointers in their buffer, which the kernel follows.
#[derive(Clone, Copy, Debug)]
pub struct Readable {
    level: i32,
    name: i32,
}

impl Readable {
    /// The socket's number, which no other has (`SO_COOKIE`, socket(7)).
    pub const COOKIE: Self = Self::of(libc::SOL_SOCKET, libc::SO_COOKIE);
    /// `struct tcp_info`.
    pub const TCP_INFO: Self = Self::of(libc::IPPROTO_TCP, libc::TCP_INFO);
    // include/uapi/linux/mptcp.h
    /// `struct mptcp_info`.
    pub const MPTCP_INFO: Self = Self::of(SOL_MPTCP, 1);
    /// `struct mptcp_subflow_data`, and a `struct tcp_info` for each subflow.
    pub const MPTCP_TCPINFO: Self = Self::of(SOL_MPTCP, 2);
    /// The same, and a `struct mptcp_subflow_addrs` for each.
    pub const MPTCP_SUBFLOW_ADDRS: Self = Self::of(SOL_MPTCP, 3);

    const fn of(level: i32, name: i32) -> Self {
        Self { level, name }
    }
}

/// Reads the socket option into `buffer`, which may also hold what the kernel wants to know; returns its length.
pub fn get_option(
    socket: BorrowedFd<'_>,
    option: Readable,
    buffer: &mut [u8],
) -> io::Result<usize> {
    let mut length = libc::socklen_t::try_from(buffer.len()).map_err(io::Error::other)?;
    // SAFETY: the pointer and the length describe `buffer`, which outlives the call; the kernel writes no further, and
    // no option that there is a `Readable` for makes it write anywhere else.
    let code = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            option.level,
            option.name,
            buffer.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if code == 0 {
        Ok(length as usize)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Sets an integer socket option.
pub fn set_option(socket: BorrowedFd<'_>, level: i32, name: i32, value: i32) -> io::Result<()> {
    let length = libc::socklen_t::try_from(size_of_val(&value)).map_err(io::Error::other)?;
    // SAFETY: the pointer and the length describe `value`, which outlives the call.
    let code = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            length,
        )
    };
    if code == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Reads once; with how many bytes are there behind those, where the socket tells (`TCP_INQ`).
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<(usize, Option<i32>)> {
    let mut control = [0_u64; 4]; // aligned for cmsghdr
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: all zeroes is a valid msghdr: null pointers and no lengths.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control);
    // SAFETY: `message` points to `part`, that to `buffer`, and to `control`; all outlive the call.
    let count = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) };
    let Ok(count) = usize::try_from(count) else {
        return Err(io::Error::last_os_error());
    };
    // SAFETY: the kernel filled `message` and `control`; CMSG_FIRSTHDR gives null or a header within it.
    let header = unsafe { libc::CMSG_FIRSTHDR(&raw const message).as_ref() };
    let told = header.filter(|header| {
        (header.cmsg_level, header.cmsg_type) == (libc::IPPROTO_TCP, TCP_INQ)
            && header.cmsg_len >= size_of::<libc::cmsghdr>() + size_of::<i32>()
    });
    // SAFETY: the length was checked to hold an i32 behind the header.
    let left = told.map(|header| unsafe { libc::CMSG_DATA(header).cast::<i32>().read_unaligned() });
    Ok((count, left))
}

/// Takes over descriptors that whoever started this process passed: once in its life. Raises `EBADF` for one that is not
/// open, standard, named twice, or this process' own: what that opens is closed over exec(2) from the first moment.
pub fn inherited(numbers: impl IntoIterator<Item = RawFd>) -> io::Result<Vec<OwnedFd>> {
    static TAKEN: Once = Once::new();
    let mut taken = Err(io::Error::other("descriptors are taken over once"));
    TAKEN.call_once(|| taken = numbers.into_iter().map(own).collect());
    taken
}

fn own(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: F_GETFD takes any number and touches no memory.
    let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
    if number <= STANDARD || flags < 0 || flags & libc::FD_CLOEXEC != 0 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: it is open, and not by this process, whose libraries open nothing without FD_CLOEXEC: nobody owns it yet.
    let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
    // SAFETY: F_SETFD touches no memory; from now on the descriptor is one of this process' own.
    if unsafe { libc::fcntl(number, libc::F_SETFD, flags | libc::FD_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(descriptor)
}

/// The code of the first ICMP error in the socket's error queue (ip(7), `MSG_ERRQUEUE`).
pub fn queued_icmp_code(socket: BorrowedFd<'_>) -> Option<u8> {
    let mut control = [0_u64; 64]; // aligned for cmsghdr
    // SAFETY: all zeroes is a valid msghdr: null pointers and no lengths.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control);
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: `message` points to `control`, which outlives the call, and to nothing else.
    if unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) } < 0 {
        return None;
    }
    // SAFETY: the kernel filled `message` and `control`; CMSG_FIRSTHDR gives null or a header within it.
    let header = unsafe { libc::CMSG_FIRSTHDR(&raw const message).as_ref() }?;
    if header.cmsg_len < size_of::<libc::cmsghdr>() + size_of::<libc::sock_extended_err>() {
        return None;
    }
    // SAFETY: the length was checked to hold a sock_extended_err behind the header.
    let error = unsafe {
        libc::CMSG_DATA(header)
            .cast::<libc::sock_extended_err>()
            .read_unaligned()
    };
    let is_icmp = [libc::SO_EE_ORIGIN_ICMP, libc::SO_EE_ORIGIN_ICMP6].contains(&error.ee_origin);
    is_icmp.then_some(error.ee_code)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::IntoRawFd as _;

    use rustix::io::{FdFlags, fcntl_setfd};

    use super::*;

    #[test]
    fn what_this_process_opened_or_nobody_did_is_not_taken_over_and_what_was_passed_is_once() {
        let mine = File::open("/dev/null").expect("open");
        let passed = File::open("/dev/null").expect("open");
        fcntl_setfd(&passed, FdFlags::empty()).expect("as over exec");
        let number = passed.into_raw_fd();
        for refused in [mine.as_raw_fd(), -1, 0, 2, i32::MAX] {
            let error = own(refused).expect_err("no passed descriptor");
            assert_eq!(error.raw_os_error(), Some(libc::EBADF), "{refused}");
        }
        let taken = inherited([number]).expect("passed");
        assert_eq!(taken[0].as_raw_fd(), number);
        assert!(own(number).is_err(), "it has an owner");
        assert!(inherited([]).is_err(), "once");
    }
}
