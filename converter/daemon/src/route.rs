//! Asks the kernel what it would do with a packet to an address (rtnetlink(7), `RTM_GETROUTE`): the one answer that
//! knows all of the machine's own addresses, broadcast addresses and routes at this very moment.

use std::io::{self, Read};
use std::net::IpAddr;

use socket2::{Domain, Protocol, Socket, Type};

/// What an address is to this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
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

/// A socket of the kernel's routing family.
#[derive(Debug)]
pub struct Routes(Socket);

impl Routes {
    /// Raises what socket(2) does.
    pub fn open() -> io::Result<Self> {
        let domain = Domain::from(libc::AF_NETLINK);
        let socket = Socket::new(domain, Type::RAW, Some(Protocol::from(libc::NETLINK_ROUTE)))?;
        Ok(Self(socket))
    }

    /// What `address` is to this machine. The kernel answers before send(2) returns, so that this does not wait.
    pub fn kind_of(&self, address: IpAddr) -> io::Result<Kind> {
        self.0.send(&request(address))?;
        let mut reply = [0; 1024];
        let length = (&self.0).read(&mut reply)?;
        kind(&reply[..length])
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

fn kind(reply: &[u8]) -> io::Result<Kind> {
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
                Ok(Kind::Unreachable)
            }
            _ => Err(io::Error::from_raw_os_error(errno)),
        };
    }
    Ok(match reply.get(TYPE).ok_or_else(short)? {
        &libc::RTN_UNICAST => Kind::Unicast,
        &libc::RTN_LOCAL => Kind::Own,
        &libc::RTN_BROADCAST | &libc::RTN_ANYCAST | &libc::RTN_MULTICAST => Kind::Group,
        _ => Kind::Unreachable,
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
                Kind::Own,
                "{address}"
            );
        }
        assert_ne!(
            routes
                .kind_of("192.0.2.1".parse().expect("address"))
                .expect("answer"),
            Kind::Own
        );
    }
}
