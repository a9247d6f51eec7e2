//! Sockets as the converter wants them, and what it does with them directly.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use parking_lot::Mutex;
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tributary_offload::Pause;
use tributary_sys::{SocketOption, canonical, queued_icmp_code, receive, set_number};

use crate::config::{Intercept, Listen, ListenerKind, UpstreamSettings};

const NO_COOKIE: &str = "TCP_FASTOPEN_NO_COOKIE";
/// Connections whose SYN may carry data before their handshake ended (RFC 7413 section 5.1).
const FAST_OPEN_QUEUE: i32 = 1024;
/// Clients that vanish without a word are found in about three minutes.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);

fn stream(address: SocketAddr, mptcp: bool) -> io::Result<Socket> {
    let protocol = if mptcp { Protocol::MPTCP } else { Protocol::TCP };
    let socket = Socket::new(Domain::for_address(address), Type::STREAM.nonblocking(), Some(protocol))?;
    Ok(socket)
}

/// A socket that listens as `listen` says; raises what the kernel does.
pub fn listener(listen: &Listen, backlog: u16) -> io::Result<Socket> {
    let socket = stream(listen.address, listen.mptcp)?;
    needed("SO_REUSEADDR", socket.set_reuse_address(true))?;
    if listen.address.is_ipv6() {
        let only_v6 = listen.address.ip() != IpAddr::V6(Ipv6Addr::UNSPECIFIED);
        needed("IPV6_V6ONLY", socket.set_only_v6(only_v6))?;
    }
    if listen.tproxy().is_some() {
        transparent(&socket, listen.address)?;
    }
    socket.bind(&listen.address.into())?;
    set_up(&socket, listen)?;
    socket.listen(i32::from(backlog))?;
    Ok(socket)
}

/// What a listening socket of `listen` has besides its address, also one that somebody else has made.
pub fn set_up(socket: &impl AsFd, listen: &Listen) -> io::Result<()> {
    // A connection by MPTCP is never left.
    if listen.offload && !is_mptcp(socket) {
        Pause::prepare(socket)?;
    }
    if matches!(listen.kind, ListenerKind::Convert(_)) {
        // RFC 8803 section 6: Convert has a cookie of its own, so that TCP's is not needed. Without the sysctl's bit 2
        // the kernel ignores both.
        for (name, option, value) in [
            ("TCP_FASTOPEN", SocketOption::TCP_FASTOPEN, FAST_OPEN_QUEUE),
            (NO_COOKIE, SocketOption::TCP_FASTOPEN_NO_COOKIE, 1),
        ] {
            optional(name, set_number(socket, option, value));
        }
    }
    set_up_for_clients(socket);
    Ok(())
}

/// Lets the socket have addresses that are not this machine's (ip(7), `IP_TRANSPARENT`).
fn transparent(socket: &Socket, address: SocketAddr) -> io::Result<()> {
    match address {
        SocketAddr::V4(_) => needed("IP_TRANSPARENT", socket.set_ip_transparent_v4(true)),
        SocketAddr::V6(_) => {
            let set = set_number(socket, SocketOption::IPV6_TRANSPARENT, 1);
            needed("IPV6_TRANSPARENT", set)
        }
    }
}

pub fn is_mptcp(socket: &impl AsFd) -> bool {
    SockRef::from(socket).protocol().ok().flatten() == Some(Protocol::MPTCP)
}

/// Whether it can have addresses that are not this machine's. Unknown where the kernel does not say: of MPTCP's sockets.
pub fn is_transparent(socket: &impl AsFd) -> Option<bool> {
    // Of IPv6's sockets, too: it is one flag.
    SockRef::from(socket).ip_transparent_v4().ok()
}

/// A socket to connect to `server` with, as the configuration has it, or from the client's own address.
pub fn to_server(
    server: SocketAddr,
    mptcp: bool,
    settings: &UpstreamSettings,
    source: Option<SocketAddr>,
) -> io::Result<Socket> {
    let socket = stream(server, mptcp)?;
    set_up_for_reads(&socket);
    if let Some(mark) = settings.mark {
        needed("SO_MARK", socket.set_mark(mark))?;
    }
    if settings.may_offload && !mptcp {
        Pause::prepare(&socket)?;
    }
    if let Some(client) = source {
        transparent(&socket, server)?;
        // One port of the client's may lead to several servers, and to the next one while the last one's is in TIME-WAIT:
        // connect(2) sees to it that no two connections are the same.
        needed("SO_REUSEADDR", socket.set_reuse_address(true))?;
        socket.bind(&client.into())?;
    } else if let Some(address) = own_source(server, settings) {
        let set = set_number(&socket, SocketOption::IP_BIND_ADDRESS_NO_PORT, 1);
        optional("IP_BIND_ADDRESS_NO_PORT", set);
        socket.bind(&SocketAddr::new(address, 0).into())?;
    }
    Ok(socket)
}

/// The source address that connections to `server` have by the configuration.
pub fn own_source(server: SocketAddr, settings: &UpstreamSettings) -> Option<IpAddr> {
    match server {
        SocketAddr::V4(_) => settings.source4.map(IpAddr::V4),
        SocketAddr::V6(_) => settings.source6.map(IpAddr::V6),
    }
}

