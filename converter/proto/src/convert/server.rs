//! The converter's side: a request in, or the refusal that the client must get.

use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use super::error::ErrorTlv;
use super::header::{MessageError, VERSION, whole};
use super::message;
use super::option::{IGNORED, TcpOption};
use super::request::{Connect, Request};
use super::tlv::Tlv;

/// Why a message is refused, and what the client is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub fault: MessageError,
    /// What to send before closing; `None`: nothing, reset the connection.
    pub error: Option<ErrorTlv>,
}

/// Parses the request that `bytes`, all that a client has sent so far, begin with. Returns it and
/// its length in bytes: what follows is the client's data for the server. `None`: need more; at
/// most [`message::MAX_LENGTH`] bytes are ever needed.
///
/// `supported` are the kinds of TCP options that a Connect TLV may ask for, which are those that
/// the converter announces: [`super::SUPPORTED_TCP_EXTENSIONS`], or less. They are taken without
/// a value only: RFC 8803 section 6.2.5 wants a value copied into the SYN to the server, which a
/// socket cannot do, and sections 7.4 and 7.5 want none.
///
/// An unsupported version is refused as soon as its header is there, all else when the message
/// is. Cookies are not checked here: see [`super::CookieKeys`].
pub fn parse(bytes: &[u8], supported: &[u8]) -> Result<Option<(Request, usize)>, Refusal> {
    let Some(message) = whole(bytes).map_err(|fault| refuse(fault, &[]))? else {
        return Ok(None);
    };
    let request = parse_whole(message, supported).map_err(|fault| refuse(fault, message))?;
    Ok(Some((request, message.len())))
}

fn parse_whole(message: &[u8], supported: &[u8]) -> Result<Request, MessageError> {
    let (tlvs, _) = message::parse(message)?.expect("the message is whole");
    let mut request = Request::default();
    for tlv in tlvs {
        match tlv {
            Tlv::Info => request.info = true,
            Tlv::Connect { peer, options } => request.connect = Some(connect(peer, options)?),
            Tlv::Cookie(cookie) => request.cookie = Some(cookie),
            Tlv::PathTrace(numbers) => request.path_trace = numbers,
            Tlv::Reuse => request.reuse = true,
            Tlv::SourceRoute(converters) => {
                let source_route = converters.into_iter().map(canonical);
                request.source_route = Some(source_route.collect::<Result<_, _>>()?);
            }
            // RFC 8803 section 6.2.8: "valid messages but with invalid or unknown TLVs".
            other => return Err(MessageError::UnsupportedTlv(other.kind())),
        }
    }
    check_options(&request, supported)?;
    // RFC 8803 section 6: the fixed header is "followed by one or more Convert TLVs". SYNs
    // without any SHOULD be ignored, but a program sees a connection only when it stands; so an
    // empty message, and a cookie alone, are answered as malformed.
    if !request.info && request.connect.is_none() {
        return Err(MessageError::NothingAsked);
    }
    Ok(request)
}

fn connect(peer: SocketAddrV6, options: Option<Vec<TcpOption>>) -> Result<Connect, MessageError> {
    let target = canonical(peer)?;
    let kept = |options: Vec<TcpOption>| {
        // RFC 8803 sections 7.1 to 7.3: kinds 0, 1, 2, 3 and 5 MUST be ignored.
        options
            .into_iter()
            .filter(|option| !IGNORED.contains(&option.kind))
            .collect()
    };
    Ok(Connect {
        target,
        options: options.map(kept),
    })
}

/// The peer's address: IPv4 where it is IPv4-mapped.
fn canonical(peer: SocketAddrV6) -> Result<SocketAddr, MessageError> {
    let address = SocketAddr::new(peer.ip().to_canonical(), peer.port());
    if address.port() == 0 || !can_be_peer(address.ip()) {
        return Err(MessageError::Peer(peer));
    }
    Ok(address)
}

/// RFC 8803 section 6.2.5: no multicast, broadcast or host loopback address. The unspecified
/// address is refused with them, because connecting to it reaches the host itself.
fn can_be_peer(address: IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    !(address.is_multicast() || address.is_loopback() || address.is_unspecified() || broadcast)
}

/// RFC 8803 section 6.2.5: the list of all options that are not supported goes back. TCP-AO is
/// refused (section 7.7) even when `supported` has it.
fn check_options(request: &Request, supported: &[u8]) -> Result<(), MessageError> {
    let mut refused = Vec::new();
    for option in request
        .connect
        .iter()
        .flat_map(|connect| connect.options.iter().flatten())
    {
        let taken =
            supported.contains(&option.kind) && option.value.is_empty() && !super::option::never_announced(option.kind);
        if !taken && !refused.contains(&option.kind) {
            refused.push(option.kind);
        }
    }
    if refused.is_empty() {
        Ok(())
    } else {
        Err(MessageError::UnsupportedTcpOptions(refused))
    }
}

fn refuse(fault: MessageError, message: &[u8]) -> Refusal {
    let error = match &fault {
        // RFC 8803 section 6.1: a Total Length of zero MUST get a reset. So does what is not
        // Convert: its sender would not understand an Error TLV.
        MessageError::NotConvert | MessageError::ZeroTotalLength => None,
        MessageError::Version(_) => Some(ErrorTlv::UnsupportedVersion(vec![VERSION])),
        // RFC 8803 section 6.2.2: type 0 MUST get Unsupported Message.
        MessageError::ReservedTlv | MessageError::UnsupportedTlv(_) => {
            Some(ErrorTlv::UnsupportedMessage(message.to_vec()))
        }
        MessageError::UnsupportedTcpOptions(kinds) => Some(ErrorTlv::UnsupportedTcpOption(kinds.clone())),
        // RFC 8803 section 6.2.1: duplicates MUST get Malformed Message; section 6.2.5: so do
        // invalid addresses.
        MessageError::TlvLength(_)
        | MessageError::DuplicateTlv(_)
        | MessageError::TcpOptionLength(_)
        | MessageError::Peer(_)
        | MessageError::NothingAsked => Some(ErrorTlv::MalformedMessage(message.to_vec())),
    };
    Refusal { fault, error }
}
