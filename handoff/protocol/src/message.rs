use std::net::SocketAddrV4;

use thiserror::Error;
use tributary_offload::Checkpoint;

/// A message. Replies may come in any order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The hand-over's number, which its front never uses again; in [`Payload::Hello`] the session's number.
    pub id: u64,
    pub payload: Payload,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// The first message in each direction on each connection. Its `id` is the number of the session to begin or resume.
    Hello {
        /// The last message of the peer's that the sender received in this session; 0 if the session is new to it.
        acknowledged: u64,
    },
    /// Sent regularly while a connection stands.
    Heartbeat {
        /// The last message of the peer's that the sender received.
        acknowledged: u64,
    },
    /// Front to back end: restore this connection, and wait with it for [`Payload::Serve`] or [`Payload::Release`].
    HandOver {
        /// As the front had it, with the front's addresses.
        checkpoint: Box<Checkpoint>,
        /// The bytes of the request received so far, which are acknowledged.
        bytes: Vec<u8>,
    },
    /// Front, about a connection that it has handed over: the switch has the rule, serve it. The reply is
    /// [`Payload::Accepted`].
    Serve,
    /// Back end: it has taken the connection over.
    Accepted,
    /// Back end or switch: it has not, or the rule is not installed.
    Rejected(Rejection),
    /// Back end: the answers are sent and acknowledged, and the connection is returned. The front decides who serves the
    /// next request.
    Returned {
        /// Bytes of the answers.
        sent: u64,
        /// With the back end's addresses.
        checkpoint: Box<Checkpoint>,
        /// The acknowledged bytes after the last answered request.
        bytes: Vec<u8>,
    },
    /// Back end: the answers are sent and acknowledged, the client has sent more, and its connection cannot be detached,
    /// for example since the client has ended its direction. The front decides whether the next request is for this back
    /// end.
    Undetachable {
        /// Bytes of the answers.
        sent: u64,
        /// The bytes after the last answered request, or their beginning.
        bytes: Vec<u8>,
    },
    /// Front, about a returned or undetachable connection: serve the next request, too.
    Keep,
    /// Front, about an undetachable connection: close it, the next request is not for this back end.
    Close,
    /// Front, about a returned connection, or one that is not to be served: the front has it. The reply is
    /// [`Payload::Done`] or [`Rejection::Late`].
    Release,
    /// Back end: it is about to stop; it takes no more connections.
    Draining,
    /// Front: reset the connection, its client is lost.
    Abort,
    /// Back end: the connection is closed.
    Closed {
        /// Bytes of the answers.
        sent: u64,
    },
    /// Front to switch: install this rule in place of any other for this client and service.
    Install(Rule),
    /// Front to switch: remove this rule. A newer one with another number stays.
    Remove(Rule),
    /// Switch: done. Back end: it returned everything that it had acknowledged.
    Done,
}

/// Forwards a client's packets for the service to a back end, and that one's replies to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    pub client: SocketAddrV4,
    /// The address that the client connected to.
    pub service: SocketAddrV4,
    /// The back end's hand-off address.
    pub back_end: SocketAddrV4,
    /// Unique among all rules of all fronts, since a client may use its port again.
    pub number: u64,
}

/// Why not.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Rejection {
    #[error("it is full")]
    Full,
    /// Of a rule: its service or its back end.
    #[error("the address is not configured")]
    NotConfigured,
    #[error("its system refuses")]
    System,
    #[error("it is draining")]
    Draining,
    /// So nobody can continue the connection.
    #[error("it acknowledged more than it returned")]
    Late,
    /// From a newer version.
    #[error("reason {0}")]
    Unknown(u8),
}

impl Rejection {
    pub fn code(self) -> u8 {
        match self {
            Self::Full => 1,
            Self::NotConfigured => 2,
            Self::System => 3,
            Self::Draining => 4,
            Self::Late => 5,
            Self::Unknown(code) => code,
        }
    }

    pub fn from_code(code: u8) -> Self {
        match code {
            1 => Self::Full,
            2 => Self::NotConfigured,
            3 => Self::System,
            4 => Self::Draining,
            5 => Self::Late,
            code => Self::Unknown(code),
        }
    }
}
