//! What happens in an exchange, what is to be done about it, and how it ends.

use std::io;
use std::ops::Range;

use super::super::Refused;

/// What happened on one of the connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input<'a> {
    /// These bytes are the next that came, one at least.
    Bytes(&'a [u8]),
    /// The peer ended its direction; all that it sent was shown.
    End,
    Reset,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The client sent more of its request's body, or ended.
    Client(Input<'a>),
    /// The server sent more of its response, or ended.
    Server(Input<'a>),
    /// The server's connection has taken all that was passed on to it so far: what it has taken it delivers, or breaks.
    RequestFlushed,
    /// The server takes no more of the request. It may have said why before.
    UpstreamWriteFailed {
        /// The connection broke ([`is_break`]), and the end of what is read from it, which says so no more, is none.
        broke: bool,
    },
    /// What the server's connection goes by is known to hang: nothing will come by it.
    ServerUnavailable,
    /// The client has all that was passed on to it so far. To be told whenever something has moved, either way.
    ResponseFlushed,
    /// Nothing moved for as long as it may take. Whether that is for the server's not taking the request's body.
    IdleTimeout {
        /// Bytes for the server wait.
        upstream_blocked: bool,
    },
}

/// Whether a write that failed so found the connection broken. Where the peer had ended in order before, the error is EPIPE
/// (`tcp_reset()` in the kernel's `net/ipv4/tcp_input.c`).
pub fn is_break(error: &io::Error) -> bool {
    error.kind() != io::ErrorKind::BrokenPipe
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing yet. Bytes that were shown are to be shown again, with more behind them.
    Wait,
    /// So many of the bytes were a head. What goes on of it is in `out`.
    Head(usize),
    /// So many of the bytes were used; this part of them goes to the other side.
    Pass {
        /// From their start.
        used: usize,
        /// Within those.
        data: Range<usize>,
    },
    /// It is over. No event has a meaning any more.
    End(ExchangeResult),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExchangeResult {
    /// The client has the whole response.
    Completed(Completed),
    /// The server had been about to end a connection that was kept: nothing is lost if the request is sent to a new one (RFC
    /// 9112 section 9.3.1, RFC 9110 section 9.2.2).
    Retry,
    /// The client is told why; the server's connection breaks.
    Refused(Refused),
    /// The client can only be told by a reset; the server's connection breaks as well.
    Aborted {
        /// Of the response that had begun.
        status: Option<u16>,
        fault: Fault,
    },
    /// Both connections carry another protocol now.
    Upgraded {
        /// Of the response: 101.
        status: u16,
    },
}

/// An exchange whose response the client has to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    pub status: u16,
    pub client: ClientAfter,
    pub server: ServerAfter,
}

/// What becomes of the client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAfter {
    Keep,
    /// It ends, and the client, which announced so, sends no more.
    Close,
    /// It ends, and what the client still sends is taken for a while: a reset could destroy the response (RFC 9112
    /// section 9.6).
    Linger,
}

/// What becomes of the server's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerAfter {
    /// It may serve another request, of any client.
    Keep,
    KeepForClient,
    Close,
    /// It breaks: the server shall not take a part of the request for the whole.
    Reset,
}

/// What broke a response that had begun, or a request that nobody can answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The client broke off, or ended within its request.
    ClientReset,
    /// The server broke off, or ended within its response.
    ServerReset,
    BadRequest,
    MalformedBody,
    IdleTimeout,
}

impl Fault {
    /// For logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ClientReset => "client-reset",
            Self::ServerReset => "server-reset",
            Self::BadRequest => "bad-request",
            Self::MalformedBody => "malformed-content",
            Self::IdleTimeout => "idle-timeout",
        }
    }
}
