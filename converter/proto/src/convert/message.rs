//! The framing of the TLVs (RFC 8803 section 6.2.1).

use super::error::ErrorTlv;
use super::header::{HEADER_LENGTH, MAGIC, MessageError, TooLong, VERSION, WORD, whole, words};
use super::tlv::{Tlv, tlv_type};

/// Returns the TLVs of the message that `bytes` begins with, and the message's length in bytes;
/// `None`: need more. Of several faults, the first in the message counts.
pub fn parse(bytes: &[u8]) -> Result<Option<(Vec<Tlv>, usize)>, MessageError> {
    let Some(message) = whole(bytes)? else {
        return Ok(None);
    };
    Ok(Some((parse_tlvs(&message[HEADER_LENGTH..])?, message.len())))
}

fn parse_tlvs(mut rest: &[u8]) -> Result<Vec<Tlv>, MessageError> {
    let mut tlvs: Vec<Tlv> = Vec::new();
    while !rest.is_empty() {
        let (kind, body, after) = split_tlv(rest)?;
        // RFC 8803 section 6.2.1: a TLV MUST only appear once.
        if tlvs.iter().any(|tlv| tlv.kind() == kind) {
            return Err(MessageError::DuplicateTlv(kind));
        }
        tlvs.push(Tlv::parse(kind, body)?);
        rest = after;
    }
    Ok(tlvs)
}

/// Takes one TLV off a message: its type, the bytes behind its Length, and the rest.
fn split_tlv(bytes: &[u8]) -> Result<(u8, &[u8], &[u8]), MessageError> {
    let kind = bytes[0];
    // Before the length: RFC 8803 section 6.2.2 has its own answer to type 0.
    if kind == tlv_type::RESERVED {
        return Err(MessageError::ReservedTlv);
    }
    // RFC 8803 section 9: framed within the boundary that the Total Length sets.
    let length = bytes.get(1).map_or(0, |&words| usize::from(words) * WORD);
    if length == 0 || length > bytes.len() {
        return Err(MessageError::TlvLength(kind));
    }
    Ok((kind, &bytes[2..length], &bytes[length..]))
}

/// Returns the message that `tlvs` make, the fixed header first.
pub fn encode(tlvs: &[Tlv]) -> Result<Vec<u8>, TooLong> {
    let [magic_high, magic_low] = MAGIC.to_be_bytes();
    let mut message = vec![VERSION, 0, magic_high, magic_low];
    for tlv in tlvs {
        tlv.emit(&mut message)?;
    }
    message[1] = words(message.len())?;
    Ok(message)
}

impl ErrorTlv {
    /// Returns the whole message that carries this error and nothing else, at most
    /// [`super::MAX_LENGTH`] bytes. After it the connection is closed, not reset at once (RFC 8803
    /// section 6.2.2).
    ///
    /// # Panics
    /// Never: what is too long is cut.
    pub fn encode(&self) -> Vec<u8> {
        encode(&[Tlv::Error(self.clone())]).expect("emit cuts the value to what fits")
    }
}
