//! A client's first messages, read until they are whole.

use std::io;

use tokio::time::Instant;

use crate::session::Session;

/// Read at a time before the relay begins.
pub const PIECE: usize = 16 << 10;

/// Why a client's message did not come.
#[derive(Debug)]
pub enum Missing<F> {
    /// It is wrong.
    Fault(F),
    /// The client ended or broke off before it was whole.
    Gone,
    /// It took too long.
    Late,
    /// There is no memory left to wait for the rest of it.
    NoMemory,
}

impl<F> Missing<F> {
    /// For logs and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Fault(_) => "malformed",
            Self::Gone => "client-gone",
            Self::Late => "request-timed-out",
            Self::NoMemory => "buffers-full",
        }
    }
}

/// Reads until `parse` finds a message at the start of `inbox`, and takes it out of there; what follows it stays.
pub async fn message<T, F>(
    session: &Session,
    inbox: &mut Vec<u8>,
    deadline: Instant,
    parse: impl Fn(&[u8]) -> Result<Option<(T, usize)>, F>,
) -> Result<T, Missing<F>> {
    loop {
        if let Some((message, length)) = parse(inbox).map_err(Missing::Fault)? {
            // What came before a reset can still be read. The client may have asked another converter since.
            if matches!(session.stream.take_error(), Ok(Some(_))) {
                return Err(Missing::Gone);
            }
            inbox.drain(..length);
            session.reserve(inbox.len());
            return Ok(message);
        }
        if !session.reserve(inbox.len()) {
            return Err(Missing::NoMemory);
        }
        match session.stream.read_more(inbox, PIECE, Some(deadline)).await {
            Ok(0) => return Err(Missing::Gone),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::TimedOut => return Err(Missing::Late),
            Err(_) => return Err(Missing::Gone),
        }
    }
}
