//! bpf(2): the few of its commands that are used, and the instructions of a program (RFC 9669).

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::time::Duration;

const MAP_CREATE: libc::c_long = 0;
const MAP_UPDATE: libc::c_long = 2;
const PROG_LOAD: libc::c_long = 5;
const TEST_RUN: libc::c_long = 10;
const LINK_CREATE: libc::c_long = 28;

/// `BPF_MAP_TYPE_LRU_HASH`.
const LRU_HASH: u32 = 9;
/// A program that is asked at the stages of a connection (`BPF_PROG_TYPE_SOCK_OPS`), and what it is attached as.
const SOCK_OPS: u32 = 13;
const CGROUP_SOCK_OPS: i32 = 3;
/// What the kernel says of a program that it refuses.
const LOG: usize = 16 << 10;

/// A table that forgets what was not asked for of late, by keys and values of these lengths.
#[derive(Debug)]
pub struct LruTable<const KEY: usize, const VALUE: usize>(OwnedFd);

impl<const KEY: usize, const VALUE: usize> LruTable<KEY, VALUE> {
    /// One of so many entries.
    pub fn new(entries: u32) -> io::Result<Self> {
        let [key, value] = [KEY, VALUE].map(u32::try_from);
        let (key, value) = (key.map_err(io::Error::other)?, value.map_err(io::Error::other)?);
        let mut attributes = [LRU_HASH, key, value, entries];
        // SAFETY: nothing in them is a pointer.
        unsafe { descriptor(MAP_CREATE, &mut attributes) }.map(Self)
    }

    /// Puts `value` there under `key`.
    pub fn put(&self, key: &[u8; KEY], value: &[u8; VALUE]) -> io::Result<()> {
        #[repr(C)]
        struct Attributes {
            table: RawFd,
            padding: u32,
            key: u64,
            value: u64,
            flags: u64,
        }
        let mut attributes = Attributes {
            table: self.0.as_raw_fd(),
            padding: 0,
            key: key.as_ptr() as u64,
            value: value.as_ptr() as u64,
            flags: 0,
        };
        // SAFETY: both pointers outlive the call, which reads as much as the table was made for: the arrays' lengths.
        unsafe { call(MAP_UPDATE, &mut attributes) }.map(drop)
    }

    /// `to` = this table; takes two instructions. The program holds it from the moment it is loaded.
    pub fn instructions(&self, to: Register) -> [u64; 2] {
        [instruction(0x18, to.0, 1, 0, self.0.as_raw_fd()), 0]
    }
}

/// Loads a program of the kind [`attach`] takes; raises what the kernel's verifier said if it refuses it.
pub fn load(instructions: &[u64]) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Attributes {
        kind: u32,
        count: u32,
        instructions: u64,
        licence: u64,
        log_level: u32,
        log_size: u32,
        log: u64,
        kernel_version: u32,
        flags: u32,
        name: [u8; 16],
        interface: u32,
        attach_type: i32,
    }
    let mut log = [0_u8; LOG];
    let mut attributes = Attributes {
        kind: SOCK_OPS,
        count: u32::try_from(instructions.len()).map_err(io::Error::other)?,
        instructions: instructions.as_ptr() as u64,
        licence: c"GPL".as_ptr() as u64,
        log_level: 1,
        log_size: u32::try_from(LOG).map_err(io::Error::other)?,
        log: log.as_mut_ptr() as u64,
        kernel_version: 0,
        flags: 0,
        name: *b"tributary_syn\0\0\0",
        interface: 0,
        attach_type: CGROUP_SOCK_OPS,
    };
    // SAFETY: the pointers outlive the call, which reads `count` instructions and a string, and writes `log_size` bytes.
    unsafe { descriptor(PROG_LOAD, &mut attributes) }.map_err(|error| {
        let said = String::from_utf8_lossy(&log);
        match said.trim_end_matches('\0').lines().rev().nth(1) {
            Some(last) => io::Error::new(error.kind(), format!("{error}: {last}")),
            None => error,
        }
    })
}

