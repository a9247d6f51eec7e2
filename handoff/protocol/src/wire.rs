//! Messages as bytes, in network byte order.

use std::net::{Ipv4Addr, SocketAddrV4};

use thiserror::Error;
use tributary_offload::{Checkpoint, InvalidCheckpoint};

use crate::message::{Message, Payload, Rejection, Rule};

const VERSION: u8 = 5;

// Offsets; the length counts what follows it.
const LENGTH: usize = 4;
const VERSION_AT: usize = 4;
const KIND: usize = 5;
const ID: usize = 6;
const NUMBER: usize = 14;
const BODY: usize = 22;

/// The most bytes of a client's that a message carries; requests with more are relayed.
pub const MAX_CLIENT_BYTES: usize = 1 << 20;
pub const MAX_MESSAGE_LENGTH: usize = BODY + COUNT + Checkpoint::LENGTH + MAX_CLIENT_BYTES;

/// The length of [`Payload::Hello`], which is read on its own.
pub const HELLO_LENGTH: usize = BODY + COUNT;

const COUNT: usize = 8;
const ENDPOINT: usize = 6;
const RULE: usize = 3 * ENDPOINT + 8;

const HELLO: u8 = 1;
const HEARTBEAT: u8 = 2;
const HAND_OVER: u8 = 3;
const ACCEPTED: u8 = 4;
const REJECTED: u8 = 5;
const RETURNED: u8 = 6;
const KEEP: u8 = 7;
const RELEASE: u8 = 8;
const ABORT: u8 = 9;
const CLOSED: u8 = 10;
const INSTALL: u8 = 11;
const REMOVE: u8 = 12;
const DONE: u8 = 13;
const UNDETACHABLE: u8 = 14;
const CLOSE: u8 = 15;
const DRAINING: u8 = 16;
const SERVE: u8 = 17;

/// Why bytes are no message. The connection must then be closed, since the beginning of the next message is unknown.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum ParseError {
    #[error("a message of version {0}")]
    Version(u8),
    #[error("a message of kind {0}")]
    Kind(u8),
    /// Its kind cannot have this length.
    #[error("a message of {0} bytes")]
    Length(usize),
    #[error("{0}")]
    Checkpoint(InvalidCheckpoint),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// Its number among the sender's messages of the session. [`Payload::Hello`] and [`Payload::Heartbeat`] are not
    /// counted, and have the number of the message before.
    pub number: u64,
    pub message: Message,
    pub length: usize,
}

/// Parses the message at the start of `bytes`; `None` while it is incomplete.
pub fn parse(bytes: &[u8]) -> Result<Option<Parsed>, ParseError> {
    let Some(length) = bytes.first_chunk() else {
        return Ok(None);
    };
    let length = LENGTH + u32::from_be_bytes(*length) as usize;
    if !(BODY..=MAX_MESSAGE_LENGTH).contains(&length) {
        return Err(ParseError::Length(length));
    }
    // Checked before the rest is waited for.
    match bytes.get(VERSION_AT) {
        Some(&VERSION) | None => {}
        Some(&version) => return Err(ParseError::Version(version)),
    }
    let Some(whole) = bytes.get(..length) else {
        return Ok(None);
    };
    let count = |at| array(whole, at).map(u64::from_be_bytes);
    let (id, number) = count(ID).zip(count(NUMBER)).ok_or(ParseError::Length(length))?;
    let payload = payload(whole[KIND], &whole[BODY..])?.ok_or(ParseError::Length(length))?;
    let message = Message { id, payload };
    Ok(Some(Parsed {
        number,
        message,
        length,
    }))
}

/// Parses the body of a message of this kind; `None` if its length is wrong.
fn payload(kind: u8, body: &[u8]) -> Result<Option<Payload>, ParseError> {
    let alone = |payload| Ok(body.is_empty().then_some(payload));
    match kind {
        HELLO => Ok(count(body).map(|acknowledged| Payload::Hello { acknowledged })),
        HEARTBEAT => Ok(count(body).map(|acknowledged| Payload::Heartbeat { acknowledged })),
        SERVE => alone(Payload::Serve),
        ACCEPTED => alone(Payload::Accepted),
        RELEASE => alone(Payload::Release),
        DRAINING => alone(Payload::Draining),
        ABORT => alone(Payload::Abort),
        DONE => alone(Payload::Done),
        REJECTED => Ok(match body {
            [code] => Some(Payload::Rejected(Rejection::from_code(*code))),
            _ => None,
        }),
        CLOSED => Ok(count(body).map(|sent| Payload::Closed { sent })),
        HAND_OVER => Ok(connection(body)?.map(|(checkpoint, bytes)| Payload::HandOver { checkpoint, bytes })),
        KEEP => alone(Payload::Keep),
        CLOSE => alone(Payload::Close),
        RETURNED => returned(body),
        UNDETACHABLE => Ok(undetachable(body)),
        INSTALL => Ok(rule(body).map(Payload::Install)),
        REMOVE => Ok(rule(body).map(Payload::Remove)),
        kind => Err(ParseError::Kind(kind)),
    }
}

