//! What the kernel knows of an MPTCP connection (include/uapi/linux/mptcp.h).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::options::{SOL_MPTCP, SocketOption, checked, get_option};
use crate::tcp_info::{TcpInfo, array};

/// `mptcpi_subflows` and `mptcpi_subflows_total` of `struct mptcp_info`; the first alone can be 0 beside a joined subflow,
/// when the initial one was taken away.
const JOINED: usize = 0;
/// `mptcpi_flags` and `mptcpi_bytes_retrans`.
const FLAGS: usize = 8;
const RETRANSMITTED: usize = 48;
const TOTAL: usize = 80;
const FALLBACK: u32 = 1;
const MOST_SUBFLOWS: usize = 16;
/// `struct mptcp_subflow_data`: its own size, the number of subflows, the kernel's and our size of an element.
const DATA: usize = 16;
const ADDRESSES: usize = 256; // struct mptcp_subflow_addrs: the local and the remote sockaddr_storage
const REMOTE: usize = 128;
const TCP_INFO: usize = 216; // of struct tcp_info, up to tcpi_bytes_retrans
/// `struct mptcp_info`, and room for more.
const INFO: usize = 128;
const FULL_INFO: i32 = 4; // MPTCP_FULL_INFO
/// `struct mptcp_subflow_info`: a number, and the addresses, up to a remote one of IPv6.
const NUMBERED: usize = NUMBER + REMOTE + 28;
const NUMBER: usize = 8;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Multipath {
    /// Whether it went on as plain TCP (RFC 8684 section 3.7).
    pub fallback: bool,
    /// Bytes that were sent again on another subflow.
    pub bytes_retransmitted: u64,
    pub subflows: Vec<Subflow>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subflow {
    /// The client's address on this path.
    pub remote: IpAddr,
    /// Bytes sent to the client, without those sent again.
    pub sent: u64,
    /// Bytes that came from the client.
    pub received: u64,
    /// Segments that were sent again.
    pub retransmissions: u32,
}

impl Multipath {
    /// `None` if the socket carries plain TCP, as after accept(2) of a client without MPTCP. `peer` is the client's address.
    pub fn of(socket: BorrowedFd<'_>, peer: IpAddr) -> Option<Self> {
        static KERNEL_IS_OLD: AtomicBool = AtomicBool::new(false);
        told(&KERNEL_IS_OLD, || told_at_once(socket), || told_in_parts(socket, peer))
    }

    fn new(info: &[u8; INFO], subflows: Vec<Subflow>) -> Self {
        Self {
            fallback: u32::from_ne_bytes(array(info, FLAGS)) & FALLBACK != 0,
            bytes_retransmitted: u64::from_ne_bytes(array(info, RETRANSMITTED)),
            subflows,
        }
    }
}

/// What the kernel tells at once, or else in parts. It is old if it lacks the option (`EOPNOTSUPP`) and tells the parts: of
/// plain TCP it tells nothing, by the same error.
fn told(
    kernel_is_old: &AtomicBool,
    at_once: impl FnOnce() -> io::Result<Multipath>,
    in_parts: impl FnOnce() -> io::Result<Multipath>,
) -> Option<Multipath> {
    let mut is_old = kernel_is_old.load(Ordering::Relaxed);
    if !is_old {
        match at_once() {
            Ok(told) => return Some(told),
            Err(error) => is_old = error.raw_os_error() == Some(libc::EOPNOTSUPP),
        }
    }
    let told = in_parts().ok()?;
    kernel_is_old.store(is_old, Ordering::Relaxed);
    Some(told)
}

/// `struct mptcp_full_info`: what it has of a subflow and we want of it, in bytes; how many there are and we want; where
/// they go; and `struct mptcp_info`.
#[repr(C)]
struct FullInfo {
    has_state: u32,
    state: u32,
    has_addresses: u32,
    addresses: u32,
    count: u32,
    most: u32,
    all_addresses: u64,
    all_states: u64,
    info: [u8; INFO],
}

/// By one call, which Linux 6.5 and later have.
fn told_at_once(socket: BorrowedFd<'_>) -> io::Result<Multipath> {
    let mut states = [[0; TCP_INFO]; MOST_SUBFLOWS];
    let mut addresses = [[0; NUMBERED]; MOST_SUBFLOWS];
    let mut full = FullInfo {
        has_state: 0,
        state: length(TCP_INFO)?,
        has_addresses: 0,
        addresses: length(NUMBERED)?,
        count: 0,
        most: length(MOST_SUBFLOWS)?,
        all_addresses: addresses.as_mut_ptr() as u64,
        all_states: states.as_mut_ptr() as u64,
        info: [0; INFO],
    };
    let mut size = length(size_of::<FullInfo>())?;
    // SAFETY: the kernel reads and writes `full`, and writes `most` elements, of the lengths that `full` has, to each of the
    // arrays. All of them outlive the call.
    checked(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            SOL_MPTCP,
            FULL_INFO,
            (&raw mut full).cast(),
            &raw mut size,
        )
    })?;
    let pairs = addresses.iter().zip(&states).take(full.count as usize);
    let subflows = pairs.filter_map(|(addresses, state)| subflow(&addresses[NUMBER + REMOTE..], state));
    Ok(Multipath::new(&full.info, subflows.collect()))
}