/// Attaches a program to a control group: it is asked about the sockets of its processes for as long as what this returns
/// is open.
pub fn attach(program: BorrowedFd<'_>, group: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mut attributes = [program.as_raw_fd(), group.as_raw_fd(), CGROUP_SOCK_OPS, 0];
    // SAFETY: nothing in them is a pointer.
    unsafe { descriptor(LINK_CREATE, &mut attributes) }
}

pub struct Run {
    /// The program's answer, to the last of them.
    pub answer: i32,
    /// What it took; of several the mean.
    pub time: Duration,
}

/// Runs a program of tc's or XDP's so many times on an Ethernet frame, which becomes what the program makes of it.
pub fn run(program: BorrowedFd<'_>, frame: &mut [u8], times: u32) -> io::Result<Run> {
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
    unsafe { call(TEST_RUN, &mut attributes) }?;
    frame.copy_from_slice(&result);
    Ok(Run {
        answer: attributes.answer,
        time: Duration::from_nanos(attributes.nanoseconds.into()),
    })
}

/// The descriptor that a command gives.
///
/// # Safety
/// As for [`call`].
unsafe fn descriptor<A>(command: libc::c_long, attributes: &mut A) -> io::Result<OwnedFd> {
    // SAFETY: the caller's.
    let number = unsafe { call(command, attributes) }?;
    // SAFETY: the kernel has just made it for this process, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// # Safety
/// `attributes` are those of `command` in `union bpf_attr`, and what they point to is valid for it.
unsafe fn call<A>(command: libc::c_long, attributes: &mut A) -> io::Result<RawFd> {
    // SAFETY: the size is that of `attributes`, which the kernel reads and may write; the rest is the caller's.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attributes), size_of::<A>()) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    RawFd::try_from(result).map_err(io::Error::other)
}

/// A register of the program: R0 has results, R1 to R5 arguments, R6 to R9 outlive calls, R10 is the stack.
#[derive(Clone, Copy)]
pub struct Register(pub u8);

const fn instruction(code: u8, to: u8, from: u8, offset: i16, number: i32) -> u64 {
    code as u64
        | (to as u64) << 8
        | (from as u64) << 12
        | (u16::from_ne_bytes(offset.to_ne_bytes()) as u64) << 16
        | (u32::from_ne_bytes(number.to_ne_bytes()) as u64) << 32
}

/// `to = from`.
pub const fn copy(to: Register, from: Register) -> u64 {
    instruction(0xbf, to.0, from.0, 0, 0)
}

/// `to = number`.
pub const fn set(to: Register, number: i32) -> u64 {
    instruction(0xb7, to.0, 0, 0, number)
}

/// `to += number`.
pub const fn add(to: Register, number: i32) -> u64 {
    instruction(0x07, to.0, 0, 0, number)
}

/// `to &= number`.
pub const fn mask(to: Register, number: i32) -> u64 {
    instruction(0x57, to.0, 0, 0, number)
}

/// `to |= number`.
pub const fn or(to: Register, number: i32) -> u64 {
    instruction(0x47, to.0, 0, 0, number)
}

/// `to` = the 32 bits at `from` and `offset`.
pub const fn word_at(to: Register, from: Register, offset: i16) -> u64 {
    instruction(0x61, to.0, from.0, offset, 0)
}

/// The 64 bits at `to` and `offset` = `from`.
pub const fn store(to: Register, offset: i16, from: Register) -> u64 {
    instruction(0x7b, to.0, from.0, offset, 0)
}

/// Skips so many instructions if `register` is `number`.
pub const fn skip_if(register: Register, number: i32, skipped: i16) -> u64 {
    instruction(0x15, register.0, 0, skipped, number)
}

/// Skips so many instructions.
pub const fn skip(skipped: i16) -> u64 {
    instruction(0x05, 0, 0, skipped, 0)
}

/// Calls the kernel's function of this number (bpf-helpers(7)).
pub const fn call_helper(number: i32) -> u64 {
    instruction(0x85, 0, 0, 0, number)
}

/// Ends; R0 is the answer.
pub const fn end() -> u64 {
    instruction(0x95, 0, 0, 0, 0)
}
