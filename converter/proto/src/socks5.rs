//! SOCKS version 5 (RFC 1928), CONNECT only, with user names and passwords (RFC 1929).
//!
//! A server calls [`parse_greeting`], answers with [`AuthMethod::encode`], calls [`parse_login`] and
//! answers with [`encode_login_status`] where it chose [`AuthMethod::UserPassword`], and calls
//! [`parse_request`] and answers with [`Reply::encode`]. What follows
//! a parsed message stays the caller's: each parser says how many bytes it took.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::host::Host;

const VERSION: u8 = 5;
/// The version of RFC 1929's negotiation.
const LOGIN_VERSION: u8 = 1;

const COMMAND_CONNECT: u8 = 1;
const ADDRESS_IPV4: u8 = 1;
const ADDRESS_NAME: u8 = 3;
const ADDRESS_IPV6: u8 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// The first byte, the version, is another one: close, since no answer would be understood.
    Version(u8),
    /// The request's command is not CONNECT.
    Command(u8),
    /// The address type is none of RFC 1928 section 5's.
    AddressType(u8),
    /// The name is none ([`crate::host::Host`]), or a number that is no dotted quad.
    Name,
}

impl ProtocolError {
    /// Returns what a client's request with this fault must be answered with before the
    /// connection is closed; `None`: close it without an answer.
    pub fn reply(self) -> Option<Reply> {
        match self {
            Self::Version(_) => None,
            Self::Command(_) => Some(Code::CommandNotSupported),
            Self::AddressType(_) => Some(Code::AddressTypeNotSupported),
            // What a look-up of such a name would end in.
            Self::Name => Some(Code::HostUnreachable),
        }
        .map(Reply::refusal)
    }
}

/// Checks the version, which is known before anything else is.
fn check_version(bytes: &[u8], version: u8) -> Result<(), ProtocolError> {
    match bytes.first() {
        Some(&other) if other != version => Err(ProtocolError::Version(other)),
        _ => Ok(()),
    }
}

/// Takes a field with one byte of length before it off `bytes`.
fn split_field(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&length, rest) = bytes.split_first()?;
    rest.split_at_checked(usize::from(length))
}

/// How a client shows who it is (RFC 1928 section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum AuthMethod {
    NoAuthentication = 0,
    /// With user name and password (RFC 1929).
    UserPassword = 2,
    /// None of the client's methods is acceptable.
    NoneAcceptable = 255,
}

impl AuthMethod {
    /// Returns the server's answer to a greeting. After [`AuthMethod::NoneAcceptable`] the connection
    /// is closed.
    pub fn encode(self) -> [u8; 2] {
        [VERSION, self as u8]
    }
}

/// A client's first message: the methods that it can use, by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeting(pub Vec<u8>);

impl Greeting {
    pub fn offers(&self, method: AuthMethod) -> bool {
        self.0.contains(&(method as u8))
    }
}

/// Parses a client's greeting. Returns it and its length in bytes; `None`: need more, in all at
/// most 257 bytes.
pub fn parse_greeting(bytes: &[u8]) -> Result<Option<(Greeting, usize)>, ProtocolError> {
    check_version(bytes, VERSION)?;
    let methods = bytes.get(1..).and_then(split_field).map(|(methods, _)| methods);
    Ok(methods.map(|methods| (Greeting(methods.to_vec()), 2 + methods.len())))
}

/// A user name and a password, bytes of no set encoding.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    pub user: Vec<u8>,
    pub password: Vec<u8>,
}

impl fmt::Debug for Login {
    /// Leaves the password out, for logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = String::from_utf8_lossy(&self.user);
        f.debug_struct("Login").field("user", &user).finish_non_exhaustive()
    }
}

/// Parses a client's user name and password. Returns them and the message's length in bytes;
/// `None`: need more, in all at most 513 bytes. RFC 1929 section 2 has no empty fields; such a
/// client is let through to the check of its password, which gives it the answer it understands.
pub fn parse_login(bytes: &[u8]) -> Result<Option<(Login, usize)>, ProtocolError> {
    check_version(bytes, LOGIN_VERSION)?;
    let fields = bytes.get(1..).and_then(|rest| {
        let (user, rest) = split_field(rest)?;
        let (password, _) = split_field(rest)?;
        Some((user, password))
    });
    Ok(fields.map(|(user, password)| {
        let login = Login {
            user: user.to_vec(),
            password: password.to_vec(),
        };
        (login, 3 + user.len() + password.len())
    }))
}

