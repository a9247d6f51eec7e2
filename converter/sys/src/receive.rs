//! recvmsg(2) with control messages that no library reads without an allocation for each.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

/// Also the type of the control message.
pub(crate) const TCP_INQ: i32 = 36; // include/uapi/linux/tcp.h

/// Reads once; with how many bytes are there behind those, where the socket tells (`TCP_INQ`). Past glibc's function, in
/// which a thread may be cancelled.
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
    let count = unsafe { libc::syscall(libc::SYS_recvmsg, socket.as_raw_fd(), &raw mut message, 0) };
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
