//! What clients speak: each file takes a connection from its first byte to its end.

pub mod convert;
pub mod handoff;
pub mod http;
pub mod socks5;
pub mod transparent;

use std::io;

use tokio::time::Instant;
use tributary_proto::convert::ErrorTlv;
use tributary_proto::socks5::AuthMethod;

use crate::config::ListenerKind;
use crate::io::conn::Conn;
use crate::policy::admission::NotAdmitted;

/// What a client hears that is refused before it said anything: in its own protocol, so that it knows why. `None`: a reset.
pub fn refuse(kind: &ListenerKind, refusal: NotAdmitted) -> Option<Vec<u8>> {
    match kind {
        ListenerKind::Http | ListenerKind::Handoff => Some(http::refusal(refusal)),
        ListenerKind::Socks5(_) => Some(AuthMethod::NoneAcceptable.encode().to_vec()),
        ListenerKind::Convert(_) => Some(convert_error(refusal).encode()),
        ListenerKind::Transparent(_) => None,
    }
}

fn convert_error(refusal: NotAdmitted) -> ErrorTlv {
    match refusal {
        NotAdmitted::UnknownClient => ErrorTlv::NotAuthorized,
        NotAdmitted::Full | NotAdmitted::Buffered => ErrorTlv::ResourceExceeded { delay: FULL },
        NotAdmitted::ClientFull | NotAdmitted::ClientBuffered => ErrorTlv::ResourceExceeded { delay: SHORT },
    }
}

/// Seconds for which a client that speaks Convert is to go other ways since this converter is full (RFC 8803 section 6.2.8).
/// To name none means 30 at least to other makes, and to ours that other requests may fare better.
const FULL: u8 = 5;
/// The same where the client has its share, or what is lacking may be there again in a moment.
const SHORT: u8 = 1;

/// Bytes of one read before the relay begins.
pub const PIECE: usize = 16 << 10;

/// Why no message could be read from a client.
#[derive(Debug)]
pub enum ReadMessageError<F> {
    Fault(F),
    /// The client ended or reset the connection before it was complete.
    ClientGone,
    TimedOut,
    NoMemory,
}

impl<F> ReadMessageError<F> {
    /// For logs and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Fault(_) => "malformed",
            Self::ClientGone => "client-gone",
            Self::TimedOut => "request-timed-out",
            Self::NoMemory => "buffers-full",
        }
    }
}

/// Reads until `parse` finds a message at the start of `inbox`, and removes it from there. Later bytes stay.
pub async fn read_message<T, F>(
    conn: &Conn,
    inbox: &mut Vec<u8>,
    deadline: Instant,
    parse: impl Fn(&[u8]) -> Result<Option<(T, usize)>, F>,
) -> Result<T, ReadMessageError<F>> {
    loop {
        if let Some((message, length)) = parse(inbox).map_err(ReadMessageError::Fault)? {
            // What came before a reset can still be read. The client may have asked another converter since.
            if matches!(conn.stream.take_error(), Ok(Some(_))) {
                return Err(ReadMessageError::ClientGone);
            }
            inbox.drain(..length);
            conn.permit.reserve(inbox.len());
            return Ok(message);
        }
        if !conn.permit.reserve(inbox.len()) {
            return Err(ReadMessageError::NoMemory);
        }
        match conn.stream.read_more(inbox, PIECE, Some(deadline)).await {
            Ok(0) => return Err(ReadMessageError::ClientGone),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                return Err(ReadMessageError::TimedOut);
            }
            Err(_) => return Err(ReadMessageError::ClientGone),
        }
    }
}
