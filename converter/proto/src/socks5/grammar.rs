//! What all messages have in common, and what can be wrong with them.

use std::fmt;

/// The version of RFC 1928.
pub const VERSION: u8 = 5;
/// The version of RFC 1929's negotiation.
pub const LOGIN_VERSION: u8 = 1;

pub(super) const COMMAND_CONNECT: u8 = 1;
pub(super) const ADDRESS_IPV4: u8 = 1;
pub(super) const ADDRESS_NAME: u8 = 3;
pub(super) const ADDRESS_IPV6: u8 = 4;

/// Why bytes are refused.
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

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => write!(f, "SOCKS version {version}"),
            Self::Command(command) => write!(f, "SOCKS command {command}"),
            Self::AddressType(kind) => write!(f, "SOCKS address type {kind}"),
            Self::Name => write!(f, "invalid host name"),
        }
    }
}

impl std::error::Error for ProtocolError {}

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
pub(super) fn check_version(bytes: &[u8], version: u8) -> Result<(), ProtocolError> {
    match bytes.first() {
        Some(&other) if other != version => Err(ProtocolError::Version(other)),
        _ => Ok(()),
    }
}

/// Takes a field with one byte of length before it off `bytes`.
pub(super) fn split_field(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&length, rest) = bytes.split_first()?;
    rest.split_at_checked(usize::from(length))
}

/// Appends a field with its length before it.
pub(super) fn put_field(field: &[u8], out: &mut Vec<u8>) -> Result<(), FieldLength> {
    let length = u8::try_from(field.len()).map_err(|_| FieldLength)?;
    if length == 0 {
        return Err(FieldLength);
    }
    out.push(length);
    out.extend(field);
    Ok(())
}