/// Returns the server's answer to a [`Login`]. After a failure the connection MUST be closed (RFC
/// 1929 section 2).
pub fn encode_login_status(success: bool) -> [u8; 2] {
    [LOGIN_VERSION, u8::from(!success)]
}

/// A client's CONNECT (RFC 1928 sections 4 and 5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub host: Host,
    pub port: u16,
}

/// Parses a client's request. Returns it and its length in bytes; `None`: need more, in all at
/// most 262 bytes. A fault is told as soon as the byte that has it is there.
pub fn parse_request(bytes: &[u8]) -> Result<Option<(Request, usize)>, ProtocolError> {
    check_version(bytes, VERSION)?;
    match bytes.get(1) {
        Some(&command) if command != COMMAND_CONNECT => {
            return Err(ProtocolError::Command(command));
        }
        _ => {}
    }
    let Some((head, rest)) = bytes.split_first_chunk::<4>() else {
        return Ok(None);
    };
    let found = match head[3] {
        ADDRESS_IPV4 => split_address::<4>(rest),
        ADDRESS_IPV6 => split_address::<16>(rest),
        ADDRESS_NAME => split_name(rest)?,
        other => return Err(ProtocolError::AddressType(other)),
    };
    Ok(found.and_then(|(host, rest)| {
        let port = u16::from_be_bytes(*rest.first_chunk()?);
        let length = bytes.len() - rest.len() + 2;
        Some((Request { host, port }, length))
    }))
}

fn split_address<const N: usize>(bytes: &[u8]) -> Option<(Host, &[u8])>
where
    IpAddr: From<[u8; N]>,
{
    let (&address, rest) = bytes.split_first_chunk::<N>()?;
    Some((IpAddr::from(address).into(), rest))
}

/// A name, or the address that some clients send as one: IPv6 also in brackets, as in a URI (RFC 3986 section 3.2.2).
fn split_name(bytes: &[u8]) -> Result<Option<(Host, &[u8])>, ProtocolError> {
    let Some((name, rest)) = split_field(bytes) else {
        return Ok(None);
    };
    let name = std::str::from_utf8(name).map_err(|_| ProtocolError::Name)?;
    let bracketed = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let six = bracketed.unwrap_or(name).parse::<Ipv6Addr>();
    let host = six.map(Host::V6).or_else(|_| Host::from_name(name));
    Ok(Some((host.map_err(|_| ProtocolError::Name)?, rest)))
}

/// What became of a request (RFC 1928 section 6), in so far as this server says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Code {
    Succeeded = 0,
    GeneralFailure = 1,
    NotAllowed = 2,
    NetworkUnreachable = 3,
    HostUnreachable = 4,
    ConnectionRefused = 5,
    CommandNotSupported = 7,
    AddressTypeNotSupported = 8,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    code: Code,
    bound: SocketAddr,
}

impl Reply {
    /// The connection stands; `bound` is the server's own end of it.
    pub fn success(bound: SocketAddr) -> Self {
        Self {
            code: Code::Succeeded,
            bound,
        }
    }

    /// The connection does not stand. The server closes within 10 seconds (RFC 1928 section 6).
    pub fn refusal(code: Code) -> Self {
        Self {
            code,
            bound: SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0), // it means nothing
        }
    }

    /// Returns the message, 10 or 22 bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut message = vec![VERSION, self.code as u8, 0];
        match self.bound.ip() {
            IpAddr::V4(four) => {
                message.push(ADDRESS_IPV4);
                message.extend(four.octets());
            }
            IpAddr::V6(six) => {
                message.push(ADDRESS_IPV6);
                message.extend(six.octets());
            }
        }
        message.extend(self.bound.port().to_be_bytes());
        message
    }
}
