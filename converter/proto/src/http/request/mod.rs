//! A request as a proxy receives it, and as the origin server gets it (RFC 9110 section 7.6, RFC 9112 section 3.2).

mod line;

use std::ops::Range;

use memchr::memchr;

use super::body::{Declared, framing_of_request, write_framing};
use super::fields::{ConnectionOptions, FieldKind, Fields, Strictness, list};
use super::grammar::{Reason, is_token, write_decimal};
use super::{Authority, Body, HeadLimits, Method, Refused, Version};
use crate::host::HTTP_PORT;
use line::RequestLine;

/// A request head that has one meaning only, and the head that the origin server gets for it: written while the request is
/// read, and all that is kept of it.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools)] // each is something else that the head says
pub struct Request {
    /// The method; never TRACE.
    pub method: Method,
    pub target: RequestTarget,
    pub version: Version,
    /// What follows the head; never [`Body::UntilClose`].
    pub body: Body,
    /// Whether another request may follow on the connection (RFC 9112 section 9.3). Never with HTTP/1.0: a proxy must
    /// not keep such a connection.
    pub keep_alive: bool,
    /// The client waits for `100 Continue` before it sends the body (RFC 9110 section 10.1.1).
    pub expect_continue: bool,
    /// The client asks for another protocol, WebSocket for instance (RFC 9110 section 7.8).
    pub upgrade: bool,
    /// It may log its user in for all that follows on the server's connection, as by NTLM or Negotiate.
    pub authenticates_the_connection: bool,
    /// Max-Forwards of an OPTIONS (RFC 9110 section 7.6.2); `None` for other methods.
    pub max_forwards: Option<u32>,
    /// The origin server is told that no other request comes behind it.
    pub(crate) says_close: bool,
    /// What the origin server gets, if the request is for one.
    head: Vec<u8>,
    /// Where in `head` its path lies, with the query.
    path: Range<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestTarget {
    /// `host:port`: a tunnel is asked for (CONNECT only).
    Connect(Authority),
    /// `http://host[:port]/path?query`: what a proxy forwards to this origin server.
    Absolute(Authority),
    /// `/path?query`: meant for an origin server, not for a proxy. The caller refuses it or answers it. What its Host says,
    /// without which HTTP/1.0 may do.
    Origin(Option<Authority>),
    /// `*`: OPTIONS for this proxy itself.
    Asterisk,
}

/// What the meaning of a response hangs on; small, so that the request itself need not be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestContext {
    /// What the request's method says about content.
    pub content: ResponseBodyRule,
    pub upgrade: bool,
    pub version: Version,
    /// The client may send another request.
    pub keep_alive: bool,
    /// All of the request's body has come. What is left of one that is broken off cannot be told from another request: unless
    /// the response is a success, the client's connection ends behind it.
    pub is_whole: bool,
}

/// Whether content follows a response's head, as far as the method decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseBodyRule {
    /// As the response's fields say.
    Framed,
    /// None: the request was a HEAD.
    Absent,
    /// None in a 2xx, which begins a tunnel: the request was a CONNECT.
    Tunnel,
}

impl Request {
    /// `head` ends with its empty line; all its lines end with CRLF, and have no other CR or LF.
    pub(crate) fn from_head(head: &[u8], limits: &HeadLimits) -> Result<Self, Refused> {
        let (line, rest) = RequestLine::parse(head)?;
        let mut fields = Fields::new(Strictness::Strict);
        fields.read(rest)?;
        fields.refuse_aliases()?;
        let version = line.version;
        let declared = framing_of_request(&fields, version)?;
        let host = check_host(&fields, &line)?;
        let options = fields.take_connection_options()?;
        let body = Body::of_request(declared);
        let mut request = Self {
            keep_alive: version == Version::Http11 && !options.close,
            expect_continue: expects_continue(&fields, version)? && body.has_content(),
            upgrade: asks_for_upgrade(&fields, options, version)? && body != Body::Chunked,
            authenticates_the_connection: fields.authenticate_the_connection(),
            max_forwards: max_forwards(&fields, &line.method)?,
            method: line.method,
            target: match line.target {
                RequestTarget::Origin(_) => RequestTarget::Origin(host),
                other => other,
            },
            version,
            body,
            says_close: false,
            head: Vec::new(),
            path: 0..0,
        };
        request.check(&fields, limits)?;
        request.head.reserve_exact(limits.forwarded_len(head.len()));
        request.write_first_lines(line.path);
        request.write_fields(&fields, declared, limits);
        Ok(request)
    }

