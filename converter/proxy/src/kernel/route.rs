//! Asks the kernel what it would do with a packet to an address (rtnetlink(7), `RTM_GETROUTE`): the one answer that
//! knows all of the machine's own addresses, broadcast addresses and routes at this very moment.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io::{self, Read};
use std::net::IpAddr;
use std::os::fd::AsFd;

use rustix::net::netlink::SocketAddrNetlink;
use socket2::{Domain, Protocol, Socket, Type};

use super::sys;

/// What an address is to this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteKind {
    /// A host elsewhere.
    Unicast,
    /// This machine.
    Own,
    /// Broadcast, anycast or multicast.
    Group,
    /// Nobody, as the routes have it.
    Unreachable,
}

/// A packet that the kernel is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RouteQuery {
    /// Where it would go.
    pub to: IpAddr,
    /// Its source address, if it has one already that is this machine's own.
    pub from: Option<IpAddr>,
    /// Its netfilter mark, by which rules choose tables (ip-rule(8)).
    pub mark: Option<u32>,
}

impl RouteQuery {
    /// A packet of which nothing else is known.
    pub fn about(to: IpAddr) -> Self {
        Self {
            to,
            from: None,
            mark: None,
        }
    }
}

const HEADER: usize = 16; // struct nlmsghdr
const ROUTE: usize = 12; // struct rtmsg
const MESSAGE_TYPE: usize = 4;
const FLAGS: usize = 6;
const SEQUENCE: usize = 8;
const FAMILY: usize = HEADER;
const TO_LENGTH: usize = HEADER + 1;
const FROM_LENGTH: usize = HEADER + 2;
const ROUTE_TYPE: usize = HEADER + 7;

const SOL_NETLINK: i32 = 270;
const NETLINK_ADD_MEMBERSHIP: i32 = 1;
/// `RTNLGRP_IPV4_ROUTE`, `_IPV4_RULE`, `_IPV6_ROUTE`, `_IPV6_RULE`: own addresses are routes of the table `local`. And
/// `RTNLGRP_LINK`: of a device that goes down IPv4's routes go without a word.
const CHANGES: [i32; 5] = [7, 8, 11, 19, 1];
/// Answers that are kept.
const KEPT: usize = 4096;

/// The kernel's answers, kept until any route changes.
#[derive(Debug)]
pub struct Routes {
    asks: Socket,
    sequence: Cell<u32>,
    changes: Socket,
    kept: RefCell<HashMap<RouteQuery, RouteKind>>,
}

impl Routes {
    /// Raises what socket(2) does.
    pub fn open() -> io::Result<Self> {
        let changes = socket()?;
        // The kernel tells no socket of its own number what it changes itself, as the routes of a new address, and an unbound
        // one has the kernel's: 0 (net/netlink/af_netlink.c, do_one_broadcast).
        rustix::net::bind(&changes, &SocketAddrNetlink::new(0, 0))?;
        for group in CHANGES {
            sys::set_option(changes.as_fd(), SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, group)?;
        }
        Ok(Self {
            asks: socket()?,
            sequence: Cell::new(0),
            changes,
            kept: RefCell::default(),
        })
    }

    /// What the packet's target is to this machine; an error says that nobody knows. The kernel answers before send(2)
    /// returns, so that this does not wait.
    pub fn kind_of(&self, query: RouteQuery) -> io::Result<RouteKind> {
        let mut kept = self.kept.borrow_mut();
        if self.have_changed() || kept.len() >= KEPT {
            kept.clear();
        }
        if let Some(kind) = kept.get(&query) {
            return Ok(*kind);
        }
        let kind = self.ask(query, kind)?;
        kept.insert(query, kind);
        Ok(kind)
    }

    /// The number of the device by which the packet would leave; `None` if the kernel names none. It is not kept.
    pub fn device_of(&self, query: RouteQuery) -> io::Result<Option<u32>> {
        self.ask(query, |reply| kind(reply).map(|_| device(reply)))
    }

    fn ask<T>(&self, query: RouteQuery, read: impl Fn(&[u8]) -> io::Result<T>) -> io::Result<T> {
        let sequence = self.sequence.get().wrapping_add(1);
        self.sequence.set(sequence);
        self.asks.send(&request(query, sequence))?;
        self.answer_to(sequence, read)
    }

    /// What was left unread of earlier questions, after an error, is skipped: no address gets another one's verdict.
    fn answer_to<T>(&self, sequence: u32, read: impl Fn(&[u8]) -> io::Result<T>) -> io::Result<T> {
        let mut reply = [0; 1024];
        loop {
            let length = (&self.asks).read(&mut reply)?;
            if let Some(answer) = answer(&reply[..length], sequence) {
                return read(answer);
            }
        }
    }