/// No delay for small writes.
pub fn send_at_once(stream: &TcpStream) {
    optional("TCP_NODELAY", SockRef::from(stream).set_tcp_nodelay(true));
}

/// Urgent data stay where they are in the stream (RFC 6093 section 6: what applications shall do), instead of the last of
/// their bytes being kept apart, for nobody (`SO_OOBINLINE`, socket(7)); and each read tells what is left (`TCP_INQ`).
pub fn set_up_for_reads<'a>(socket: impl Into<SockRef<'a>>) {
    let socket = socket.into();
    // Refused for MPTCP alone, which has no urgent data (net/mptcp/sockopt.c).
    let _ = socket.set_out_of_band_inline(true);
    tell_what_is_left(&socket);
}

/// The same for a connection that was accepted, where [`accepts_urgent_data_inline`] does not hold. Returns whether it is a
/// connection by MPTCP.
pub fn set_up_accepted_for_reads(stream: &TcpStream) -> bool {
    let socket = SockRef::from(stream);
    // A connection by MPTCP refuses this and has inherited the other; one by plain TCP takes this and has not.
    let is_mptcp = socket.set_out_of_band_inline(true).is_err();
    if !is_mptcp {
        tell_what_is_left(&socket);
    }
    is_mptcp
}

fn tell_what_is_left(socket: &SockRef<'_>) {
    let set = set_number(&**socket, SocketOption::TCP_INQ, 1);
    optional("TCP_INQ", set);
}

/// Whether what a listening socket accepts reads urgent data inline, as it does itself. The plain TCP connections of an
/// MPTCP listener do not.
pub fn accepts_urgent_data_inline(listener: &impl AsFd) -> bool {
    let inline = SockRef::from(listener).out_of_band_inline();
    inline.unwrap_or(false)
}

/// What accepted connections inherit, which saves calls for each: no delay for small writes, probes that find a
/// client that vanished, and how they are read.
pub fn set_up_for_clients<'a>(listener: impl Into<SockRef<'a>>) {
    let listener = listener.into();
    optional("TCP_NODELAY", listener.set_tcp_nodelay(true));
    optional("SO_KEEPALIVE", listener.set_keepalive(true));
    // What the kernel does not take is as in sysctls: a client that vanished is found in two hours (tcp(7)).
    let idle = TcpKeepalive::new().with_time(KEEPALIVE_IDLE);
    optional("TCP_KEEPIDLE", listener.set_tcp_keepalive(&idle));
    let interval = TcpKeepalive::new().with_interval(KEEPALIVE_INTERVAL);
    optional("TCP_KEEPINTVL", listener.set_tcp_keepalive(&interval));
    set_up_for_reads(listener);
}

/// Closing this socket resets its connection.
pub fn reset_on_close<'a>(socket: impl Into<SockRef<'a>>) {
    // Fails only where the connection is reset already.
    let _ = socket.into().set_linger(Some(Duration::ZERO));
}

/// Whether the connection was reset, as far as the event loop knows.
pub fn is_broken(stream: &TcpStream) -> bool {
    stream.try_io(Interest::ERROR, || Ok(())).is_ok()
}

/// No more will be written; the peer sees the end.
pub fn end_writing(stream: &TcpStream) -> io::Result<()> {
    SockRef::from(stream).shutdown(std::net::Shutdown::Write)
}

/// Reads once; `WouldBlock` when the socket is empty. When the kernel tells that it is empty now, the next wait is for what
/// comes then (epoll(7)): that saves a call that would only say so. That less came than was asked for does not tell it:
/// recv(2) stops before urgent data, also where they are inline, and nobody would be woken for what is behind them.
pub fn read(stream: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    let mut count = None;
    let tried = stream.try_io(Interest::READABLE, || {
        let (read, left) = receive(stream.as_fd(), buffer)?;
        count = Some(read);
        if read > 0 && left == Some(0) {
            Err(io::ErrorKind::WouldBlock.into())
        } else {
            Ok(())
        }
    });
    match (count, tried) {
        (Some(count), _) => Ok(count),
        (None, Err(error)) => Err(error),
        (None, Ok(())) => Err(io::ErrorKind::WouldBlock.into()),
    }
}

/// Writes once; `WouldBlock` when the socket is full. By rustix: glibc's send(2), where threads may be cancelled, takes twice as
/// long to get to the kernel.
pub fn write(stream: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    let write = || Ok(rustix::net::send(stream, bytes, rustix::net::SendFlags::NOSIGNAL)?);
    stream.try_io(Interest::WRITABLE, write)
}

/// Reads once what is there, though the event loop may not know yet that it is: it is asked nothing. `WouldBlock` when the
/// socket is empty.
pub fn read_what_is_there(stream: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::net::recv(stream, buffer, rustix::net::RecvFlags::DONTWAIT)?.0)
}

