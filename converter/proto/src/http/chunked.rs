//! The chunked transfer coding (RFC 9112 section 7.1), checked as it passes by.

use super::Refused;
use super::body::Step;
use super::grammar::{Reason, is_token_byte, is_value_byte};

/// Bytes of one chunk's extensions (RFC 9112 section 7.1.1: bounded).
pub const LONGEST_EXTENSION: u16 = 1024;

pub const LONGEST_TRAILERS: u16 = 8 * 1024;

const MOST_SIZE_DIGITS: u8 = 16;
const LARGEST_CHUNK: u64 = i64::MAX as u64; // parsers that keep it signed must read the same

/// Why the framing cannot be trusted; one sentence. Both connections close: nobody knows where the body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadChunk(
    /// One sentence.
    pub &'static str,
);

impl From<BadChunk> for Refused {
    /// For a request's body, while no response has begun.
    fn from(bad: BadChunk) -> Self {
        Self::bad_request(bad.0)
    }
}

/// A chunked body, followed through bytes that are cut anywhere. Between calls it keeps a few dozen bytes, no content.
#[derive(Clone, Debug)]
pub struct Chunked {
    state: State,
    /// The size of the chunk that is read, then what is left of it.
    left: u64,
    digits: u8,
    /// Bytes of this chunk's extensions, later of the trailer section.
    bounded: u16,
    name: TrailerName,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Size,
    ExtensionName { empty: bool },
    ExtensionValue { empty: bool },
    Quoted,
    QuotedEscape,
    AfterQuoted,
    SizeLineFeed,
    Data,
    DataReturn,
    DataLineFeed,
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerLineFeed,
    LastLineFeed,
    Ended,
    Failed(Reason),
}

impl Default for Chunked {
    fn default() -> Self {
        Self::new()
    }
}

impl Chunked {
    /// At the first byte after the head.
    pub const fn new() -> Self {
        Self {
            state: State::Size,
            left: 0,
            digits: 0,
            bounded: 0,
            name: TrailerName::new(),
        }
    }

    /// Whether the last chunk and its trailer section are through.
    pub fn has_ended(&self) -> bool {
        self.state == State::Ended
    }

    /// How many bytes of the chunk that is read are still to come.
    pub fn owes(&self) -> u64 {
        if self.state == State::Data { self.left } else { 0 }
    }

    /// Takes framing up to and including one stretch of content. The range lies within the bytes used and is empty when
    /// there was framing alone. After an error it gives that error again.
    pub fn step(&mut self, bytes: &[u8]) -> Result<Step, BadChunk> {
        let mut used = 0;
        while used < bytes.len() && !self.has_ended() {
            if self.state == State::Data {
                let start = used;
                used += self.take_data(bytes.len() - used);
                return Ok(Step {
                    used,
                    data: start..used,
                    ended: false,
                });
            }
            self.state = self.next(bytes[used]).unwrap_or_else(State::Failed);
            if let State::Failed(reason) = self.state {
                return Err(BadChunk(reason));
            }
            used += 1;
        }
        Ok(Step {
            used,
            data: used..used,
            ended: self.has_ended(),
        })
    }

