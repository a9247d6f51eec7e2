//! A response as the origin server sends it, and as the client gets it.

use std::cell::RefCell;
use std::time::SystemTime;

use httpdate::HttpDate;
use memchr::memchr;

use super::body::{Declared, framing_of_response, write_framing};
use super::fields::{ConnectionOptions, FieldKind, Fields, Strictness};
use super::grammar::{Reason, all, is_value_byte, parse_decimal, write_decimal};
use super::malformed::{MalformedFields, without_malformed_fields};
use super::request::{RequestContext, ResponseBodyRule};
use super::{Body, HeadLimits, Version};

/// Why a response cannot be relayed; the client gets 502 (`Refused::from`), and the origin's connection closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadResponse(
    /// One sentence.
    pub &'static str,
);

/// A response head that has one meaning only.
#[derive(Clone, Debug)]
pub struct Response {
    pub version: Version,
    /// The status code, 100 to 999. RFC 9110 section 15 stops at 599, but servers do not: higher ones are relayed.
    pub status: u16,
    pub body: Body,
    /// Whether the origin's connection can take another request after the body (RFC 9112 section 9.3).
    pub keep_alive: bool,
    /// The server asks for a login that may be good for all that follows on its connection, as by NTLM or Negotiate.
    pub authenticates_the_connection: bool,
    /// After this head both directions carry another protocol: 101, or 2xx to CONNECT.
    pub switching_protocols: bool,
    /// Field lines that were malformed, and are left out.
    pub malformed: MalformedFields,
    pub delivery: Delivery,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// False for 1xx and a client of HTTP/1.0, which does not know them (RFC 9110 section 15.2): it gets nothing.
    pub send: bool,
    /// The client is of HTTP/1.0 and the body chunked (RFC 9112 section 6.1): send the content that [`super::Chunked`]
    /// finds, without its framing, then close.
    pub decode: bool,
    /// The client's connection lives on after this response.
    pub keep_alive: bool,
}

impl Response {
    /// 1xx: the final response is still to come (RFC 9110 section 15.2), unless the protocol changes.
    pub fn is_informational(&self) -> bool {
        self.status < 200 && !self.switching_protocols
    }

    /// Whether it says that its request was done.
    pub fn is_success(&self) -> bool {
        is_success(self.status)
    }
}

/// Whether a response of this status says that its request was done.
pub(super) fn is_success(status: u16) -> bool {
    matches!(status, 101 | 200..300)
}

/// The first line of a response (RFC 9112 section 4).
struct StatusLine<'h> {
    version: Version,
    /// Three digits.
    status: u16,
    /// Empty if some of it is not ASCII.
    phrase: &'h [u8],
}

impl<'h> StatusLine<'h> {
    /// Reads the line with which `head` begins, and returns what is behind it as well.
    fn parse(head: &'h [u8]) -> Result<(Self, &'h [u8]), Reason> {
        const MALFORMED: Reason = "malformed head";
        let end = memchr(b'\r', head).ok_or(MALFORMED)?;
        let (line, behind) = (&head[..end], &head[end + 2..]);
        let (version, line) = match line.strip_prefix(b"HTTP/1.1 ") {
            Some(line) => (Version::Http11, line),
            None => (Version::Http10, line.strip_prefix(b"HTTP/1.0 ").ok_or(MALFORMED)?),
        };
        let (code, phrase) = line.split_at_checked(3).ok_or(MALFORMED)?;
        let status = parse_decimal(code).and_then(|status| status.try_into().ok());
        let phrase = match phrase {
            [] => phrase,
            [b' ', phrase @ ..] if all(phrase, is_value_byte) => phrase,
            _ => return Err(MALFORMED),
        };
        let line = Self {
            version,
            status: status.ok_or(MALFORMED)?,
            phrase: if phrase.is_ascii() { phrase } else { b"" },
        };
        Ok((line, behind))
    }
}

/// Passes on the head of a response to a request.
pub(super) struct ResponseWriter<'a> {
    pub awaited: RequestContext,
    pub limits: &'a HeadLimits,
    pub clock: fn() -> SystemTime,
    pub out: &'a mut Vec<u8>,
}

