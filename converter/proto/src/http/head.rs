//! Where a head ends, found line by line as bytes come in, each byte looked at once.

use std::ops::Range;
use std::time::SystemTime;

use memchr::memchr2;

use super::grammar::is_token_byte;
use super::request::Request;
use super::response::{BadResponse, Response, ResponseWriter};
use super::{Pseudonym, Refused, RequestContext, Version};

/// The bound on a head, and what this proxy says of itself and of its connections.
#[derive(Clone, Debug)]
pub struct HeadLimits {
    /// Bytes of a head, its last empty line included, however many lines it has; more is refused with 431, or with 414 when
    /// the first line alone is longer. At least 8000 is recommended (RFC 9112 section 3). Less than 4 GiB.
    pub head: usize,
    /// The name that is added to Via; a request whose Via has it was here before, and is refused with 508. It must be unique
    /// to this process. Without one, Via is passed on as it came.
    pub pseudonym: Option<Pseudonym>,
    /// Whether a server's connection outlives the client's: the server is then not told that a request is the last, if other
    /// clients may use the connection behind it.
    pub outlives_client: bool,
}

impl HeadLimits {
    /// Writes our own entry of Via, if we have a name.
    pub(crate) fn write_via(&self, version: Version, out: &mut Vec<u8>) {
        if let Some(pseudonym) = &self.pseudonym {
            pseudonym.write(version, out);
        }
    }

    /// Bytes of a head of `received` bytes that is passed on, at most.
    pub(crate) fn forwarded_len(&self, received: usize) -> usize {
        received + ADDED + self.pseudonym.as_ref().map_or(0, |name| name.as_str().len())
    }
}

/// What we add to a head at most, the pseudonym apart.
const ADDED: usize = 160;

impl Default for HeadLimits {
    /// 64 KiB of head, no name, and a connection to the server for each client.
    fn default() -> Self {
        Self {
            head: 64 * 1024,
            pseudonym: None,
            outlives_client: false,
        }
    }
}

/// Finds and parses the heads of one connection, one after the other. Call it with all bytes since the end of the last
/// message; when it wants more, call it again with the same bytes and more after them. It remembers what it has seen,
/// so that a head that comes byte by byte costs no more than one that comes whole. After an error it gives that error again.
#[derive(Clone, Debug, Default)]
pub struct HeadReader {
    /// Where the first line begins, after empty lines.
    start: usize,
    line_start: usize,
    scanned: usize,
    /// Lines that ended, the first line included.
    lines: usize,
    empty_lines: usize,
    /// The error that was returned, and is from now on.
    failed: Option<Refused>,
}

/// The request at the start of `bytes` and the length of its head, `None` when more bytes are needed. For bytes that come
/// in pieces, [`HeadReader`] does the same without looking at any byte twice.
pub fn parse_request(bytes: &[u8], limits: &HeadLimits) -> Result<Option<(Request, usize)>, Refused> {
    HeadReader::new().request(bytes, limits)
}

/// RFC 9112 section 2.2: at least one empty line before a request is ignored.
const MOST_EMPTY_LINES: usize = 2;

impl HeadReader {
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether a message has begun, so that an end of the connection or a timeout now cuts it short.
    pub fn has_begun(&self) -> bool {
        self.scanned > self.start
    }

    /// The next request and how many bytes its head took, or `None` while it is incomplete.
    pub fn request(&mut self, bytes: &[u8], limits: &HeadLimits) -> Result<Option<(Request, usize)>, Refused> {
        let parse = |head: &[u8]| Request::from_head(head, limits);
        let read = self.read(bytes, limits.head, MOST_EMPTY_LINES, parse);
        read.map_err(|refused| refused.to_head(bytes[self.start..].starts_with(b"HEAD ")))
    }

