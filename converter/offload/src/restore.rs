//! Makes a socket from a checkpoint.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use tributary_sys::{SocketOption, set_number, set_option};

use crate::checkpoint::{Checkpoint, RECEIVE_QUEUE, REPAIR_OFF, REPAIR_ON, SEND_QUEUE, begin_dropping_all};

// Kinds of options, as `struct tcp_repair_opt` names them.
const MSS: u32 = 2;
const SCALES: u32 = 3;
const SACK: u32 = 4;
const TIMESTAMPS: u32 = 8;

/// Makes a socket that goes on with the connection, which has no socket any more. Others may listen at its address. Raises what the kernel does: the address
/// is in use or not this machine's, or `CAP_NET_ADMIN` is missing.
pub fn restore(state: &Checkpoint) -> io::Result<OwnedFd> {
    let socket = unconnected(state)?;
    connect(&socket, state)?;
    set_number(&socket, SocketOption::TCP_REPAIR, REPAIR_OFF)?;
    // As in checkpoint::release: a listener that starts again could not have the port.
    socket.set_reuse_address(true)?;
    Ok(socket.into())
}

/// The same, but as one that was checkpointed: the socket drops all packets and sends nothing, also when it is closed, until
/// [`Checkpoint::release`] has it go on.
pub fn restore_dropping_all(state: &Checkpoint) -> io::Result<OwnedFd> {
    let socket = unconnected(state)?;
    begin_dropping_all(&socket)?;
    connect(&socket, state)?;
    Ok(socket.into())
}

/// In repair mode, at its address.
fn unconnected(state: &Checkpoint) -> io::Result<Socket> {
    let domain = Domain::for_address(state.local);
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    set_number(&socket, SocketOption::TCP_REPAIR, REPAIR_ON)?;
    socket.bind(&SockAddr::from(state.local))?;
    Ok(socket)
}

/// In repair mode it is connected at once, and nothing is sent.
fn connect(socket: &Socket, state: &Checkpoint) -> io::Result<()> {
    set_queue_end(socket.as_fd(), SEND_QUEUE, state.snd_nxt)?;
    set_queue_end(socket.as_fd(), RECEIVE_QUEUE, state.rcv_nxt)?;
    socket.connect(&SockAddr::from(state.remote))?;
    set_option(socket, SocketOption::TCP_REPAIR_OPTIONS, &options(state))?;
    if let Some(clock) = state.clock {
        set_option(socket, SocketOption::TCP_TIMESTAMP, &clock.to_ne_bytes())?;
    }
    set_option(socket, SocketOption::TCP_REPAIR_WINDOW, &state.window)
}

fn set_queue_end(socket: BorrowedFd<'_>, queue: u32, number: u32) -> io::Result<()> {
    set_option(socket, SocketOption::TCP_REPAIR_QUEUE, &queue.to_ne_bytes())?;
    set_option(socket, SocketOption::TCP_QUEUE_SEQ, &number.to_ne_bytes())
}

/// What was agreed on: `struct tcp_repair_opt`s, each a kind and a value.
fn options(state: &Checkpoint) -> Vec<u8> {
    // What the kernel knows of the way it forgets with the old socket.
    let mut options = vec![[MSS, state.longest_segment()]];
    if let Some(scales) = state.scales {
        options.push([SCALES, u32::from(scales.snd) | u32::from(scales.rcv) << 16]);
    }
    if state.sack {
        options.push([SACK, 0]);
    }
    if state.clock.is_some() {
        options.push([TIMESTAMPS, 0]);
    }
    options
        .as_flattened()
        .iter()
        .flat_map(|number| number.to_ne_bytes())
        .collect()
}
