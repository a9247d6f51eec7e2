//! Messages as bytes, in network byte order.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddrV4};

use tributary_offload::{Checkpoint, InvalidCheckpoint};

use crate::message::{Denial, Message, Rule, What};

const VERSION: u8 = 4;

// Where things are: the length of all that follows it, then these.
const LENGTH: usize = 4;
const VERSION_AT: usize = 4;
const KIND: usize = 5;
const ID: usize = 6;
const NUMBER: usize = 14;
const BODY: usize = 22;

/// Bytes that a client may have sent along with a request, at most; more is relayed.
pub const MOST_BYTES: usize = 1 << 20;
/// Bytes of the longest message.
pub const LONGEST: usize = BODY + SENT + Checkpoint::LENGTH + MOST_BYTES;

/// Bytes of [`What::Hello`], which is read alone.
pub const HELLO_LENGTH: usize = BODY + SENT;

const SENT: usize = 8;
const END: usize = 6;
const RULE: usize = 3 * END + 8;

// Kinds.
const HELLO: u8 = 1;
const ALIVE: u8 = 2;
const HAND: u8 = 3;
const TAKEN: u8 = 4;
const DENIED: u8 = 5;
const RETURNED: u8 = 6;
const KEEP: u8 = 7;
const RELEASED: u8 = 8;
const ABORT: u8 = 9;
const ENDED: u8 = 10;
const INSTALL: u8 = 11;
const REMOVE: u8 = 12;
const DONE: u8 = 13;
const STUCK: u8 = 14;
const CLOSE: u8 = 15;
const LEAVING: u8 = 16;

/// Why bytes are no message. Where the next one begins is not certain then: the connection is to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bad {
    /// It is of another version.
    Version(u8),
    /// There is no such kind.
    Kind(u8),
    /// Its length is not one that its kind can have.
    Length(usize),
    /// The connection in it is none.
    Checkpoint(InvalidCheckpoint),
}

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => write!(f, "a message of version {version}"),
            Self::Kind(kind) => write!(f, "a message of kind {kind}"),
            Self::Length(length) => write!(f, "a message of {length} bytes"),
            Self::Checkpoint(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for Bad {}

/// A message that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// Its number among its sender's messages of a session. [`What::Hello`] and [`What::Alive`] are not counted: the number is
    /// that of the last message before.
    pub number: u64,
    /// The message.
    pub message: Message,
    /// How many bytes it has.
    pub length: usize,
}

/// The message at the start of `bytes`; `None` while more bytes are needed.
pub fn parse(bytes: &[u8]) -> Result<Option<Parsed>, Bad> {
    let Some(length) = bytes.first_chunk() else {
        return Ok(None);
    };
    let length = LENGTH + u32::from_be_bytes(*length) as usize;
    if !(BODY..=LONGEST).contains(&length) {
        return Err(Bad::Length(length));
    }
    // Before it is waited for.
    match bytes.get(VERSION_AT) {
        Some(&VERSION) | None => {}
        Some(&version) => return Err(Bad::Version(version)),
    }
    let Some(whole) = bytes.get(..length) else {
        return Ok(None);
    };
    let count = |at| part(whole, at).map(u64::from_be_bytes);
    let (id, number) = count(ID).zip(count(NUMBER)).ok_or(Bad::Length(length))?;
    let what = what(whole[KIND], &whole[BODY..])?.ok_or(Bad::Length(length))?;
    let message = Message { id, what };
    Ok(Some(Parsed {
        number,
        message,
        length,
    }))
}

/// What a message of this kind says; `None` if `body` has not its length.
fn what(kind: u8, body: &[u8]) -> Result<Option<What>, Bad> {
    let alone = |what| Ok(body.is_empty().then_some(what));
    match kind {
        HELLO => Ok(count(body).map(|taken| What::Hello { taken })),
        ALIVE => Ok(count(body).map(|taken| What::Alive { taken })),
        TAKEN => alone(What::Taken),
        RELEASED => alone(What::Released),
        LEAVING => alone(What::Leaving),
        ABORT => alone(What::Abort),
        DONE => alone(What::Done),
        DENIED => Ok(match body {
            [code] => Some(What::Denied(Denial::from_code(*code))),
            _ => None,
        }),
        ENDED => Ok(count(body).map(|sent| What::Ended { sent })),
        HAND => Ok(connection(body)?.map(|(frozen, bytes)| What::Hand { frozen, bytes })),
        KEEP => alone(What::Keep),
        CLOSE => alone(What::Close),
        RETURNED => returned(body),
        STUCK => Ok(stuck(body)),
        INSTALL => Ok(rule(body).map(What::Install)),
        REMOVE => Ok(rule(body).map(What::Remove)),
        kind => Err(Bad::Kind(kind)),
    }
}

