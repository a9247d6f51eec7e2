//! The client's side: what a converter answers.

use super::error::ErrorTlv;
use super::header::MessageError;
use super::message;
use super::reply::Reply;
use super::tlv::Tlv;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was done as asked. The server's data follow the message.
    Established(Reply),
    /// The converter refuses. The client MUST reset the connection (RFC 8803 section 6.2.8).
    Refused(ErrorTlv),
}

/// Parses the answer that `bytes`, all that a converter has sent so far, begin with. Returns it
/// and its length in bytes: what follows comes from the server. `None`: need more; at most
/// [`message::MAX_LENGTH`] bytes are ever needed.
///
/// On a fault the client must reset the connection: RFC 8803 section 6.1 (Total Length zero),
/// 6.2.1 (duplicates), 6.2.2 (type 0), 9 (framing). The same goes for another version, for what
/// is not Convert (section 8: a middlebox took the message away), and for TLVs that only a client
/// sends. TLVs of other types are skipped: section 6 lets the protocol be extended
/// by them.
pub fn parse(bytes: &[u8]) -> Result<Option<(Answer, usize)>, MessageError> {
    let Some((tlvs, consumed)) = message::parse(bytes)? else {
        return Ok(None);
    };
    let mut reply = Reply::default();
    let mut error = None;
    for tlv in tlvs {
        match tlv {
            Tlv::ExtendedTcpHeader(options) => reply.extended_tcp_header = Some(options),
            Tlv::SupportedTcpExtensions(kinds) => reply.supported_tcp_extensions = Some(kinds),
            Tlv::Error(tlv) => error = Some(tlv),
            Tlv::PathTrace(_) | Tlv::SourceRoute(_) | Tlv::Reuse | Tlv::Unknown { .. } => {}
            Tlv::Info | Tlv::Connect { .. } | Tlv::Cookie(_) => {
                return Err(MessageError::UnsupportedTlv(tlv.kind()));
            }
        }
    }
    let answer = error.map_or(Answer::Established(reply), Answer::Refused);
    Ok(Some((answer, consumed)))
}