    /// Whether there were changes since the last call, or too many to be told (`ENOBUFS`). The socket is asked and not the
    /// event loop, which sees a change a moment after a connection that came behind it.
    pub fn have_changed(&self) -> bool {
        let mut changed = false;
        loop {
            match (&self.changes).read(&mut [0; 64]) {
                Ok(_) => changed = true,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return changed,
                // What is left unread behind it would keep the kernel from telling of the next change.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => changed = true,
                Err(_) => return true,
            }
        }
    }
}

fn socket() -> io::Result<Socket> {
    let protocol = Protocol::from(libc::NETLINK_ROUTE);
    let kind = Type::RAW.nonblocking();
    Socket::new(Domain::from(libc::AF_NETLINK), kind, Some(protocol))
}

fn request(query: RouteQuery, sequence: u32) -> Vec<u8> {
    let to = octets(query.to);
    let from = query.from.map(octets).unwrap_or_default();
    let mut message = vec![0; HEADER + ROUTE];
    message[MESSAGE_TYPE..FLAGS].copy_from_slice(&libc::RTM_GETROUTE.to_ne_bytes());
    message[FLAGS..SEQUENCE].copy_from_slice(&narrow(libc::NLM_F_REQUEST).to_ne_bytes());
    message[SEQUENCE..SEQUENCE + 4].copy_from_slice(&sequence.to_ne_bytes());
    message[FAMILY] = byte(family(query.to));
    message[TO_LENGTH] = byte(to.len() * 8);
    message[FROM_LENGTH] = byte(from.len() * 8);
    push(&mut message, libc::RTA_DST, &to);
    if query.from.is_some() {
        push(&mut message, libc::RTA_SRC, &from);
    }
    if let Some(mark) = query.mark {
        push(&mut message, libc::RTA_MARK, &mark.to_ne_bytes());
    }
    let length = u32::from(narrow(message.len()));
    message[..MESSAGE_TYPE].copy_from_slice(&length.to_ne_bytes());
    message
}

/// An attribute, `struct rtattr`; all that are used here fill whole words.
fn push(message: &mut Vec<u8>, name: u16, value: &[u8]) {
    message.extend(narrow(4 + value.len()).to_ne_bytes());
    message.extend(name.to_ne_bytes());
    message.extend(value);
}

fn family(address: IpAddr) -> i32 {
    match address {
        IpAddr::V4(_) => libc::AF_INET,
        IpAddr::V6(_) => libc::AF_INET6,
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(four) => four.octets().to_vec(),
        IpAddr::V6(six) => six.octets().to_vec(),
    }
}

/// All of netlink's constants and our lengths fit 16 bits.
fn narrow(value: impl TryInto<u16>) -> u16 {
    value.try_into().unwrap_or(u16::MAX)
}

/// Families and lengths of addresses fit 8 bits.
fn byte(value: impl TryInto<u8>) -> u8 {
    value.try_into().unwrap_or(u8::MAX)
}

/// The reply to the query of this number; `None` if it is one to another query.
fn answer(reply: &[u8], sequence: u32) -> Option<&[u8]> {
    let is_its = reply.get(SEQUENCE..SEQUENCE + 4)? == sequence.to_ne_bytes();
    is_its.then_some(reply)
}