fn told_in_parts(socket: BorrowedFd<'_>, peer: IpAddr) -> io::Result<Multipath> {
    let mut info = [0; INFO];
    get_option(socket, SocketOption::MPTCP_INFO, &mut info)?;
    // Most sessions have the first subflow and no other, and its state is cheaper to ask for.
    let subflows = if (info[JOINED], info[TOTAL]) == (0, 1) {
        only_subflow(socket, peer).into_iter().collect()
    } else {
        subflows(socket).unwrap_or_default()
    };
    Ok(Multipath::new(&info, subflows))
}

/// As the kernel has lengths.
fn length(bytes: usize) -> io::Result<u32> {
    u32::try_from(bytes).map_err(io::Error::other)
}

/// On an MPTCP socket TCP's own option tells of the first subflow (net/mptcp/sockopt.c).
fn only_subflow(socket: BorrowedFd<'_>, remote: IpAddr) -> Option<Subflow> {
    Some(subflow_of(remote, &TcpInfo::of(socket).ok()?))
}

fn subflows(socket: BorrowedFd<'_>) -> io::Result<Vec<Subflow>> {
    let addresses = elements::<ADDRESSES>(socket, SocketOption::MPTCP_SUBFLOW_ADDRS)?;
    let states = elements::<TCP_INFO>(socket, SocketOption::MPTCP_TCPINFO)?;
    let pairs = addresses.iter().zip(&states);
    Ok(pairs
        .filter_map(|(addresses, state)| subflow(&addresses[REMOTE..], state))
        .collect())
}

/// The option's elements, one for each subflow, each of `SIZE` bytes at most.
fn elements<const SIZE: usize>(socket: BorrowedFd<'_>, name: SocketOption) -> io::Result<Vec<[u8; SIZE]>> {
    let mut buffer = vec![0; DATA + MOST_SUBFLOWS * SIZE];
    buffer[..4].copy_from_slice(&length(DATA)?.to_ne_bytes());
    buffer[12..16].copy_from_slice(&length(SIZE)?.to_ne_bytes());
    get_option(socket, name, &mut buffer)?;
    let count = (u32::from_ne_bytes(array(&buffer, 4)) as usize).min(MOST_SUBFLOWS);
    Ok(buffer[DATA..]
        .chunks_exact(SIZE)
        .take(count)
        .filter_map(|element| element.try_into().ok())
        .collect())
}

fn subflow(remote: &[u8], state: &[u8]) -> Option<Subflow> {
    Some(subflow_of(sockaddr_ip(remote)?, &TcpInfo::from(state)))
}