fn returned(body: &[u8]) -> Result<Option<What>, Bad> {
    let connection = connection(body.get(SENT..).unwrap_or_default())?;
    let whole = sent(body).zip(connection);
    Ok(whole.map(|(sent, (frozen, bytes))| What::Returned {
        sent,
        frozen,
        bytes,
    }))
}

fn stuck(body: &[u8]) -> Option<What> {
    let bytes = body.get(SENT..)?;
    (bytes.len() <= MOST_BYTES).then_some(What::Stuck {
        sent: sent(body)?,
        bytes: bytes.to_vec(),
    })
}

fn part<const SIZE: usize>(bytes: &[u8], at: usize) -> Option<[u8; SIZE]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn sent(body: &[u8]) -> Option<u64> {
    part(body, 0).map(u64::from_be_bytes)
}

/// The whole body.
fn count(body: &[u8]) -> Option<u64> {
    body.try_into().ok().map(u64::from_be_bytes)
}

type Connection = (Box<Checkpoint>, Vec<u8>);

fn connection(body: &[u8]) -> Result<Option<Connection>, Bad> {
    let Some(frozen) = part(body, 0) else {
        return Ok(None);
    };
    let frozen = Checkpoint::from_bytes(&frozen).map_err(Bad::Checkpoint)?;
    let bytes = &body[Checkpoint::LENGTH..];
    Ok((bytes.len() <= MOST_BYTES).then(|| (Box::new(frozen), bytes.to_vec())))
}

fn rule(body: &[u8]) -> Option<Rule> {
    let whole: [u8; RULE] = body.try_into().ok()?;
    Some(Rule {
        client: end(&whole, 0)?,
        service: end(&whole, END)?,
        back_end: end(&whole, 2 * END)?,
        number: u64::from_be_bytes(part(&whole, 3 * END)?),
    })
}

fn end(bytes: &[u8], at: usize) -> Option<SocketAddrV4> {
    let address = Ipv4Addr::from(part::<4>(bytes, at)?);
    let port = u16::from_be_bytes(part(bytes, at + 4)?);
    Some(SocketAddrV4::new(address, port))
}

impl Message {
    /// Appends it with this number. A client's bytes are at most [`MOST_BYTES`]: with more, nobody takes it.
    pub fn write(&self, number: u64, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0, 0, 0, 0, VERSION, self.what.kind()]);
        out.extend_from_slice(&self.id.to_be_bytes());
        out.extend_from_slice(&number.to_be_bytes());
        self.what.write(out);
        let length = u32::try_from(out.len() - start - LENGTH).unwrap_or(u32::MAX);
        out[start..start + LENGTH].copy_from_slice(&length.to_be_bytes());
    }
}

impl What {
    fn kind(&self) -> u8 {
        match self {
            Self::Hello { .. } => HELLO,
            Self::Alive { .. } => ALIVE,
            Self::Hand { .. } => HAND,
            Self::Taken => TAKEN,
            Self::Denied(_) => DENIED,
            Self::Returned { .. } => RETURNED,
            Self::Keep => KEEP,
            Self::Released => RELEASED,
            Self::Leaving => LEAVING,
            Self::Abort => ABORT,
            Self::Ended { .. } => ENDED,
            Self::Install(_) => INSTALL,
            Self::Remove(_) => REMOVE,
            Self::Done => DONE,
            Self::Stuck { .. } => STUCK,
            Self::Close => CLOSE,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Hand { frozen, bytes } => {
                out.extend_from_slice(&frozen.to_bytes());
                out.extend_from_slice(bytes);
            }
            Self::Returned {
                sent,
                frozen,
                bytes,
            } => {
                out.extend_from_slice(&sent.to_be_bytes());
                out.extend_from_slice(&frozen.to_bytes());
                out.extend_from_slice(bytes);
            }
            Self::Stuck { sent, bytes } => {
                out.extend_from_slice(&sent.to_be_bytes());
                out.extend_from_slice(bytes);
            }
            Self::Denied(denial) => out.push(denial.code()),
            Self::Hello { taken: count }
            | Self::Alive { taken: count }
            | Self::Ended { sent: count } => {
                out.extend_from_slice(&count.to_be_bytes());
            }
            Self::Install(rule) | Self::Remove(rule) => {
                for end in [rule.client, rule.service, rule.back_end] {
                    out.extend_from_slice(&end.ip().octets());
                    out.extend_from_slice(&end.port().to_be_bytes());
                }
                out.extend_from_slice(&rule.number.to_be_bytes());
            }
            _ => {}
        }
    }
}
