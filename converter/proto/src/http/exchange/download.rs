//! The response on its way to the client.

use super::super::{BodyReader, HeadReader, Response, chunked};
use super::Action;

#[derive(Clone, Debug)]
pub enum Download {
    /// Its final head has not come.
    Awaited {
        heads: HeadReader,
        /// Something has come.
        begun: bool,
        /// An interim response has been passed on, and the client may not have all of it.
        interim: bool,
    },
    Body {
        reader: BodyReader,
        decode: bool,
        kept: KeepAlive,
    },
    /// All of it has been passed on.
    Whole(KeepAlive),
    /// It was 101, and has been passed on.
    Switched { status: u16 },
}

/// What the head said of the time after the response.
#[derive(Clone, Copy, Debug)]
pub struct KeepAlive {
    pub status: u16,
    pub client: bool,
    pub server: bool,
}

impl Download {
    /// Nothing has come.
    pub fn new() -> Self {
        Self::Awaited {
            heads: HeadReader::new(),
            begun: false,
            interim: false,
        }
    }

    /// The final head has come.
    pub fn after(response: &Response) -> Self {
        let status = response.status;
        if response.switching_protocols {
            return Self::Switched { status };
        }
        let kept = KeepAlive {
            status,
            client: response.delivery.keep_alive,
            server: response.keep_alive,
        };
        let reader = BodyReader::new(response.body);
        if reader.has_ended() {
            return Self::Whole(kept);
        }
        Self::Body {
            reader,
            decode: response.delivery.decode,
            kept,
        }
    }

    /// Of the response, once its final head has come.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Awaited { .. } => None,
            Self::Body { kept, .. } | Self::Whole(kept) => Some(kept.status),
            Self::Switched { status } => Some(*status),
        }
    }
}

/// All of the body that `bytes` have; or, for a reader that knows no chunks, the next stretch of content.
pub fn take(reader: &mut BodyReader, decode: bool, bytes: &[u8]) -> Result<Action, chunked::BadChunk> {
    if decode {
        let step = reader.step(bytes)?;
        return Ok(Action::Pass {
            used: step.used,
            data: step.data,
        });
    }
    let used = reader.advance(bytes)?;
    Ok(Action::Pass { used, data: 0..used })
}
