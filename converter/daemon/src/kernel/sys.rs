//! The only unsafe code beside `bpf.rs`: socket options that no library wraps, and descriptors that were passed.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// Reads the socket option into `buffer`, which may also hold what the kernel wants to know; returns its length.
pub fn get_option(
    socket: BorrowedFd<'_>,
    level: i32,
    name: i32,
    buffer: &mut [u8],
) -> io::Result<usize> {
    let mut length = libc::socklen_t::try_from(buffer.len()).map_err(io::Error::other)?;
    // SAFETY: the pointer and the length describe `buffer`, which outlives the call; the kernel writes no further.
    let code = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            name,
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

/// Takes over descriptors that whoever started this process passed. To be called once for each, before any file is
/// opened.
pub fn passed_descriptors(numbers: impl IntoIterator<Item = RawFd>) -> Vec<OwnedFd> {
    // SAFETY: they were given to this process (LISTEN_PID, or its parent's number, was checked), and nobody else here
    // owns them: the caller calls once and before anything is opened.
    numbers
        .into_iter()
        .map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
        .collect()
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