/// Where a connection was meant to go before netfilter brought it here.
pub fn original_destination(stream: &TcpStream, how: Intercept) -> io::Result<SocketAddr> {
    match how {
        Intercept::Tproxy(_) => stream.local_addr().map(canonical),
        Intercept::Redirect => {
            let socket = SockRef::from(stream);
            let original = if stream.local_addr().map(canonical)?.is_ipv4() {
                socket.original_dst_v4()
            } else {
                socket.original_dst_v6()
            }?;
            original
                .as_socket()
                .map(canonical)
                .ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
        }
    }
}

/// An ICMP destination unreachable, by its code (RFC 792, RFC 4443).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpError {
    /// As in the message; the same number means different things in IPv4 and IPv6.
    pub code: u8,
}

impl IcmpError {
    /// Code 0: no route to the network.
    pub const NETWORK: Self = Self { code: 0 };
    /// Code 1 of IPv4: the host does not answer.
    pub const HOST: Self = Self { code: 1 };
}

/// Keeps the ICMP error that ends a connection attempt (ip(7), `IP_RECVERR`): without it a port unreachable looks
/// like a reset.
#[derive(Clone, Copy, Debug)]
pub struct IcmpWatch(SocketOption);

impl IcmpWatch {
    /// Before connect(2).
    pub fn on(socket: &Socket, server: SocketAddr) -> Self {
        let option = match server {
            SocketAddr::V4(_) => SocketOption::IP_RECVERR,
            SocketAddr::V6(_) => SocketOption::IPV6_RECVERR,
        };
        // MPTCP sockets do not have it; there the error number has to do.
        let _ = set_number(socket, option, 1);
        Self(option)
    }

    /// Once connected: from then on an ICMP message must not end the connection.
    pub fn off(self, stream: &TcpStream) {
        let _ = set_number(stream, self.0, 0);
    }

    /// The ICMP error that ended the attempt, if one did.
    pub fn error(stream: &TcpStream) -> Option<IcmpError> {
        queued_icmp_code(stream.as_fd()).map(|code| IcmpError { code })
    }
}

/// A socket to connect to the next converter with; with `fast_open` its SYN may carry data without a cookie of TCP's
/// own.
pub fn to_next_hop(
    address: SocketAddr,
    mptcp: bool,
    fast_open: bool,
    settings: &UpstreamSettings,
) -> io::Result<Socket> {
    let socket = to_server(address, mptcp, settings, None)?;
    if fast_open {
        open_fast(socket.as_fd());
        let set = set_number(&socket, SocketOption::TCP_FASTOPEN_NO_COOKIE, 1);
        optional(NO_COOKIE, set);
    }
    Ok(socket)
}

/// From now on the SYN waits for the first data, and takes them along if the kernel has a cookie of the server's
/// (`TCP_FASTOPEN_CONNECT`, tcp(7)).
pub fn open_fast(socket: BorrowedFd<'_>) {
    let set = set_number(socket, SocketOption::TCP_FASTOPEN_CONNECT, 1);
    optional("TCP_FASTOPEN_CONNECT", set);
}

/// Begins to connect; returns how many of the `first` bytes go with the SYN.
pub fn connect_with(socket: &Socket, address: SocketAddr, first: &[u8]) -> io::Result<usize> {
    match socket.connect(&address.into()) {
        Ok(()) if first.is_empty() => Ok(0),
        // The kernel waits for data to put into the SYN.
        Ok(()) => match socket.send(first) {
            Err(error) if in_progress(&error) => Ok(0),
            sent => sent,
        },
        Err(error) if in_progress(&error) => Ok(0),
        Err(error) => Err(error),
    }
}

fn in_progress(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINPROGRESS | libc::EAGAIN))
}

static REFUSED: Mutex<BTreeSet<&str>> = Mutex::new(BTreeSet::new());

/// Goes on without an option that was not `set`, and logs that once for each `name`.
pub fn optional(name: &'static str, set: io::Result<()>) {
    let Err(error) = set else {
        return;
    };
    let mut refused = REFUSED.lock();
    if refused.insert(name) {
        tracing::warn!("the kernel refuses {name}: {error}; going on without it");
    }
}

/// Raises why an option was not `set`, with its `name`.
pub fn needed(name: &str, set: io::Result<()>) -> io::Result<()> {
    set.map_err(|error| io::Error::new(error.kind(), format!("{name}: {error}")))
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::Write;
    use std::task::Poll;

    use super::*;
    use crate::io::loopback;

    /// Without the option, one more read asks.
    #[test]
    fn a_socket_that_tells_what_is_left_is_known_to_be_empty_without_asking() {
        loopback::block_on(async {
            for tells in [false, true] {
                let (mut peer, near) = loopback::pair();
                let near = near.into_tokio();
                if tells {
                    set_up_for_reads(&near);
                }
                peer.write_all(b"abc").expect("taken");
                near.readable().await.expect("a socket");
                let mut buffer = [0; 9];
                assert_eq!(read(&near, &mut buffer[..2]).expect("two"), 2);
                assert_eq!(read(&near, &mut buffer).expect("the last"), 1);
                let ready = poll_fn(|cx| Poll::Ready(near.poll_read_ready(cx).is_ready())).await;
                assert_eq!(ready, !tells);
            }
        });
    }
}
