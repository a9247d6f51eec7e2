//! Requests that the kernel answers at once (netlink(7)).

use std::cell::Cell;
use std::io::{self, Read as _};

use netlink_packet_core::{
    DefaultNla, Emitable as _, ErrorBuffer, NLM_F_REQUEST, NLMSG_ERROR, NetlinkBuffer, NlasIterator,
};
use socket2::{Domain, Protocol, Socket, Type};

/// Bytes of `struct nlmsghdr`, and of the longest answer.
const HEADER: usize = 16;
const ANSWER: usize = 8192;

/// A socket to make requests by. The kernel answers before send(2) returns, so that nothing waits.
#[derive(Debug)]
pub struct Netlink {
    socket: Socket,
    sequence: Cell<u32>,
}

impl Netlink {
    /// Of a family of netlink, such as `NETLINK_ROUTE`.
    pub fn open(family: i32) -> io::Result<Self> {
        let socket = Self::socket(family)?;
        Ok(Self {
            socket,
            sequence: Cell::new(0),
        })
    }

    /// A socket alone, which does not wait.
    pub fn socket(family: i32) -> io::Result<Socket> {
        let kind = Type::RAW.nonblocking();
        Socket::new(Domain::from(libc::AF_NETLINK), kind, Some(Protocol::from(family)))
    }

    /// The answer to a request of this kind: `head` is what its kind begins with, and attributes are its numbers and values.
    /// Raises the error that the kernel answers with.
    pub fn ask(&self, kind: u16, head: &[u8], attributes: &[(u16, &[u8])]) -> io::Result<Answer> {
        self.send(kind, head, attributes)?;
        self.answer()
    }

    fn send(&self, kind: u16, head: &[u8], attributes: &[(u16, &[u8])]) -> io::Result<()> {
        self.sequence.set(self.sequence.get().wrapping_add(1));
        self.socket
            .send(&request(kind, self.sequence.get(), head, attributes))?;
        Ok(())
    }

    /// What was left unread of earlier requests, after an error, is skipped: none gets another one's answer.
    fn answer(&self) -> io::Result<Answer> {
        let mut bytes = [0; ANSWER];
        loop {
            let length = (&self.socket).read(&mut bytes)?;
            if let Some(answer) = Answer::parse(&bytes[..length], self.sequence.get()) {
                return answer;
            }
        }
    }
}

fn request(kind: u16, sequence: u32, head: &[u8], attributes: &[(u16, &[u8])]) -> Vec<u8> {
    let attributes: Vec<_> = attributes
        .iter()
        .map(|(kind, value)| DefaultNla::new(*kind, value.to_vec()))
        .collect();
    let attributes = attributes.as_slice();
    let before = HEADER + head.len();
    let mut message = vec![0; before + attributes.buffer_len()];
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    let mut header = NetlinkBuffer::new(&mut message);
    header.set_length(length);
    header.set_message_type(kind);
    header.set_flags(NLM_F_REQUEST);
    header.set_sequence_number(sequence);
    message[HEADER..before].copy_from_slice(head);
    attributes.emit(&mut message[before..]);
    message
}

#[derive(Clone, Debug)]
pub struct Answer {
    /// Its kind, such as `RTM_NEWROUTE`.
    pub kind: u16,
    /// What comes behind the header: what its kind begins with, and attributes.
    pub body: Vec<u8>,
}

impl Answer {
    /// `None` if it is one to another request, or to none.
    fn parse(bytes: &[u8], sequence: u32) -> Option<io::Result<Self>> {
        let cut = || io::Error::new(io::ErrorKind::UnexpectedEof, "the kernel's answer is cut off");
        if bytes.len() < HEADER || NetlinkBuffer::new(bytes).sequence_number() != sequence {
            return None;
        }
        let Ok(message) = NetlinkBuffer::new_checked(bytes) else {
            return Some(Err(cut()));
        };
        let (kind, body) = (message.message_type(), message.payload());
        if kind != NLMSG_ERROR {
            return Some(Ok(Self {
                kind,
                body: body.to_vec(),
            }));
        }
        let code = ErrorBuffer::new_checked(body).map(|error| error.code().map_or(0, i32::from));
        Some(Err(
            code.map_or_else(|_| cut(), |code| io::Error::from_raw_os_error(-code))
        ))
    }