    fn check(&self, fields: &Fields<'_>, limits: &HeadLimits) -> Result<(), Refused> {
        if self.method == Method::Trace {
            return Err(Refused::new(501, "TRACE is not served"));
        }
        if self.method == Method::Connect && self.body.has_content() {
            return Err(Refused::bad_request("CONNECT with content")); // RFC 9110 section 9.3.6
        }
        let is_own = |value| {
            let own = limits.pseudonym.as_ref();
            own.is_some_and(|own| own.is_in(value))
        };
        if fields.all(FieldKind::Via).any(is_own) {
            return Err(Refused::new(508, "forwarding loop"));
        }
        Ok(())
    }

    /// Origin-form, and Host from the target.
    fn write_first_lines(&mut self, path: [&[u8]; 2]) {
        let out = &mut self.head;
        out.extend_from_slice(self.method.as_str().as_bytes());
        out.push(b' ');
        let start = out.len();
        out.extend_from_slice(path[0]);
        out.extend_from_slice(path[1]);
        self.path = start..out.len();
        out.extend_from_slice(b" HTTP/1.1\r\n"); // our version, not the client's (RFC 9110 section 2.5)
        if let Some(authority) = self.target.authority() {
            out.extend_from_slice(b"Host: ");
            authority.write_host(out); // RFC 9112 section 3.2.2: the target's, whatever the client's Host says
            out.extend_from_slice(b"\r\n");
        }
    }

    /// One framing, and no fields that were meant for this hop.
    fn write_fields(&mut self, fields: &Fields<'_>, declared: Declared, limits: &HeadLimits) {
        let is_last = !(self.keep_alive || limits.outlives_client && self.is_repeatable());
        let out = &mut self.head;
        fields.write_end_to_end(
            |kind| match kind {
                // RFC 9110 section 6.6.2: it tells of a chunked body's trailer section
                FieldKind::Trailer => declared == Declared::Chunked,
                FieldKind::MaxForwards => self.max_forwards.is_none(),
                _ => false,
            },
            out,
        );
        if let Some(left) = self.max_forwards {
            out.extend_from_slice(b"Max-Forwards: ");
            write_decimal(left.saturating_sub(1), out);
            out.extend_from_slice(b"\r\n");
        }
        if self.expect_continue {
            out.extend_from_slice(b"Expect: 100-continue\r\n");
        }
        write_framing(declared, out);
        limits.write_via(self.version, out);
        if self.upgrade {
            fields.write_upgrade(out);
        } else if is_last {
            // Whoever ends a connection first keeps its port for a minute (RFC 9293 section 3.6): better the server's.
            out.extend_from_slice(b"Connection: close\r\n");
            self.says_close = true;
        }
        out.extend_from_slice(b"\r\n");
    }

    /// The origin server, and the head for it. Refuses (400) what is not in absolute-form or must end here: see
    /// [`Request::is_for_proxy`].
    pub fn forwarded(&self) -> Result<(&Authority, &[u8]), Refused> {
        let reason = match &self.target {
            RequestTarget::Absolute(to) if !self.is_for_proxy() => return Ok((to, &self.head)),
            RequestTarget::Absolute(_) => "Max-Forwards is used up",
            _ => "the request target must be an absolute http URI, or CONNECT",
        };
        Err(self.refused(reason))
    }

    fn refused(&self, reason: Reason) -> Refused {
        Refused::bad_request(reason).to_head(self.method == Method::Head)
    }

    /// An OPTIONS that ends here (RFC 9110 sections 7.6.2 and 9.3.7): the caller reads its body to the end, then
    /// answers with [`super::refused::write_options`].
    pub fn is_for_proxy(&self) -> bool {
        self.target == RequestTarget::Asterisk || self.max_forwards == Some(0)
    }

    /// The request as who stands in for an origin server takes it: a path is for the Host that the request names (RFC 9112
    /// section 3.3). Without one it is refused (400).
    pub fn for_origin(mut self) -> Result<Self, Refused> {
        if let RequestTarget::Origin(host) = &mut self.target {
            let host = host.take().ok_or("no Host");
            self.target = RequestTarget::Absolute(host.map_err(|reason| self.refused(reason))?);
        }
        Ok(self)
    }

    /// Whether it may be sent a second time (RFC 9110 section 9.2.2), and all of it is here to be sent.
    pub fn is_repeatable(&self) -> bool {
        self.method.is_idempotent() && !self.body.has_content()
    }

