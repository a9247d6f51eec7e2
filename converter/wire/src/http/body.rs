//! What follows a head, and how much of it has gone by.

use super::chunked::{BadChunk, Chunked};
use super::step::Step;

/// The content of a message (RFC 9112 section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// Nothing follows.
    None,
    /// That many bytes, perhaps 0.
    Length(u64),
    /// Chunks up to a last one and its trailer section.
    Chunked,
    /// Everything until the connection closes; responses only.
    UntilClose,
}

impl Body {
    /// Whether bytes follow the head.
    pub fn has_content(self) -> bool {
        !matches!(self, Self::None | Self::Length(0))
    }
}

/// Follows a body through the bytes that come in, cut anywhere, without copying them.
#[derive(Clone, Debug)]
pub struct BodyReader(Progress);

#[derive(Clone, Debug)]
enum Progress {
    Left(u64),
    Chunked(Chunked),
    UntilClose,
}

impl BodyReader {
    /// A reader at the first byte after the head.
    pub fn new(body: Body) -> Self {
        Self(match body {
            Body::None => Progress::Left(0),
            Body::Length(length) => Progress::Left(length),
            Body::Chunked => Progress::Chunked(Chunked::new()),
            Body::UntilClose => Progress::UntilClose,
        })
    }

    /// Whether the body is complete; what follows belongs to the next message. At the end of the connection a body
    /// that has not ended is cut short, unless it is [`Body::UntilClose`].
    pub fn has_ended(&self) -> bool {
        match &self.0 {
            Progress::Left(left) => *left == 0,
            Progress::Chunked(chunked) => chunked.has_ended(),
            Progress::UntilClose => false,
        }
    }

    /// Whether the end of the connection is the end of the body.
    pub fn ends_with_the_connection(&self) -> bool {
        matches!(self.0, Progress::UntilClose)
    }

    /// How many bytes of it are known to be still to come, at least.
    pub fn owes(&self) -> u64 {
        match &self.0 {
            Progress::Left(left) => *left,
            Progress::Chunked(chunked) => chunked.owes(),
            Progress::UntilClose => u64::MAX,
        }
    }

    /// Takes one stretch of content and the framing before it; call again with the rest while bytes are left and the
    /// body has not ended.
    pub fn step(&mut self, bytes: &[u8]) -> Result<Step, BadChunk> {
        match &mut self.0 {
            Progress::Left(left) => {
                let used = bytes
                    .len()
                    .min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= used as u64;
                Ok(Step {
                    used,
                    data: 0..used,
                    ended: *left == 0,
                })
            }
            Progress::Chunked(chunked) => chunked.step(bytes),
            Progress::UntilClose => Ok(Step {
                used: bytes.len(),
                data: 0..bytes.len(),
                ended: false,
            }),
        }
    }

    /// Takes all that belongs to the body: how many bytes, to be relayed as they are. An error spoils all of `bytes`.
    pub fn advance(&mut self, bytes: &[u8]) -> Result<usize, BadChunk> {
        let mut used = 0;
        while used < bytes.len() && !self.has_ended() {
            used += self.step(&bytes[used..])?.used;
        }
        Ok(used)
    }
}
