//! Asks the kernel what it would do with a packet to an address (rtnetlink(7), `RTM_GETROUTE`): the one answer that
//! knows all of the machine's own addresses, broadcast addresses and routes at this very moment.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{self, Read};
use std::net::IpAddr;

use rustix::net::netlink::SocketAddrNetlink;
use socket2::Socket;
use tributary_sys::{Answer, Netlink, SocketOption, number_of, octets, set_number};

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
    /// Nobody, by a route or rule that refuses it: `prohibit` or `blackhole`.
    Denied,
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

// struct rtmsg: its length, and places in it.
const ROUTE: usize = 12;
const FAMILY: usize = 0;
const TO_LENGTH: usize = 1;
const FROM_LENGTH: usize = 2;
const ROUTE_TYPE: usize = 7;

/// `RTNLGRP_IPV4_ROUTE`, `_IPV4_RULE`, `_IPV6_ROUTE`, `_IPV6_RULE`: own addresses are routes of the table `local`. And
/// `RTNLGRP_LINK`: of a device that goes down IPv4's routes go without a word.
const CHANGES: [i32; 5] = [7, 8, 11, 19, 1];
/// Answers that are kept.
const KEPT: usize = 4096;

/// The kernel's answers, kept until any route changes.
#[derive(Debug)]
pub struct Routes {
    netlink: Netlink,
    changes: Socket,
    kept: RefCell<HashMap<RouteQuery, RouteKind>>,
}