/// The number of the device that a route names (`RTA_OIF`).
fn device(reply: &[u8]) -> Option<u32> {
    let mut attributes = reply.get(HEADER + ROUTE..)?;
    loop {
        let (length, name) = (number(attributes, 0)?, number(attributes, 2)?);
        if name == libc::RTA_OIF {
            let value = attributes.get(4..8)?.try_into().ok()?;
            return Some(u32::from_ne_bytes(value));
        }
        // `RTA_ALIGN`
        attributes = attributes.get(usize::from(length).next_multiple_of(4).max(4)..)?;
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u16> {
    let two = bytes.get(at..at + 2)?.try_into().ok()?;
    Some(u16::from_ne_bytes(two))
}

fn kind(reply: &[u8]) -> io::Result<RouteKind> {
    let short = || io::Error::new(io::ErrorKind::UnexpectedEof, "a short answer of rtnetlink");
    let message_type = reply.get(MESSAGE_TYPE..FLAGS).ok_or_else(short)?;
    if message_type == narrow(libc::NLMSG_ERROR).to_ne_bytes() {
        let code = reply.get(HEADER..HEADER + 4).ok_or_else(short)?;
        return refused(-i32::from_ne_bytes(code.try_into().map_err(|_| short())?));
    }
    if message_type != libc::RTM_NEWROUTE.to_ne_bytes() {
        return Err(io::Error::other("rtnetlink answers with no route"));
    }
    Ok(match reply.get(ROUTE_TYPE).ok_or_else(short)? {
        &libc::RTN_UNICAST => RouteKind::Unicast,
        &libc::RTN_LOCAL => RouteKind::Own,
        &libc::RTN_BROADCAST | &libc::RTN_ANYCAST | &libc::RTN_MULTICAST => RouteKind::Group,
        _ => RouteKind::Unreachable,
    })
}

fn refused(error: i32) -> io::Result<RouteKind> {
    match error {
        libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EACCES | libc::EINVAL => {
            Ok(RouteKind::Unreachable)
        }
        // The kernel has no such family (net/core/rtnetlink.c, rtnetlink_rcv_msg): ipv6.disable=1.
        libc::EAFNOSUPPORT | libc::EOPNOTSUPP => Ok(RouteKind::Unreachable),
        _ => Err(io::Error::from_raw_os_error(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect(text)
    }

    /// As the kernel answers query 7.
    fn reply(message_type: u16, route_type: u8) -> Vec<u8> {
        let mut reply = request(RouteQuery::about(ip("192.0.2.1")), 7);
        reply[MESSAGE_TYPE..FLAGS].copy_from_slice(&message_type.to_ne_bytes());
        reply[ROUTE_TYPE] = route_type;
        reply
    }

    fn error(errno: i32) -> Vec<u8> {
        let mut error = reply(narrow(libc::NLMSG_ERROR), 0);
        error[HEADER..HEADER + 4].copy_from_slice(&(-errno).to_ne_bytes());
        error
    }

    #[test]
    fn an_answer_is_of_its_own_question_alone() {
        let own = reply(libc::RTM_NEWROUTE, libc::RTN_LOCAL);
        assert_eq!(
            kind(answer(&own, 7).expect("its own")).expect("a route"),
            RouteKind::Own
        );
        assert!(answer(&own, 8).is_none());
        assert!(answer(&error(libc::ENETUNREACH), 8).is_none());
        assert!(answer(&own[..HEADER - 6], 7).is_none());
        assert!(answer(&[], 7).is_none());
    }

    #[test]
    fn what_is_no_answer_is_an_error_and_never_a_verdict() {
        for message in [
            error(0),
            error(libc::ENOBUFS),
            error(libc::EPERM),
            error(libc::ENETUNREACH)[..HEADER].to_vec(),
            reply(libc::RTM_NEWROUTE, libc::RTN_UNICAST)[..ROUTE_TYPE].to_vec(),
            reply(libc::RTM_NEWLINK, libc::RTN_UNICAST),
        ] {
            assert!(
                kind(answer(&message, 7).expect("its own")).is_err(),
                "{message:?}"
            );
        }
        for nobody in [libc::ENETUNREACH, libc::EOPNOTSUPP] {
            let nobody = kind(&error(nobody)).expect("a verdict");
            assert_eq!(nobody, RouteKind::Unreachable);
        }
    }

    #[test]
    fn loopback_is_this_machine() {
        let routes = Routes::open().expect("socket");
        for address in ["127.0.0.1", "127.9.9.9", "::1"] {
            let kind = routes.kind_of(RouteQuery::about(ip(address)));
            assert_eq!(kind.expect("answer"), RouteKind::Own, "{address}");
        }
        let elsewhere = routes.kind_of(RouteQuery::about(ip("192.0.2.1")));
        assert_ne!(elsewhere.expect("answer"), RouteKind::Own);
    }

    #[test]
    fn an_answer_that_nobody_read_is_not_the_next_ones() {
        let routes = Routes::open().expect("socket");
        let unread = RouteQuery::about(ip("192.0.2.1"));
        for _ in 0..3 {
            routes.asks.send(&request(unread, 0)).expect("send");
        }
        for address in ["127.0.0.1", "::1", "127.0.0.2"] {
            let kind = routes.kind_of(RouteQuery::about(ip(address)));
            assert_eq!(kind.expect("answer"), RouteKind::Own, "{address}");
        }
    }

    #[test]
    fn without_an_answer_there_is_an_error_and_no_waiting() {
        let routes = Routes::open().expect("socket");
        let error = routes.answer_to(1, kind).expect_err("nobody asked");
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_packet_to_this_machine_leaves_by_the_loopback_device() {
        let routes = Routes::open().expect("socket");
        let device = routes.device_of(RouteQuery::about(ip("127.0.0.1")));
        assert_eq!(device.expect("answer"), Some(1));
    }

    #[test]
    fn a_reply_that_is_cut_names_no_device() {
        let mut whole = reply(libc::RTM_NEWROUTE, libc::RTN_UNICAST);
        push(&mut whole, libc::RTA_OIF, &7_u32.to_ne_bytes());
        assert_eq!(device(&whole), Some(7));
        for length in 0..whole.len() {
            assert_eq!(device(&whole[..length]), None, "{length}");
        }
    }

    #[test]
    fn the_kernel_takes_marks_and_sources() {
        let routes = Routes::open().expect("socket");
        let query = RouteQuery {
            to: ip("127.0.0.2"),
            from: Some(ip("127.0.0.1")),
            mark: Some(0x5452),
        };
        assert_eq!(routes.kind_of(query).expect("answer"), RouteKind::Own);
        let nobodys = RouteQuery {
            from: Some(ip("192.0.2.77")),
            ..query
        };
        let kind = routes.kind_of(nobodys).expect("answer");
        assert_eq!(kind, RouteKind::Unreachable, "no source of this machine's");
    }
}
