//! Asks the kernel what it would do with a packet to an address (rtnetlink(7), `RTM_GETROUTE`): the one answer that
//! knows all of the machine's own addresses, broadcast addresses and routes at this very moment.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{self, Read};
use std::net::IpAddr;
use std::os::fd::AsFd;

use socket2::{Domain, Protocol, Socket, Type};

use crate::kernel::sys;

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

const HEADER: usize = 16; // struct nlmsghdr
const ROUTE: usize = 12; // struct rtmsg
const TYPE: usize = HEADER + 7; // rtmsg.rtm_type

const SOL_NETLINK: i32 = 270;
const NETLINK_ADD_MEMBERSHIP: i32 = 1;
/// `RTNLGRP_IPV4_ROUTE`, `_IPV4_RULE`, `_IPV6_ROUTE`, `_IPV6_RULE`: own addresses are routes of the table `local`.
const CHANGES: [i32; 4] = [7, 8, 11, 19];
/// Answers that are kept.
const KEPT: usize = 4096;

/// The kernel's answers, kept until any route changes.
#[derive(Debug)]
pub struct Routes {
    asks: Socket,
    changes: Socket,
    kept: RefCell<HashMap<IpAddr, RouteKind>>,
}

impl Routes {
    /// Raises what socket(2) does.
    pub fn open() -> io::Result<Self> {
        let socket = || {
            let protocol = Protocol::from(libc::NETLINK_ROUTE);
            Socket::new(Domain::from(libc::AF_NETLINK), Type::RAW, Some(protocol))
        };
        let changes = socket()?;
        changes.set_nonblocking(true)?;
        for group in CHANGES {
            sys::set_option(changes.as_fd(), SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, group)?;
        }
        Ok(Self {
            asks: socket()?,
            changes,
            kept: RefCell::default(),
        })
    }

    /// What `address` is to this machine. The kernel answers before send(2) returns, so that this does not wait.
    pub fn kind_of(&self, address: IpAddr) -> io::Result<RouteKind> {
        let mut kept = self.kept.borrow_mut();
        if self.have_changed() || kept.len() >= KEPT {
            kept.clear();
        }
        if let Some(kind) = kept.get(&address) {
            return Ok(*kind);
        }
        let kind = self.ask(address)?;
        kept.insert(address, kind);
        Ok(kind)
    }

    fn ask(&self, address: IpAddr) -> io::Result<RouteKind> {
        self.asks.send(&request(address))?;
        let mut reply = [0; 1024];
        let length = (&self.asks).read(&mut reply)?;
        kind(&reply[..length])
    }

    /// Whether there were changes since the last call, or too many to be told (`ENOBUFS`).
    fn have_changed(&self) -> bool {
        let mut changed = false;
        loop {
            match (&self.changes).read(&mut [0; 64]) {
                Ok(length) => changed |= length > 0,
                Err(error) => return changed || error.kind() != io::ErrorKind::WouldBlock,
            }
        }
    }
}

fn request(address: IpAddr) -> Vec<u8> {
    let (family, bytes) = match address {
        IpAddr::V4(four) => (libc::AF_INET, four.octets().to_vec()),
        IpAddr::V6(six) => (libc::AF_INET6, six.octets().to_vec()),
    };
    let attribute = 4 + bytes.len();
    let mut message = Vec::with_capacity(HEADER + ROUTE + attribute);
    message.extend(u32::from(narrow(HEADER + ROUTE + attribute)).to_ne_bytes());
    message.extend(libc::RTM_GETROUTE.to_ne_bytes());
    message.extend(narrow(libc::NLM_F_REQUEST).to_ne_bytes());
    message.extend([0; 8]);
    message.push(narrow(family).to_le_bytes()[0]);
    message.push(narrow(bytes.len() * 8).to_le_bytes()[0]);
    message.extend([0; ROUTE - 2]);
    message.extend(narrow(attribute).to_ne_bytes());
    message.extend(libc::RTA_DST.to_ne_bytes());
    message.extend(bytes);
    message
}

/// All of netlink's constants and our lengths fit 16 bits.
fn narrow(value: impl TryInto<u16>) -> u16 {
    value.try_into().unwrap_or(u16::MAX)
}

fn kind(reply: &[u8]) -> io::Result<RouteKind> {
    let short = || io::Error::new(io::ErrorKind::UnexpectedEof, "a short answer of rtnetlink");
    let message_type = u16::from_ne_bytes(
        reply
            .get(4..6)
            .ok_or_else(short)?
            .try_into()
            .map_err(|_| short())?,
    );
    if message_type == narrow(libc::NLMSG_ERROR) {
        let code = reply.get(HEADER..HEADER + 4).ok_or_else(short)?;
        let errno = -i32::from_ne_bytes(code.try_into().map_err(|_| short())?);
        return match errno {
            libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EACCES | libc::EINVAL => {
                Ok(RouteKind::Unreachable)
            }
            _ => Err(io::Error::from_raw_os_error(errno)),
        };
    }
    Ok(match reply.get(TYPE).ok_or_else(short)? {
        &libc::RTN_UNICAST => RouteKind::Unicast,
        &libc::RTN_LOCAL => RouteKind::Own,
        &libc::RTN_BROADCAST | &libc::RTN_ANYCAST | &libc::RTN_MULTICAST => RouteKind::Group,
        _ => RouteKind::Unreachable,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_this_machine() {
        let routes = Routes::open().expect("socket");
        for address in ["127.0.0.1", "127.9.9.9", "::1"] {
            assert_eq!(
                routes
                    .kind_of(address.parse().expect("address"))
                    .expect("answer"),
                RouteKind::Own,
                "{address}"
            );
        }
        assert_ne!(
            routes
                .kind_of("192.0.2.1".parse().expect("address"))
                .expect("answer"),
            RouteKind::Own
        );
    }
}