impl Routes {
    /// Raises what socket(2) does.
    pub fn open() -> io::Result<Self> {
        let changes = Netlink::socket(libc::NETLINK_ROUTE)?;
        // The kernel tells no socket of its own number what it changes itself, as the routes of a new address, and an unbound
        // one has the kernel's: 0 (net/netlink/af_netlink.c, do_one_broadcast).
        rustix::net::bind(&changes, &SocketAddrNetlink::new(0, 0))?;
        for group in CHANGES {
            set_number(&changes, SocketOption::NETLINK_ADD_MEMBERSHIP, group)?;
        }
        Ok(Self {
            netlink: Netlink::open(libc::NETLINK_ROUTE)?,
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
        let kind = kind(self.ask(query), query)?;
        kept.insert(query, kind);
        Ok(kind)
    }

    /// The number of the device by which the packet would leave; `None` if the kernel names none. It is not kept.
    pub fn device_of(&self, query: RouteQuery) -> io::Result<Option<u32>> {
        let answer = self.ask(query);
        let device = answer.as_ref().ok().and_then(device);
        kind(answer, query).map(|_| device)
    }

    fn ask(&self, query: RouteQuery) -> io::Result<Answer> {
        let (to, from) = (octets(query.to), query.from.map(octets));
        let mark = query.mark.map(u32::to_ne_bytes);
        let mut head = [0; ROUTE];
        head[FAMILY] = byte(family(query.to));
        head[TO_LENGTH] = byte(to.len() * 8);
        head[FROM_LENGTH] = byte(from.as_ref().map_or(0, Vec::len) * 8);
        let mut attributes = vec![(libc::RTA_DST, &to[..])];
        attributes.extend(from.iter().map(|from| (libc::RTA_SRC, &from[..])));
        attributes.extend(mark.iter().map(|mark| (libc::RTA_MARK, &mark[..])));
        self.netlink.ask(libc::RTM_GETROUTE, &head, &attributes)
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

fn family(address: IpAddr) -> i32 {
    match address {
        IpAddr::V4(_) => libc::AF_INET,
        IpAddr::V6(_) => libc::AF_INET6,
    }
}

/// Families and lengths of addresses fit 8 bits.
fn byte(value: impl TryInto<u8>) -> u8 {
    value.try_into().unwrap_or(u8::MAX)
}

/// The number of the device that a route names (`RTA_OIF`).
fn device(answer: &Answer) -> Option<u32> {
    let number = number_of(answer.attribute(ROUTE, libc::RTA_OIF)?)?;
    u32::try_from(number).ok()
}

fn kind(answer: io::Result<Answer>, query: RouteQuery) -> io::Result<RouteKind> {
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => return refused(error, query),
    };
    let no_route = || io::Error::other("rtnetlink answers with no route");
    let route = Some(&answer.body).filter(|_| answer.kind == libc::RTM_NEWROUTE);
    Ok(
        match route.and_then(|route| route.get(ROUTE_TYPE)).ok_or_else(no_route)? {
            &libc::RTN_UNICAST => RouteKind::Unicast,
            &libc::RTN_LOCAL => RouteKind::Own,
            &libc::RTN_BROADCAST | &libc::RTN_ANYCAST | &libc::RTN_MULTICAST => RouteKind::Group,
            &libc::RTN_PROHIBIT | &libc::RTN_BLACKHOLE => RouteKind::Denied,
            _ => RouteKind::Unreachable,
        },
    )
}

fn refused(error: io::Error, query: RouteQuery) -> io::Result<RouteKind> {
    match error.raw_os_error() {
        // Of prohibit; of blackhole, or of a source that is not this machine's (net/ipv4/fib_semantics.c, fib_props).
        Some(libc::EACCES) => Ok(RouteKind::Denied),
        Some(libc::EINVAL) if query.from.is_none() => Ok(RouteKind::Denied),
        // The last two: the kernel has no such family (net/core/rtnetlink.c, rtnetlink_rcv_msg): ipv6.disable=1.
        Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EINVAL | libc::EAFNOSUPPORT | libc::EOPNOTSUPP) => {
            Ok(RouteKind::Unreachable)
        }
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect(text)
    }

    fn answer(kind: u16, route_type: u8) -> Answer {
        let mut body = vec![0; ROUTE];
        body[ROUTE_TYPE] = route_type;
        Answer { kind, body }
    }

    fn error(errno: i32) -> io::Result<Answer> {
        Err(io::Error::from_raw_os_error(errno))
    }

    fn kind(answer: io::Result<Answer>) -> io::Result<RouteKind> {
        super::kind(answer, RouteQuery::about(ip("192.0.2.1")))
    }

    #[test]
    fn what_is_no_answer_is_an_error_and_never_a_verdict() {
        let cut = Answer {
            kind: libc::RTM_NEWROUTE,
            body: vec![0; ROUTE_TYPE],
        };
        let others = answer(libc::RTM_NEWLINK, libc::RTN_UNICAST);
        for message in [error(0), error(libc::ENOBUFS), error(libc::EPERM), Ok(cut), Ok(others)] {
            let text = format!("{message:?}");
            assert!(kind(message).is_err(), "{text}");
        }
        for nobody in [libc::ENETUNREACH, libc::EOPNOTSUPP] {
            let nobody = kind(error(nobody)).expect("a verdict");
            assert_eq!(nobody, RouteKind::Unreachable);
        }
        let own = kind(Ok(answer(libc::RTM_NEWROUTE, libc::RTN_LOCAL)));
        assert_eq!(own.expect("a route"), RouteKind::Own);
    }

    #[test]
    fn routes_and_rules_that_refuse_are_no_missing_routes() {
        let refuses = |route_type| Ok(answer(libc::RTM_NEWROUTE, route_type));
        for (message, expected) in [
            (error(libc::EACCES), RouteKind::Denied),
            (error(libc::EINVAL), RouteKind::Denied),
            (refuses(libc::RTN_PROHIBIT), RouteKind::Denied),
            (refuses(libc::RTN_BLACKHOLE), RouteKind::Denied),
            (refuses(libc::RTN_UNREACHABLE), RouteKind::Unreachable),
            (error(libc::EHOSTUNREACH), RouteKind::Unreachable),
        ] {
            let text = format!("{message:?}");
            assert_eq!(kind(message).expect("a verdict"), expected, "{text}");
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
    fn a_packet_to_this_machine_leaves_by_the_loopback_device() {
        let routes = Routes::open().expect("socket");
        let device = routes.device_of(RouteQuery::about(ip("127.0.0.1")));
        assert_eq!(device.expect("answer"), Some(1));
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