    fn take_data(&mut self, available: usize) -> usize {
        let taken = available.min(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.left -= taken as u64;
        if self.left == 0 {
            self.state = State::DataReturn;
        }
        taken
    }

    fn next(&mut self, byte: u8) -> Result<State, Reason> {
        match self.state {
            State::Size => self.size(byte),
            State::ExtensionName { .. }
            | State::ExtensionValue { .. }
            | State::Quoted
            | State::QuotedEscape
            | State::AfterQuoted => self.extension(byte),
            State::SizeLineFeed => expect(byte, b'\n', self.after_size()),
            State::DataReturn => expect(byte, b'\r', State::DataLineFeed),
            State::DataLineFeed => expect(byte, b'\n', self.next_chunk()),
            State::TrailerStart | State::TrailerName | State::TrailerValue => self.trailer(byte),
            State::TrailerLineFeed => expect(byte, b'\n', State::TrailerStart),
            State::LastLineFeed => expect(byte, b'\n', State::Ended),
            State::Data | State::Ended => Ok(self.state), // no framing here
            State::Failed(reason) => Err(reason),
        }
    }

    /// 1*HEXDIG without sign, prefix or white space.
    fn size(&mut self, byte: u8) -> Result<State, Reason> {
        let Some(digit) = (byte as char).to_digit(16) else {
            return match byte {
                _ if self.digits == 0 => Err("malformed chunk size"),
                b'\r' => Ok(State::SizeLineFeed),
                b';' => Ok(State::ExtensionName { empty: true }),
                _ => Err("malformed chunk size"),
            };
        };
        self.digits += 1;
        self.left = (self.left << 4) | u64::from(digit);
        if self.digits > MOST_SIZE_DIGITS || self.left > LARGEST_CHUNK {
            return Err("chunk too large");
        }
        Ok(State::Size)
    }

    fn after_size(&mut self) -> State {
        self.bounded = 0;
        if self.left == 0 {
            State::TrailerStart
        } else {
            State::Data
        }
    }

    fn next_chunk(&mut self) -> State {
        self.digits = 0;
        State::Size
    }

    fn count(&mut self, bound: u16, too_long: Reason) -> Result<(), Reason> {
        self.bounded += 1;
        if self.bounded > bound { Err(too_long) } else { Ok(()) }
    }

    /// RFC 9112 section 7.1.1: `;name`, `;name=token` or `;name="quoted"`.
    fn extension(&mut self, byte: u8) -> Result<State, Reason> {
        self.count(LONGEST_EXTENSION, "chunk extensions too long")?;
        let next = match (self.state, byte) {
            (State::ExtensionName { .. }, byte) if is_token_byte(byte) => Some(State::ExtensionName { empty: false }),
            (State::ExtensionName { empty: false }, b'=') => Some(State::ExtensionValue { empty: true }),
            (State::ExtensionValue { .. }, byte) if is_token_byte(byte) => Some(State::ExtensionValue { empty: false }),
            (State::ExtensionValue { empty: true }, b'"') => Some(State::Quoted),
            (State::Quoted, b'"') => Some(State::AfterQuoted),
            (State::Quoted, b'\\') => Some(State::QuotedEscape),
            (State::Quoted | State::QuotedEscape, byte) if is_value_byte(byte) => Some(State::Quoted),
            (state, b';') if state.ends_an_extension() => Some(State::ExtensionName { empty: true }),
            (state, b'\r') if state.ends_an_extension() => Some(State::SizeLineFeed),
            _ => None,
        };
        next.ok_or("malformed chunk extension")
    }

    fn trailer(&mut self, byte: u8) -> Result<State, Reason> {
        self.count(LONGEST_TRAILERS, "trailer section too long")?;
        let next = match (self.state, byte) {
            (State::TrailerStart, b'\r') => Some(State::LastLineFeed),
            (State::TrailerStart, byte) if is_token_byte(byte) => {
                self.name = TrailerName::new();
                self.name.push(byte);
                Some(State::TrailerName)
            }
            (State::TrailerName, byte) if is_token_byte(byte) => {
                self.name.push(byte);
                Some(State::TrailerName)
            }
            (State::TrailerName, b':') => Some(self.name.check().map(|()| State::TrailerValue)?),
            (State::TrailerValue, b'\r') => Some(State::TrailerLineFeed),
            (State::TrailerValue, byte) if is_value_byte(byte) => Some(State::TrailerValue),
            _ => None,
        };
        next.ok_or("malformed trailer field")
    }
}

impl State {
    fn ends_an_extension(self) -> bool {
        matches!(
            self,
            Self::ExtensionName { empty: false } | Self::ExtensionValue { empty: false } | Self::AfterQuoted
        )
    }
}

fn expect(byte: u8, expected: u8, next: State) -> Result<State, Reason> {
    if byte == expected {
        Ok(next)
    } else {
        Err("malformed line end in a chunked body")
    }
}

/// As much of a trailer field's name as tells whether it may stand there.
#[derive(Clone, Debug)]
struct TrailerName {
    bytes: [u8; Self::LONGEST],
    len: u8,
}

/// RFC 9110 section 6.5.1: fields of framing and routing are none of a trailer's; merged into the head they would
/// change the message. With underscores, as gateways may read them.
const NOT_IN_TRAILERS: [&[u8]; 9] = [
    b"connection",
    b"content-length",
    b"content_length",
    b"host",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"transfer_encoding",
    b"upgrade",
];

impl TrailerName {
    const LONGEST: usize = 18; // one more than any name that is looked for

    const fn new() -> Self {
        Self {
            bytes: [0; Self::LONGEST],
            len: 0,
        }
    }

    fn push(&mut self, byte: u8) {
        if let Some(free) = self.bytes.get_mut(usize::from(self.len)) {
            *free = byte;
            self.len += 1;
        }
    }

    fn check(&self) -> Result<(), Reason> {
        let name = &self.bytes[..usize::from(self.len)];
        if NOT_IN_TRAILERS
            .iter()
            .any(|forbidden| name.eq_ignore_ascii_case(forbidden))
        {
            return Err("a trailer field that belongs into the head");
        }
        Ok(())
    }
}