fn subflow_of(remote: IpAddr, state: &TcpInfo) -> Subflow {
    Subflow {
        remote,
        sent: state.bytes_sent().saturating_sub(state.bytes_sent_again()),
        received: state.bytes_received(),
        retransmissions: state.segments_sent_again(),
    }
}

fn sockaddr_ip(sockaddr: &[u8]) -> Option<IpAddr> {
    let family = u16::from_ne_bytes([*sockaddr.first()?, *sockaddr.get(1)?]);
    match i32::from(family) {
        libc::AF_INET => Some(IpAddr::V4(Ipv4Addr::from(
            <[u8; 4]>::try_from(sockaddr.get(4..8)?).ok()?,
        ))),
        libc::AF_INET6 => {
            let six = Ipv6Addr::from(<[u8; 16]>::try_from(sockaddr.get(8..24)?).ok()?);
            Some(six.to_canonical())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;

    use socket2::{Domain, Protocol, Socket, Type};

    use super::*;

    fn listener() -> Socket {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP)).expect("kernel with MPTCP");
        listener
            .bind(&std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into())
            .expect("bind");
        listener.listen(8).expect("listen");
        listener
    }

    fn connected(protocol: Protocol) -> (Socket, Socket) {
        let listener = listener();
        let client = Socket::new(Domain::IPV4, Type::STREAM, Some(protocol)).expect("socket");
        client
            .connect(&listener.local_addr().expect("address"))
            .expect("connect");
        (client, listener.accept().expect("accept").0)
    }

    #[test]
    fn a_connection_tells_its_subflow_and_what_came_by_it() {
        let (mut client, mut server) = connected(Protocol::MPTCP);
        client.write_all(&[7; 1000]).expect("write");
        server.read_exact(&mut [0; 1000]).expect("read");
        let multipath = Multipath::of(server.as_fd(), IpAddr::V4(Ipv4Addr::LOCALHOST)).expect("MPTCP");
        assert!(!multipath.fallback);
        let [subflow] = multipath.subflows[..] else {
            panic!("{multipath:?}")
        };
        assert_eq!(
            (subflow.remote, subflow.received),
            (IpAddr::V4(Ipv4Addr::LOCALHOST), 1000)
        );
    }

    /// The second needs Linux 6.5.
    #[test]
    fn all_ways_to_ask_tell_the_same() {
        let (mut client, server) = connected(Protocol::MPTCP);
        client.write_all(&[7; 1000]).expect("write");
        let (told, peer) = (server.as_fd(), IpAddr::V4(Ipv4Addr::LOCALHOST));
        let parts = told_in_parts(told, peer).expect("MPTCP");
        assert_eq!(parts.subflows, subflows(told).expect("MPTCP"));
        match told_at_once(told) {
            Ok(at_once) => assert_eq!(at_once, parts),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EOPNOTSUPP)),
        }
    }

    #[test]
    fn a_kernel_is_old_if_it_lacks_the_option_and_not_by_other_failures() {
        for (failure, is_known, expected) in [
            (libc::EOPNOTSUPP, true, true),
            (libc::EOPNOTSUPP, false, false),
            (libc::ENOBUFS, true, false),
        ] {
            let (kernel_is_old, known) = (AtomicBool::new(false), is_known.then(Multipath::default));
            let in_parts = || known.clone().ok_or_else(|| io::Error::other("plain TCP"));
            let told = told(&kernel_is_old, || Err(io::Error::from_raw_os_error(failure)), in_parts);
            assert_eq!((told, kernel_is_old.into_inner()), (known.clone(), expected));
        }
    }

    #[test]
    fn a_client_without_mptcp_is_plain_tcp() {
        let (_client, server) = connected(Protocol::TCP);
        assert_eq!(Multipath::of(server.as_fd(), IpAddr::V4(Ipv4Addr::LOCALHOST)), None);
    }
}
