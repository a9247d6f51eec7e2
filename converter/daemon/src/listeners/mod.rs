//! What clients speak: each file takes a session from its first byte to its end.

mod convert;
mod http;
mod refuse;
mod socks5;
mod transparent;

pub use refuse::refuse;

use std::future::Future;
use std::io;
use std::pin::Pin;

use tokio::time::Instant;

use crate::config::Kind;
use crate::session::Session;
use crate::streams::Stream;

/// Read at a time before the relay begins.
const PIECE: usize = 16 << 10;

/// Serves a session in its listener's protocol, to the end.
pub fn serve(session: Session) -> Pin<Box<dyn Future<Output = ()>>> {
    match session.listener.listen.kind {
        Kind::Http => Box::pin(http::serve(session)),
        Kind::Socks5 => Box::pin(socks5::serve(session)),
        Kind::Convert => Box::pin(convert::serve(session)),
        Kind::Transparent => Box::pin(transparent::serve(session)),
    }
}

/// Why a client's message did not come.
#[derive(Debug)]
enum Missing<F> {
    /// It is wrong.
    Fault(F),
    /// The client ended or broke off before it was whole.
    Gone,
    /// It took too long.
    Late,
}

impl<F> Missing<F> {
    /// For logs and metrics.
    fn name(&self) -> &'static str {
        match self {
            Self::Fault(_) => "malformed",
            Self::Gone => "client-gone",
            Self::Late => "request-timed-out",
        }
    }
}

/// Reads until `parse` finds a message at the start of `inbox`, and takes it out of there; what follows it stays.
async fn message<T, F>(
    stream: &Stream,
    inbox: &mut Vec<u8>,
    deadline: Instant,
    parse: impl Fn(&[u8]) -> Result<Option<(T, usize)>, F>,
) -> Result<T, Missing<F>> {
    loop {
        if let Some((message, length)) = parse(inbox).map_err(Missing::Fault)? {
            inbox.drain(..length);
            return Ok(message);
        }
        match stream.read_more(inbox, PIECE, Some(deadline)).await {
            Ok(0) => return Err(Missing::Gone),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::TimedOut => return Err(Missing::Late),
            Err(_) => return Err(Missing::Gone),
        }
    }
}