    /// The next response head, answering what `awaited` tells of, and how many bytes it took, or `None` while it is
    /// incomplete. What the client gets of it is appended to `out`, with a Date by `clock` if the origin server gave none.
    pub fn response(
        &mut self,
        bytes: &[u8],
        awaited: RequestContext,
        limits: &HeadLimits,
        clock: fn() -> SystemTime,
        out: &mut Vec<u8>,
    ) -> Result<Option<(Response, usize)>, BadResponse> {
        let writer = ResponseWriter {
            awaited,
            limits,
            clock,
            out,
        };
        let parse = |head: &[u8]| writer.forward(head).map_err(Refused::from);
        self.read(bytes, limits.head, 0, parse)
            .map_err(|refused| BadResponse(refused.reason))
    }

    /// Parses the head once it is whole, and is then at the start of the next message.
    fn read<T>(
        &mut self,
        bytes: &[u8],
        most: usize,
        most_empty_lines: usize,
        parse: impl FnOnce(&[u8]) -> Result<T, Refused>,
    ) -> Result<Option<(T, usize)>, Refused> {
        if let Some(refused) = self.failed {
            return Err(refused);
        }
        if self.scanned == bytes.len() {
            return Ok(None); // nothing has come since
        }
        let found = self.find_end(bytes, most, most_empty_lines);
        let read = found.and_then(|found| match found {
            Some(head) => parse(&bytes[head.clone()]).map(|message| Some((message, head.end))),
            None => Ok(None),
        });
        match &read {
            Ok(Some(_)) => *self = Self::new(),
            Ok(None) => {}
            Err(refused) => self.failed = Some(*refused),
        }
        read
    }

    fn find_end(
        &mut self,
        bytes: &[u8],
        most: usize,
        most_empty_lines: usize,
    ) -> Result<Option<Range<usize>>, Refused> {
        loop {
            self.check_first_byte(bytes)?;
            let rest = &bytes[self.scanned..];
            let at = match rest {
                [b'\r', ..] => Some(0), // the last line, mostly
                _ => memchr2(b'\r', b'\n', rest),
            };
            let Some(end) = at.map(|at| self.scanned + at) else {
                self.scanned = bytes.len();
                self.check_size(bytes.len(), most)?;
                return Ok(None);
            };
            let [b'\r', b'\n', ..] = bytes[end..] else {
                self.check_size(end + 1, most)?;
                return match bytes[end..] {
                    [b'\r'] => {
                        self.scanned = end;
                        Ok(None)
                    }
                    [b'\r', ..] => Err(Refused::bad_request("bare CR")), // RFC 9112 section 2.2
                    _ => Err(Refused::bad_request("bare LF")),
                };
            };
            self.scanned = end + 2;
            self.check_size(self.scanned, most)?;
            if self.end_line(&bytes[self.line_start..end], most_empty_lines)? {
                return Ok(Some(self.start..self.scanned));
            }
        }
    }

    /// What is not HTTP at all (TLS, say) is refused at its first byte. Both first lines begin with a token.
    fn check_first_byte(&self, bytes: &[u8]) -> Result<(), Refused> {
        match bytes.get(self.line_start) {
            Some(&byte) if self.lines == 0 && !is_token_byte(byte) && !matches!(byte, b'\r' | b'\n') => {
                Err(Refused::bad_request("not HTTP"))
            }
            _ => Ok(()),
        }
    }

    fn check_size(&self, end: usize, most: usize) -> Result<(), Refused> {
        match end - self.start > most {
            false => Ok(()),
            true if self.lines == 0 => Err(Refused::new(414, "first line longer than limits.head")),
            true => Err(Refused::new(431, "head larger than limits.head")),
        }
    }

    /// Takes a line, without its end; true when the head ends with it.
    fn end_line(&mut self, line: &[u8], most_empty_lines: usize) -> Result<bool, Refused> {
        self.line_start = self.scanned;
        match line {
            [] if self.lines > 0 => return Ok(true),
            [] => {
                (self.start, self.empty_lines) = (self.scanned, self.empty_lines + 1);
                if self.empty_lines > most_empty_lines {
                    return Err(Refused::bad_request("empty line before the message"));
                }
            }
            // RFC 9112 sections 2.2 and 5.2: white space before the first field, or obs-fold
            [b' ' | b'\t', ..] if self.lines > 0 => {
                return Err(Refused::bad_request("line folding"));
            }
            _ => self.lines += 1,
        }
        Ok(false)
    }
}
