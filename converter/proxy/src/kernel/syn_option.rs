//! The option in a SYN that tells the next converter where the connection is to go, so that it can begin its own before
//! anything else has come. The kernel writes it, asked by a program of ours (`BPF_PROG_TYPE_SOCK_OPS`).

use std::fs::{self, File};
use std::io;
use std::net::SocketAddrV4;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;

use rustix::net::sockopt::socket_cookie;
use socket2::Socket;
use tributary_proto::syn::{DESTINATION_OPTION, destination_option};

use tributary_sys::bpf::{self, LruTable, Register};

/// Connections whose SYN, or whose repeated SYN, may still have to be written.
const MOST: u32 = 65_536;
const KEY: usize = size_of::<u64>();
/// Bytes of a value: the option, and what fills its last word.
const VALUE: usize = DESTINATION_OPTION.next_multiple_of(4);

// What the program is asked for (bpf_sock_ops in linux/bpf.h), its fields, and what it asks.
const CONNECT: i32 = 3;
const OPTIONS_LENGTH: i32 = 14;
const WRITE_OPTIONS: i32 = 15;
const WISHES_TO_WRITE: i32 = 64;
const ASKED: i16 = 0;
const WISHES: i16 = 84;
const TCP_FLAGS: i16 = 212;
const SYN: i32 = 2;
const LOOK_UP: i32 = 1;
const COOKIE: i32 = 46;
const SET_WISHES: i32 = 59;
const STORE_OPTION: i32 = 143;
const RESERVE: i32 = 144;

/// The program at work: it ends with this.
#[derive(Debug)]
pub struct SynOption {
    /// Options by their socket's cookie (`SO_COOKIE`, socket(7)).
    options: LruTable<KEY, VALUE>,
    _link: OwnedFd,
}

impl SynOption {
    /// Attaches the program to this process' control group. Raises what bpf(2) does: it needs `CAP_BPF` and
    /// `CAP_NET_ADMIN`, and a hierarchy of control groups of version 2.
    pub fn start() -> io::Result<Self> {
        let group = File::open(own_group()?)?;
        let options = LruTable::new(MOST)?;
        let program = bpf::load(&program(&options))?;
        let link = bpf::attach(program.as_fd(), group.as_fd())?;
        Ok(Self { options, _link: link })
    }

    /// Has the SYN of `socket`, which is of TCP and has not connected yet, tell of `destination`.
    pub fn tell(&self, socket: &Socket, destination: SocketAddrV4) -> io::Result<()> {
        let cookie = socket_cookie(socket)?.to_ne_bytes();
        let mut value = [0; VALUE];
        value[..DESTINATION_OPTION].copy_from_slice(&destination_option(destination));
        self.options.put(&cookie, &value)
    }
}

/// The folder of this process' control group, in the hierarchy of version 2 (cgroups(7)).
fn own_group() -> io::Result<PathBuf> {
    let none = || io::Error::other("there are no control groups of version 2 (cgroups(7))");
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let mounted = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let mount = mounted
        .filter(|fields| fields.get(2) == Some(&"cgroup2"))
        .find_map(|fields| fields.get(1).map(PathBuf::from))
        .ok_or_else(none)?;
    let groups = fs::read_to_string("/proc/self/cgroup")?;
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"));
    Ok(mount.join(group.ok_or_else(none)?))
}

/// For a socket that is connecting and has an option: asks to be asked of its segments' options. For its SYN: makes room,
/// and writes it. For the segments behind that: asks to be left alone.
fn program(options: &LruTable<KEY, VALUE>) -> Vec<u64> {
    const R0: Register = Register(0);
    const R1: Register = Register(1);
    const R2: Register = Register(2);
    const R3: Register = Register(3);
    const R4: Register = Register(4);
    const CONTEXT: Register = Register(6);
    const ASKED_FOR: Register = Register(7);
    const OPTION: Register = Register(8);
    const STACK: Register = Register(10);
    const OPTION_LENGTH: i32 = 10;
    let leave = [bpf::set(R0, 1), bpf::end()];
    let [table, table_rest] = options.instructions(R1);
    let begin = [
        bpf::copy(CONTEXT, R1),
        bpf::word_at(ASKED_FOR, CONTEXT, ASKED),
        bpf::skip_if(ASKED_FOR, CONNECT, 4),
        bpf::skip_if(ASKED_FOR, OPTIONS_LENGTH, 3),
        bpf::skip_if(ASKED_FOR, WRITE_OPTIONS, 2),
        leave[0],
        leave[1],
        bpf::copy(R1, CONTEXT),
        bpf::call_helper(COOKIE),
        bpf::store(STACK, -8, R0),
        table,
        table_rest,
        bpf::copy(R2, STACK),
        bpf::add(R2, -8),
        bpf::call_helper(LOOK_UP),
        bpf::skip_if(R0, 0, 2),
        bpf::copy(OPTION, R0),
        bpf::skip(2),
        leave[0],
        leave[1],
    ];
    let wish = [
        bpf::skip_if(ASKED_FOR, CONNECT, 1),
        bpf::skip(6),
        bpf::copy(R1, CONTEXT),
        bpf::word_at(R2, CONTEXT, WISHES),
        bpf::or(R2, WISHES_TO_WRITE),
        bpf::call_helper(SET_WISHES),
        leave[0],
        leave[1],
    ];
    let syns_alone = [
        bpf::word_at(R3, CONTEXT, TCP_FLAGS),
        bpf::mask(R3, SYN),
        bpf::skip_if(R3, SYN, 6),
        bpf::copy(R1, CONTEXT),
        bpf::word_at(R2, CONTEXT, WISHES),
        bpf::mask(R2, !WISHES_TO_WRITE),
        bpf::call_helper(SET_WISHES),
        leave[0],
        leave[1],
    ];
    let make_room = [
        bpf::skip_if(ASKED_FOR, OPTIONS_LENGTH, 1),
        bpf::skip(6),
        bpf::copy(R1, CONTEXT),
        bpf::set(R2, OPTION_LENGTH),
        bpf::set(R3, 0),
        bpf::call_helper(RESERVE),
        leave[0],
        leave[1],
    ];
    let write = [
        bpf::copy(R1, CONTEXT),
        bpf::copy(R2, OPTION),
        bpf::set(R3, OPTION_LENGTH),
        bpf::set(R4, 0),
        bpf::call_helper(STORE_OPTION),
        leave[0],
        leave[1],
    ];
    [&begin[..], &wish, &syns_alone, &make_room, &write].concat()
}