impl ResponseWriter<'_> {
    /// `head` ends with its empty line; all its lines end with CRLF, and have no other CR or LF. If a field line is malformed, it
    /// is read without that.
    pub fn forward(mut self, head: &[u8]) -> Result<Response, Reason> {
        self.out.reserve(self.limits.forwarded_len(head.len()));
        self.read(head, None)
    }

    /// `malformed`: of a head that is read without them.
    fn read(&mut self, head: &[u8], malformed: Option<MalformedFields>) -> Result<Response, Reason> {
        let (line, lines) = StatusLine::parse(head)?;
        let mut fields = Fields::new(Strictness::Lenient);
        match (fields.read(lines), malformed) {
            (Err(_), None) => {
                let (head, malformed) = without_malformed_fields(head)?;
                self.read(&head, Some(malformed))
            }
            (read, malformed) => read.and_then(|()| self.pass(&line, &mut fields, malformed.unwrap_or_default())),
        }
    }

    fn pass(
        &mut self,
        line: &StatusLine<'_>,
        fields: &mut Fields<'_>,
        malformed: MalformedFields,
    ) -> Result<Response, Reason> {
        let (version, status) = (line.version, line.status);
        if status < 100 {
            return Err("malformed status");
        }
        fields.refuse_aliases()?;
        let awaited = self.awaited;
        let options = fields.take_connection_options()?;
        let switching_protocols = status == 101 || is_tunnel(status, awaited);
        if status == 101 && !(awaited.upgrade && options.upgrade && fields.has(FieldKind::Upgrade)) {
            return Err("a change of protocol that nobody asked for"); // RFC 9110 section 7.8
        }
        let declared = match status {
            // RFC 9112 section 6.1 and RFC 9110 section 8.6: no framing fields may stand here; they are not passed on
            100..200 | 204 => Some(Declared::Nothing),
            _ if is_tunnel(status, awaited) => Some(Declared::Nothing),
            _ => match framing_of_response(fields, version) {
                // RFC 9112 section 6.3, item 1: no body, whatever the fields say; what is not understood is not passed on
                Err(_) if has_no_body(status, awaited) => None,
                declared => Some(declared?),
            },
        };
        let is_understood = declared.is_some() && malformed.count == 0;
        let declared = declared.unwrap_or(Declared::Nothing);
        let body = body(status, awaited, declared);
        let may_persist = body != Body::UntilClose && !switching_protocols;
        let response = Response {
            version,
            status,
            body,
            keep_alive: may_persist && is_understood && persists(version, options),
            authenticates_the_connection: fields.authenticate_the_connection(),
            switching_protocols,
            malformed,
            delivery: Delivery {
                send: awaited.version == Version::Http11 || status >= 200,
                decode: body == Body::Chunked && awaited.version == Version::Http10,
                keep_alive: may_persist && awaited.keep_alive && (awaited.is_whole || is_success(status)),
            },
        };
        if response.delivery.send {
            self.write(&response, line.phrase, fields, declared);
        }
        Ok(response)
    }

    /// One framing, and no fields that were meant for this hop.
    fn write(&mut self, response: &Response, phrase: &[u8], fields: &Fields<'_>, declared: Declared) {
        let out = &mut *self.out;
        let declared = match declared {
            Declared::Chunked if self.awaited.version == Version::Http10 => Declared::Nothing,
            declared => declared,
        };
        out.extend_from_slice(b"HTTP/1.1 "); // our version, not the origin's (RFC 9110 section 2.5)
        write_decimal(response.status, out);
        out.push(b' ');
        out.extend_from_slice(phrase);
        out.extend_from_slice(b"\r\n");
        let also_passes = |kind| match kind {
            // RFC 9110 section 6.6.2: it tells of a chunked body's trailer section
            FieldKind::Trailer => declared == Declared::Chunked,
            kind => matches!(kind, FieldKind::Expect | FieldKind::MaxForwards),
        };
        fields.write_end_to_end(also_passes, out);
        if response.status >= 200 && !fields.has(FieldKind::Date) {
            write_date((self.clock)(), out);
        }
        write_framing(declared, out);
        self.limits.write_via(response.version, out);
        if response.status == 101 {
            fields.write_upgrade(out);
        } else if !(response.delivery.keep_alive || response.is_informational() || response.switching_protocols) {
            out.extend_from_slice(b"Connection: close\r\n");
        }
        out.extend_from_slice(b"\r\n");
    }
}

thread_local! {
    /// The last field that was written, and for which second since 1970.
    static DATE: RefCell<(u64, String)> = const { RefCell::new((u64::MAX, String::new())) };
}

/// RFC 9110 section 6.6.1. Made once for each second: that takes as long as to read all of a small head.
fn write_date(now: SystemTime, out: &mut Vec<u8>) {
    let since = now.duration_since(SystemTime::UNIX_EPOCH);
    let since = since.unwrap_or_default();
    DATE.with_borrow_mut(|(second, field)| {
        if *second != since.as_secs() {
            let date = HttpDate::from(SystemTime::UNIX_EPOCH + since);
            (*second, *field) = (since.as_secs(), format!("Date: {date}\r\n"));
        }
        out.extend_from_slice(field.as_bytes());
    });
}

/// RFC 9112 section 6.3, in its order.
fn body(status: u16, awaited: RequestContext, declared: Declared) -> Body {
    match (status, declared) {
        _ if has_no_body(status, awaited) => Body::None,
        (_, Declared::Chunked) => Body::Chunked,
        (_, Declared::Length(length)) => Body::Length(length),
        (_, Declared::Nothing) => Body::UntilClose,
    }
}

fn has_no_body(status: u16, awaited: RequestContext) -> bool {
    matches!(status, 100..200 | 204 | 304) || awaited.content == ResponseBodyRule::Absent || is_tunnel(status, awaited)
}

fn is_tunnel(status: u16, awaited: RequestContext) -> bool {
    awaited.content == ResponseBodyRule::Tunnel && (200..300).contains(&status)
}

/// RFC 9112 section 9.3.
fn persists(version: Version, options: ConnectionOptions) -> bool {
    !options.close && (version == Version::Http11 || options.keep_alive)
}
