//! The messages.

use std::fmt;
use std::net::SocketAddrV4;

use tributary_offload::Checkpoint;

/// One message. Answers come in any order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// What it is about: a hand-over's number, which its front never uses again. Of [`What::Hello`] the session's.
    pub id: u64,
    /// What it says.
    pub what: What,
}

/// What a message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// The first message each way on each connection. Its `id` is a number of the session that it begins or resumes.
    Hello {
        /// The number of the other end's last message that the sender has taken in this session; 0: the session is new to it.
        taken: u64,
    },
    /// The sender is alive.
    Alive {
        /// The number of the other end's last message that the sender has taken: it need not be kept any more.
        taken: u64,
    },
    /// Front to back end: go on with this connection.
    Hand {
        /// As the front had it, with its own addresses.
        frozen: Box<Checkpoint>,
        /// All that the client sent from the request's first byte on, and that was acknowledged.
        bytes: Vec<u8>,
    },
    /// Back end: the connection is mine.
    Taken,
    /// Back end or switch: it is not, or there is no such rule.
    Denied(Denial),
    /// Back end: the answers are sent and acknowledged. The front decides who serves what comes next.
    Returned {
        /// Bytes of the answers.
        sent: u64,
        /// With the back end's addresses.
        frozen: Box<Checkpoint>,
        /// What came behind the last request that was answered, and was acknowledged.
        bytes: Vec<u8>,
    },
    /// Back end: the answers are sent and acknowledged, the client has sent more, and its connection cannot leave: its
    /// client has ended its direction, for one. The front decides whether what comes next is for this back end.
    Stuck {
        /// Bytes of the answers.
        sent: u64,
        /// What came behind the last request that was answered, or its beginning.
        bytes: Vec<u8>,
    },
    /// Front, when a connection was returned or is stuck: keep it, you serve the next request too.
    Keep,
    /// Front, when a connection is stuck: end it in order, you have not what is asked for.
    Close,
    /// Front, when a connection was returned: it is mine. Answered by [`What::Done`], or by [`Denial::Late`].
    Released,
    /// Back end: it is about to end; hand nothing more to it.
    Leaving,
    /// Front: reset it, the client was told otherwise.
    Abort,
    /// Back end: the connection is over.
    Ended {
        /// Bytes of the answers.
        sent: u64,
    },
    /// Front to switch: from now on by this rule, whatever there was for this client and service.
    Install(Rule),
    /// Front to switch: no longer by this rule. If there is another one by now, of another number too, that one stays.
    Remove(Rule),
    /// Switch: it is so. Back end: what it returned was all that it had acknowledged.
    Done,
}

/// Packets from the client to the service go to the back end, and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    /// The client's address and port.
    pub client: SocketAddrV4,
    /// The address and port that it connected to.
    pub service: SocketAddrV4,
    /// The back end's address and port for connections that are handed to it.
    pub back_end: SocketAddrV4,
    /// The same for no other rule of any front's: a client uses its port again.
    pub number: u64,
}

/// Why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// There is no room for more.
    Full,
    /// The rule's service or back end is none that was configured.
    NotConfigured,
    /// The system refuses.
    System,
    /// It is about to end.
    Leaving,
    /// It has acknowledged more of the client's bytes than it returned: nobody can go on with the connection.
    Late,
    /// One that this version does not know.
    Unknown(u8),
}

impl Denial {
    /// As it stands in a message.
    pub fn code(self) -> u8 {
        match self {
            Self::Full => 1,
            Self::NotConfigured => 2,
            Self::System => 3,
            Self::Leaving => 4,
            Self::Late => 5,
            Self::Unknown(code) => code,
        }
    }

    /// The one with this code.
    pub fn from_code(code: u8) -> Self {
        match code {
            1 => Self::Full,
            2 => Self::NotConfigured,
            3 => Self::System,
            4 => Self::Leaving,
            5 => Self::Late,
            code => Self::Unknown(code),
        }
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("it has no room for more"),
            Self::NotConfigured => f.write_str("the address is none that it was told of"),
            Self::System => f.write_str("its system refuses"),
            Self::Leaving => f.write_str("it is about to end"),
            Self::Late => f.write_str("it acknowledged more than it returned"),
            Self::Unknown(code) => write!(f, "reason {code}"),
        }
    }
}
