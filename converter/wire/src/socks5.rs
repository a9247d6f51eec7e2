//! SOCKS version 5 (RFC 1928), CONNECT only, with user names and passwords (RFC 1929).
//!
//! A server calls [`parse_greeting`], answers with [`Method::encode`], calls [`parse_login`] and
//! answers with [`encode_login_status`] where it chose [`Method::UserPassword`], and calls
//! [`parse_request`] and answers with [`Reply::encode`]. A client does the reverse. What follows
//! a parsed message stays the caller's: each parser says how many bytes it took.

mod greeting;
mod login;
mod reply;
mod request;

use std::fmt;

pub use greeting::{Greeting, Method, parse_greeting, parse_method};
pub use login::{Login, encode_login_status, parse_login, parse_login_status};
pub use reply::{Code, Reply, parse_reply};
pub use request::{MAX_NAME, Request, Target, parse_request};

/// The version of RFC 1928.
pub const VERSION: u8 = 5;
/// The version of RFC 1929's negotiation.
pub const LOGIN_VERSION: u8 = 1;

const COMMAND_CONNECT: u8 = 1;
const ADDRESS_IPV4: u8 = 1;
const ADDRESS_NAME: u8 = 3;
const ADDRESS_IPV6: u8 = 4;

/// Why bytes are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The first byte, the version, is another one: close, since no answer would be understood.
    Version(u8),
    /// The request's command is not CONNECT.
    Command(u8),
    /// The address type is none of RFC 1928 section 5's.
    AddressType(u8),
    /// The name is empty, has other characters than letters, digits, `-`, `.` and `_`, or is a
    /// number that is no dotted quad.
    Name,
}

impl Fault {
    /// Returns the code that a client's request with this fault must be answered with before the
    /// connection is closed; `None`: close it.
    pub fn code(self) -> Option<Code> {
        match self {
            Self::Version(_) => None,
            Self::Command(_) => Some(Code::CommandNotSupported),
            Self::AddressType(_) => Some(Code::AddressTypeNotSupported),
            // What a look-up of such a name would end in.
            Self::Name => Some(Code::HostUnreachable),
        }
    }

    /// Returns the answer with [`Fault::code`]; `None`: close without one.
    pub fn reply(self) -> Option<Vec<u8>> {
        self.code().map(|code| Reply::refusal(code).encode())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => write!(f, "SOCKS version {version}"),
            Self::Command(command) => write!(f, "SOCKS command {command}"),
            Self::AddressType(kind) => write!(f, "SOCKS address type {kind}"),
            Self::Name => write!(f, "invalid host name"),
        }
    }
}

impl std::error::Error for Fault {}

/// A SOCKS field is empty where it may not be, or longer than the 255 bytes it can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldLength;

impl fmt::Display for FieldLength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SOCKS field not of 1 to 255 bytes")
    }
}

impl std::error::Error for FieldLength {}

/// Checks the version, which is known before anything else is.
fn check_version(bytes: &[u8], version: u8) -> Result<(), Fault> {
    match bytes.first() {
        Some(&other) if other != version => Err(Fault::Version(other)),
        _ => Ok(()),
    }
}

/// Takes a field with one byte of length before it off `bytes`.
fn split_field(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&length, rest) = bytes.split_first()?;
    rest.split_at_checked(usize::from(length))
}

/// Appends a field with its length before it.
fn put_field(field: &[u8], out: &mut Vec<u8>) -> Result<(), FieldLength> {
    let length = u8::try_from(field.len()).map_err(|_| FieldLength)?;
    if length == 0 {
        return Err(FieldLength);
    }
    out.push(length);
    out.extend(field);
    Ok(())
}