    /// What the response's meaning hangs on.
    pub fn awaited(&self) -> RequestContext {
        RequestContext {
            content: match self.method {
                Method::Head => ResponseBodyRule::Absent,
                Method::Connect => ResponseBodyRule::Tunnel,
                _ => ResponseBodyRule::Framed,
            },
            upgrade: self.upgrade,
            version: self.version,
            keep_alive: self.keep_alive,
            is_whole: !self.body.has_content(),
        }
    }

    /// Bytes of memory that its head takes.
    pub fn memory(&self) -> usize {
        self.head.capacity()
    }

    /// The path with its query; empty where the target has none.
    pub fn path(&self) -> &str {
        std::str::from_utf8(&self.head[self.path.clone()]).unwrap_or_default()
    }

    /// The first value of the field `name`, which is compared without regard to case, unless it ends here.
    pub fn field(&self, name: &str) -> Option<&[u8]> {
        let lines = self.head.split(|byte| *byte == b'\n').skip(1);
        let mut fields = lines.filter_map(|line| {
            let colon = memchr(b':', line)?;
            Some((&line[..colon], line[colon + 1..].trim_ascii()))
        });
        fields
            .find(|(known, _)| known.eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, value)| value)
    }
}

impl RequestTarget {
    /// The origin server, where one is named.
    pub fn authority(&self) -> Option<&Authority> {
        match self {
            Self::Connect(authority) | Self::Absolute(authority) => Some(authority),
            Self::Origin(authority) => authority.as_ref(),
            Self::Asterisk => None,
        }
    }
}

/// RFC 9112 section 3.2: exactly one Host, well formed; HTTP/1.0 may do without.
/// One that says what the target says was read with that. Beside the target of a CONNECT its value means nothing. What it
/// says, where the target says nothing.
fn check_host(fields: &Fields<'_>, line: &RequestLine<'_>) -> Result<Option<Authority>, Reason> {
    match fields.single(FieldKind::Host, "more than one Host")? {
        None if line.version == Version::Http10 => Ok(None),
        None => Err("no Host"),
        Some(_) if matches!(line.target, RequestTarget::Connect(_)) => Ok(None),
        Some(value) if !line.authority.is_empty() && value == line.authority => Ok(None),
        Some(value) => authority_of(value).map(Some),
    }
}

fn authority_of(host: &[u8]) -> Result<Authority, Reason> {
    Authority::parse(host, Some(HTTP_PORT)).map_err(|_| "malformed Host")
}

/// RFC 9110 section 10.1.1: ignored in HTTP/1.0, and 417 for what is not known.
fn expects_continue(fields: &Fields<'_>, version: Version) -> Result<bool, Refused> {
    if version == Version::Http10 {
        return Ok(false);
    }
    let mut expected = fields.all(FieldKind::Expect).peekable();
    let any = expected.peek().is_some();
    if expected.all(|value| value.eq_ignore_ascii_case(b"100-continue")) {
        Ok(any)
    } else {
        Err(Refused::new(417, "only 100-continue can be expected"))
    }
}

/// RFC 9110 section 7.8. `h2c` is not passed on: frames behind an upgrade would not be seen as requests.
fn asks_for_upgrade(fields: &Fields<'_>, options: ConnectionOptions, version: Version) -> Result<bool, Refused> {
    let mut asked = false;
    for protocol in fields.all(FieldKind::Upgrade).flat_map(list) {
        if !protocol.split(|byte| *byte == b'/').all(is_token) {
            return Err(Refused::bad_request("malformed Upgrade"));
        }
        if protocol.eq_ignore_ascii_case(b"h2c") {
            return Ok(false);
        }
        asked = true;
    }
    Ok(asked && options.upgrade && version == Version::Http11)
}

fn max_forwards(fields: &Fields<'_>, method: &Method) -> Result<Option<u32>, Reason> {
    const MALFORMED: Reason = "malformed Max-Forwards";
    if *method != Method::Options {
        return Ok(None); // RFC 9110 section 7.6.2 lets us ignore it elsewhere
    }
    let Some(digits) = fields.single(FieldKind::MaxForwards, "more than one Max-Forwards")? else {
        return Ok(None);
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(MALFORMED);
    }
    let number = digits.iter().fold(0_u32, |sum, digit| {
        sum.saturating_mul(10).saturating_add(u32::from(digit - b'0'))
    });
    Ok(Some(number))
}

impl Body {
    fn of_request(declared: Declared) -> Self {
        match declared {
            Declared::Nothing => Self::None,
            Declared::Length(length) => Self::Length(length),
            Declared::Chunked => Self::Chunked,
        }
    }
}
