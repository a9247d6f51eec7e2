//! The only unsafe code: what no library wraps of TCP sockets (tcp(7), `TCP_REPAIR`) and of programs in the kernel.
//! No promise of a caller's is needed for any of it to be sound.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, RawFd};
use std::time::Duration;

/// An option of a TCP socket. Only these: nothing in their values is a pointer, which the kernel would follow.
#[derive(Clone, Copy, Debug)]
pub struct TcpOption(i32);

impl TcpOption {
    /// The longest segment; in repair mode what the other end said.
    pub const MAXSEG: Self = Self(libc::TCP_MAXSEG);
    /// `struct tcp_info`.
    pub const INFO: Self = Self(libc::TCP_INFO);
    /// Whether the socket is in repair mode.
    pub const REPAIR: Self = Self(libc::TCP_REPAIR);
    /// Which queue [`Self::QUEUE_SEQ`] is about.
    pub const REPAIR_QUEUE: Self = Self(libc::TCP_REPAIR_QUEUE);
    /// The sequence number at a queue's end.
    pub const QUEUE_SEQ: Self = Self(libc::TCP_QUEUE_SEQ);
    /// What was agreed on: `struct tcp_repair_opt`s.
    pub const REPAIR_OPTIONS: Self = Self(libc::TCP_REPAIR_OPTIONS);
    /// The clock of timestamps.
    pub const TIMESTAMP: Self = Self(libc::TCP_TIMESTAMP);
    /// `struct tcp_repair_window`.
    pub const REPAIR_WINDOW: Self = Self(libc::TCP_REPAIR_WINDOW);
    /// The most that the other end is offered, in bytes.
    pub const WINDOW_CLAMP: Self = Self(libc::TCP_WINDOW_CLAMP);
    /// Whether what came is acknowledged at once.
    pub const QUICK_ACK: Self = Self(libc::TCP_QUICKACK);
    /// The name of a protocol above TCP in the kernel.
    pub const ULP: Self = Self(libc::TCP_ULP);
}

/// Reads an option into `value`; returns its length in bytes.
pub fn get(socket: BorrowedFd<'_>, option: TcpOption, value: &mut [u8]) -> io::Result<usize> {
    let mut length = libc::socklen_t::try_from(value.len()).map_err(io::Error::other)?;
    // SAFETY: the pointer and the length describe `value`, which outlives the call; the kernel writes no further.
    checked(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            option.0,
            value.as_mut_ptr().cast(),
            &raw mut length,
        )
    })?;
    Ok(length as usize)
}

/// Sets an option.
pub fn set(socket: BorrowedFd<'_>, option: TcpOption, value: &[u8]) -> io::Result<()> {
    let length = libc::socklen_t::try_from(value.len()).map_err(io::Error::other)?;
    // SAFETY: the pointer and the length describe `value`, which outlives the call.
    checked(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            option.0,
            value.as_ptr().cast(),
            length,
        )
    })
}

/// Bytes that came and were not read yet (`SIOCINQ`, tcp(7)).
pub fn unread(socket: BorrowedFd<'_>) -> io::Result<u32> {
    number(socket, libc::FIONREAD)
}

/// Bytes that were written and are not acknowledged yet (`SIOCOUTQ`, tcp(7)).
/// An end counts as one of them.
pub fn unacknowledged(socket: impl AsFd) -> io::Result<u32> {
    number(socket.as_fd(), libc::TIOCOUTQ)
}

fn number(socket: BorrowedFd<'_>, request: libc::Ioctl) -> io::Result<u32> {
    let mut value: libc::c_int = 0;
    // SAFETY: both requests write one int, which outlives the call.
    checked(unsafe { libc::ioctl(socket.as_raw_fd(), request, &raw mut value) })?;
    u32::try_from(value).map_err(io::Error::other)
}

/// Bytes of memory that what came in takes, read or not, in order or not (`SO_MEMINFO`, `sock_diag(7)`).
pub fn receive_memory(socket: BorrowedFd<'_>) -> io::Result<u32> {
    let mut value = [0_u32; 9]; // SK_MEMINFO_VARS
    let mut length = libc::socklen_t::try_from(size_of_val(&value)).map_err(io::Error::other)?;
    // SAFETY: the pointer and the length describe `value`, which outlives the call; the kernel writes no further.
    checked(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            value.as_mut_ptr().cast(),
            &raw mut length,
        )
    })?;
    Ok(value[0])
}

/// Waits until every processor is done with packets that it had begun with: the kernel waits for a grace period of RCU,
/// under which it takes packets in (membarrier(2), `MEMBARRIER_CMD_GLOBAL`).
pub fn wait_for_packets_under_way() -> io::Result<()> {
    // SAFETY: it touches no memory.
    let code = unsafe { libc::syscall(libc::SYS_membarrier, libc::MEMBARRIER_CMD_GLOBAL, 0, 0) };
    if code == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Of a network device in this network namespace (`if_nametoindex(3)`).
pub fn device_number(name: &str) -> io::Result<u32> {
    let name = CString::new(name)?;
    // SAFETY: the pointer is to a string that ends and outlives the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        number => Ok(number),
    }
}

/// What came of a run of a program.
pub struct Run {
    /// The program's answer, to the last of them.
    pub answer: i32,
    /// What it took; of several the mean.
    pub time: Duration,
}

/// Runs a program of tc's or XDP's so many times on an Ethernet frame, which becomes what the program makes of it (bpf(2),
/// `BPF_PROG_TEST_RUN`).
pub fn run_program(program: BorrowedFd<'_>, frame: &mut [u8], times: u32) -> io::Result<Run> {
    /// The first fields of `union bpf_attr`'s `test`.
    #[repr(C)]
    struct Attributes {
        program: RawFd,
        answer: i32,
        length_in: u32,
        length_out: u32,
        data_in: u64,
        data_out: u64,
        repeat: u32,
        nanoseconds: u32,
    }
    const TEST_RUN: libc::c_int = 10;
    let length = u32::try_from(frame.len()).map_err(io::Error::other)?;
    let mut result = vec![0; frame.len()];
    let mut attributes = Attributes {
        program: program.as_raw_fd(),
        answer: 0,
        length_in: length,
        length_out: length,
        data_in: frame.as_ptr() as u64,
        data_out: result.as_mut_ptr() as u64,
        repeat: times,
        nanoseconds: 0,
    };
    // SAFETY: all pointers and lengths describe memory that outlives the call; the kernel writes no further.
    let code = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            TEST_RUN,
            &raw mut attributes,
            size_of::<Attributes>(),
        )
    };
    if code != 0 {
        return Err(io::Error::last_os_error());
    }
    frame.copy_from_slice(&result);
    Ok(Run {
        answer: attributes.answer,
        time: Duration::from_nanos(attributes.nanoseconds.into()),
    })
}

/// The time since the machine started, as programs in the kernel have it (`CLOCK_MONOTONIC`).
pub fn monotonic() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes one timespec, which outlives the call. For this clock it cannot fail.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    let part = |number: i64| u64::try_from(number).unwrap_or_default();
    Duration::from_secs(part(time.tv_sec)) + Duration::from_nanos(part(time.tv_nsec))
}

fn checked(code: libc::c_int) -> io::Result<()> {
    if code == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