    /// The value of the attribute with this number, behind so many bytes of the body; `None` if there is none that is whole.
    pub fn attribute(&self, head: usize, wanted: u16) -> Option<&[u8]> {
        let attributes = NlasIterator::new(self.body.get(head..)?);
        let mut whole = attributes.map_while(Result::ok);
        let found = whole.find(|attribute| attribute.kind() == wanted)?;
        let value = found.value_length();
        Some(&found.into_inner()[4..4 + value])
    }
}

/// The number that a value is, in the machine's byte order; `None` where it has another length than numbers have.
pub fn number_of(value: &[u8]) -> Option<u64> {
    Some(match value.len() {
        2 => u16::from_ne_bytes(value.try_into().ok()?).into(),
        4 => u32::from_ne_bytes(value.try_into().ok()?).into(),
        8 => u64::from_ne_bytes(value.try_into().ok()?),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: u16 = 24;

    fn answer(kind: u16, body: &[u8]) -> Vec<u8> {
        request(kind, 7, body, &[(7, b"abcde"), (3, &[9, 8])])
    }

    fn error(errno: i32) -> Vec<u8> {
        request(NLMSG_ERROR, 7, &(-errno).to_ne_bytes(), &[])
    }

    #[test]
    fn an_attribute_is_found_behind_others() {
        let bytes = answer(KIND, &[0; 12]);
        let answer = Answer::parse(&bytes, 7).expect("its own").expect("an answer");
        assert_eq!((answer.kind, answer.body.len()), (KIND, 12 + 12 + 8));
        assert_eq!(answer.attribute(12, 7), Some(&b"abcde"[..]));
        assert_eq!(answer.attribute(12, 3), Some(&[9, 8][..]));
        assert_eq!(answer.attribute(12, 4), None);
        for length in 0..bytes.len() {
            let cut = Answer::parse(&bytes[..length], 7);
            assert!(cut.is_none_or(|answer| answer.is_err()), "{length}");
        }
        for length in 0..answer.body.len() - 4 {
            let body = answer.body[..length].to_vec();
            assert_eq!(Answer { kind: KIND, body }.attribute(12, 3), None, "{length}");
        }
    }

    #[test]
    fn an_answer_is_of_its_own_request_alone() {
        assert!(Answer::parse(&answer(KIND, &[]), 8).is_none());
        assert!(Answer::parse(&error(libc::ENETUNREACH), 8).is_none());
        assert!(Answer::parse(&[], 7).is_none());
    }

    #[test]
    fn an_error_is_the_kernels() {
        for errno in [0, libc::ENOENT, libc::ENOBUFS] {
            let error = Answer::parse(&error(errno), 7).expect("its own").expect_err("an error");
            assert_eq!(error.raw_os_error(), Some(errno));
        }
        let cut = Answer::parse(&error(libc::ENOENT)[..HEADER], 7).expect("its own");
        assert!(cut.is_err());
    }

    #[test]
    fn an_answer_that_was_not_read_is_not_the_next_one() {
        let netlink = Netlink::open(libc::NETLINK_ROUTE).expect("a socket");
        let head = [libc::AF_INET.to_ne_bytes()[0], 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let to = |last| [127, 0, 0, last];
        netlink
            .send(libc::RTM_GETROUTE, &head, &[(libc::RTA_DST, &to(9))])
            .expect("sent");
        for last in [1, 2] {
            let answer = netlink.ask(libc::RTM_GETROUTE, &head, &[(libc::RTA_DST, &to(last))]);
            let answer = answer.expect("an answer");
            assert_eq!(answer.attribute(12, libc::RTA_DST), Some(&to(last)[..]));
        }
    }

    #[test]
    fn without_a_request_there_is_an_error_and_no_waiting() {
        let netlink = Netlink::open(libc::NETLINK_ROUTE).expect("a socket");
        let error = netlink.answer().expect_err("no request");
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }
}