fn returned(body: &[u8]) -> Result<Option<Payload>, ParseError> {
    let connection = connection(body.get(COUNT..).unwrap_or_default())?;
    let whole = sent(body).zip(connection);
    Ok(whole.map(|(sent, (checkpoint, bytes))| Payload::Returned {
        sent,
        checkpoint,
        bytes,
    }))
}

fn undetachable(body: &[u8]) -> Option<Payload> {
    let bytes = body.get(COUNT..)?;
    (bytes.len() <= MAX_CLIENT_BYTES).then_some(Payload::Undetachable {
        sent: sent(body)?,
        bytes: bytes.to_vec(),
    })
}

fn array<const SIZE: usize>(bytes: &[u8], at: usize) -> Option<[u8; SIZE]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn sent(body: &[u8]) -> Option<u64> {
    array(body, 0).map(u64::from_be_bytes)
}

/// The whole body.
fn count(body: &[u8]) -> Option<u64> {
    body.try_into().ok().map(u64::from_be_bytes)
}

type Connection = (Box<Checkpoint>, Vec<u8>);

fn connection(body: &[u8]) -> Result<Option<Connection>, ParseError> {
    let Some(checkpoint) = array(body, 0) else {
        return Ok(None);
    };
    let checkpoint = Checkpoint::from_bytes(&checkpoint).map_err(ParseError::Checkpoint)?;
    let bytes = &body[Checkpoint::LENGTH..];
    Ok((bytes.len() <= MAX_CLIENT_BYTES).then(|| (Box::new(checkpoint), bytes.to_vec())))
}

fn rule(body: &[u8]) -> Option<Rule> {
    let whole: [u8; RULE] = body.try_into().ok()?;
    Some(Rule {
        client: endpoint(&whole, 0)?,
        service: endpoint(&whole, ENDPOINT)?,
        back_end: endpoint(&whole, 2 * ENDPOINT)?,
        number: u64::from_be_bytes(array(&whole, 3 * ENDPOINT)?),
    })
}

fn endpoint(bytes: &[u8], at: usize) -> Option<SocketAddrV4> {
    let address = Ipv4Addr::from(array::<4>(bytes, at)?);
    let port = u16::from_be_bytes(array(bytes, at + 4)?);
    Some(SocketAddrV4::new(address, port))
}

impl Message {
    /// Appends the message with this number. The peer refuses more than [`MAX_CLIENT_BYTES`] bytes of a client's.
    pub fn write(&self, number: u64, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0, 0, 0, 0, VERSION, self.payload.kind()]);
        out.extend_from_slice(&self.id.to_be_bytes());
        out.extend_from_slice(&number.to_be_bytes());
        self.payload.write(out);
        let length = u32::try_from(out.len() - start - LENGTH).unwrap_or(u32::MAX);
        out[start..start + LENGTH].copy_from_slice(&length.to_be_bytes());
    }
}

impl Payload {
    fn kind(&self) -> u8 {
        match self {
            Self::Hello { .. } => HELLO,
            Self::Heartbeat { .. } => HEARTBEAT,
            Self::HandOver { .. } => HAND_OVER,
            Self::Serve => SERVE,
            Self::Accepted => ACCEPTED,
            Self::Rejected(_) => REJECTED,
            Self::Returned { .. } => RETURNED,
            Self::Keep => KEEP,
            Self::Release => RELEASE,
            Self::Draining => DRAINING,
            Self::Abort => ABORT,
            Self::Closed { .. } => CLOSED,
            Self::Install(_) => INSTALL,
            Self::Remove(_) => REMOVE,
            Self::Done => DONE,
            Self::Undetachable { .. } => UNDETACHABLE,
            Self::Close => CLOSE,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::HandOver { checkpoint, bytes } => {
                out.extend_from_slice(&checkpoint.to_bytes());
                out.extend_from_slice(bytes);
            }
            Self::Returned {
                sent,
                checkpoint,
                bytes,
            } => {
                out.extend_from_slice(&sent.to_be_bytes());
                out.extend_from_slice(&checkpoint.to_bytes());
                out.extend_from_slice(bytes);
            }
            Self::Undetachable { sent, bytes } => {
                out.extend_from_slice(&sent.to_be_bytes());
                out.extend_from_slice(bytes);
            }
            Self::Rejected(rejection) => out.push(rejection.code()),
            Self::Hello { acknowledged: count }
            | Self::Heartbeat { acknowledged: count }
            | Self::Closed { sent: count } => {
                out.extend_from_slice(&count.to_be_bytes());
            }
            Self::Install(rule) | Self::Remove(rule) => {
                for endpoint in [rule.client, rule.service, rule.back_end] {
                    out.extend_from_slice(&endpoint.ip().octets());
                    out.extend_from_slice(&endpoint.port().to_be_bytes());
                }
                out.extend_from_slice(&rule.number.to_be_bytes());
            }
            _ => {}
        }
    }
}
