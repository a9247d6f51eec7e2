//! The fixed header, what can be wrong with a message, and its words (RFC 8803 sections 6.1 and 6.2.1).

use std::fmt;
use std::net::SocketAddrV6;

/// The version that RFC 8803 section 6.1 specifies, the only one there is.
pub const VERSION: u8 = 1;
/// The Magic Number of RFC 8803 section 6.1.
pub const MAGIC: u16 = 0x2263;
pub const HEADER_LENGTH: usize = 4;
/// The most bytes that a message can take: 255 words of 32 bits (RFC 8803 section 6.1).
pub const MAX_LENGTH: usize = 255 * WORD;

pub(super) const WORD: usize = 4;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessageError {
    /// The third and fourth byte are not [`MAGIC`]: this is not Convert at all.
    NotConvert,
    ZeroTotalLength,
    /// The version, which is not [`VERSION`].
    Version(u8),
    ReservedTlv,
    /// A TLV whose Length is zero, past the end of the message, or wrong for the type given here.
    TlvLength(u8),
    DuplicateTlv(u8),
    /// A TLV whose type is unknown, or known and not for the receiver to get.
    UnsupportedTlv(u8),
    /// A TCP option in a Connect TLV, of the kind given here, shorter than 2 bytes or cut off.
    TcpOptionLength(u8),
    /// TCP options, by kind, that the converter cannot advertise to the server.
    UnsupportedTcpOptions(Vec<u8>),
    /// A Connect TLV's peer, or a converter in a source route TLV, has port 0 or an address that no connection can go to.
    Peer(SocketAddrV6),
    /// The message has neither an Info TLV nor a Connect TLV.
    NothingAsked,
}

impl fmt::Display for MessageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotConvert => write!(f, "no Convert magic number"),
            Self::ZeroTotalLength => write!(f, "total length 0"),
            Self::Version(version) => write!(f, "version {version}"),
            Self::ReservedTlv => write!(f, "TLV of reserved type 0"),
            Self::TlvLength(kind) => write!(f, "wrong length of TLV {kind}"),
            Self::DuplicateTlv(kind) => write!(f, "TLV {kind} twice"),
            Self::UnsupportedTlv(kind) => write!(f, "unsupported TLV {kind}"),
            Self::TcpOptionLength(kind) => write!(f, "wrong length of TCP option {kind}"),
            Self::UnsupportedTcpOptions(kinds) => write!(f, "unsupported TCP options {kinds:?}"),
            Self::Peer(peer) => write!(f, "invalid remote peer {peer}"),
            Self::NothingAsked => write!(f, "neither Info nor Connect"),
        }
    }
}

/// The TLVs would make a message of more than [`MAX_LENGTH`] bytes, or a TCP option of more than
/// 255.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

/// Returns the length in bytes, header included, of the message that `bytes` begins with; `None`
/// when the fixed header is not yet there.
///
/// The magic number is looked at first: without it, nothing says that the other fields are what
/// they seem. A Total Length of zero comes before the version, because RFC 8803 section 6.1
/// wants a reset "upon reception of a header with such a total length".
pub(super) fn parse_header(bytes: &[u8]) -> Result<Option<usize>, MessageError> {
    let Some(&[version, words, magic @ ..]) = bytes.first_chunk::<HEADER_LENGTH>() else {
        return Ok(None);
    };
    if u16::from_be_bytes(magic) != MAGIC {
        Err(MessageError::NotConvert)
    } else if words == 0 {
        Err(MessageError::ZeroTotalLength)
    } else if version != VERSION {
        Err(MessageError::Version(version))
    } else {
        Ok(Some(usize::from(words) * WORD))
    }
}

/// Returns the bytes of the whole message, without what follows it; `None`: need more.
pub(super) fn whole(bytes: &[u8]) -> Result<Option<&[u8]>, MessageError> {
    Ok(parse_header(bytes)?.and_then(|length| bytes.get(..length)))
}

/// Returns the length of `bytes` bytes in words.
pub(super) fn words(bytes: usize) -> Result<u8, TooLong> {
    u8::try_from(bytes.div_ceil(WORD)).map_err(|_| TooLong)
}

/// Returns a list of kinds or versions without the zeros that fill its last word.
pub(super) fn without_padding(list: &[u8]) -> &[u8] {
    let length = list.iter().rposition(|&entry| entry != 0).map_or(0, |last| last + 1);
    &list[..length]
}
