//! A request as a proxy receives it.

mod forward;

use memchr::{memchr, memchr2, memrchr};

use super::body::{Declared, framing_of_request};
use super::fields::{
    ConnectionOptionPolicy, ConnectionOptions, FieldKind, Fields, field_error, list, with_room,
};
use super::grammar::{Reason, is_token};
use super::{Authority, Body, HeadLimits, Method, Refused, Version};
use crate::host::HTTP_PORT;

/// A request head that has one meaning only.
#[derive(Clone, Debug)]
pub struct Request {
    /// The method; never TRACE.
    pub method: Method,
    /// What it is for.
    pub target: RequestTarget,
    /// The version that the client speaks.
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
    /// Max-Forwards of an OPTIONS (RFC 9110 section 7.6.2); `None` for other methods.
    pub max_forwards: Option<u32>,
    fields: Fields,
}

/// What a request is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestTarget {
    /// `host:port`: a tunnel is asked for (CONNECT only).
    Connect(Authority),
    /// `http://host[:port]/path?query`: what a proxy forwards.
    Absolute {
        /// The origin server.
        authority: Authority,
        /// What goes into the forwarded request line: a path with its query, or `*` for OPTIONS without a path.
        path_and_query: Box<str>,
    },
    /// `/path?query`: meant for an origin server, not for a proxy. The caller refuses it or answers it.
    Origin {
        /// The path with its query.
        path: Box<str>,
    },
    /// `*`: OPTIONS for this proxy itself.
    Asterisk,
}

/// What the meaning of a response hangs on; small, so that the request itself need not be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestContext {
    /// What the request's method says about content.
    pub content: ResponseBodyRule,
    /// The request asked for an upgrade.
    pub upgrade: bool,
    /// The client's version.
    pub version: Version,
    /// The client may send another request.
    pub keep_alive: bool,
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
    /// `head` ends with its empty line and holds `field_count` field lines.
    pub(crate) fn from_head(
        head: &[u8],
        field_count: usize,
        limits: &HeadLimits,
    ) -> Result<Self, Refused> {
        let (method, (target, authority), version) = request_line(head)?;
        let mut fields = fields(head, field_count).map_err(Refused::bad_request)?;
        let declared = framing_of_request(&fields, version).map_err(Refused::bad_request)?;
        check_host(&fields, version, &target, authority).map_err(Refused::bad_request)?;
        let options = fields
            .take_connection_options(ConnectionOptionPolicy::Strict)
            .map_err(Refused::bad_request)?;
        let body = Body::of_request(declared);
        let request = Self {
            keep_alive: version == Version::Http11 && !options.close,
            expect_continue: expects_continue(&fields, version)? && body.has_content(),
            upgrade: asks_for_upgrade(&fields, options, version)? && body != Body::Chunked,
            max_forwards: max_forwards(&fields, &method).map_err(Refused::bad_request)?,
            method,
            target,
            version,
            body,
            fields,
        };
        request.check(limits)?;
        Ok(request)
    }

    fn check(&self, limits: &HeadLimits) -> Result<(), Refused> {
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
        if self.fields.all(FieldKind::Via).any(is_own) {
            return Err(Refused::new(508, "forwarding loop"));
        }
        Ok(())
    }

    /// An OPTIONS that ends here (RFC 9110 sections 7.6.2 and 9.3.7): the caller reads its body to the end, then
    /// answers with [`super::refused::write_options`].
    pub fn is_for_proxy(&self) -> bool {
        self.target == RequestTarget::Asterisk || self.max_forwards == Some(0)
    }

    /// The request as who stands in for an origin server takes it: a path is for the Host that the request names (RFC 9112
    /// section 3.3). Without one it is refused (400).
    pub fn for_origin(mut self) -> Result<Self, Refused> {
        if let RequestTarget::Origin { path } = self.target {
            let host = self.fields.single(FieldKind::Host, "more than one Host");
            let authority = host.and_then(|host| authority_of(host.ok_or("no Host")?));
            self.target = RequestTarget::Absolute {
                authority: authority.map_err(|reason| {
                    Refused::bad_request(reason).to_head(self.method == Method::Head)
                })?,
                path_and_query: path,
            };
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
        }
    }

    /// Bytes of memory that its head takes, which it keeps.
    pub fn memory(&self) -> usize {
        self.fields.memory()
    }

    /// Bytes of its head as it came.
    pub fn head_len(&self) -> usize {
        self.fields.head_len()
    }

    /// The field lines as they came: names, and values without the white space around them.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields.iter()
    }

    /// The first value of the field `name`, which is compared without regard to case.
    pub fn field(&self, name: &str) -> Option<&[u8]> {
        self.fields()
            .find(|(known, _)| known.eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, value)| value)
    }
}

impl RequestTarget {
    /// The target, and its authority as it stands there; empty where it has none.
    pub(crate) fn parse<'t>(text: &'t str, method: &Method) -> Result<(Self, &'t str), Refused> {
        if !text
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'#')
            || text.is_empty()
        {
            return Err(Refused::bad_request(
                "invalid character in the request target",
            ));
        }
        match (method, text) {
            (Method::Connect, authority) => Authority::parse(authority, None)
                .map(|parsed| (Self::Connect(parsed), authority))
                .map_err(Refused::bad_request),
            (Method::Options, "*") => Ok((Self::Asterisk, "")),
            (_, path) if path.starts_with('/') => Ok((Self::Origin { path: path.into() }, "")),
            (method, uri) => absolute(uri, method),
        }
    }

    /// The origin server, for the two forms that name one.
    pub fn authority(&self) -> Option<&Authority> {
        match self {
            Self::Connect(authority) | Self::Absolute { authority, .. } => Some(authority),
            Self::Origin { .. } | Self::Asterisk => None,
        }
    }
}

fn absolute<'t>(uri: &'t str, method: &Method) -> Result<(RequestTarget, &'t str), Refused> {
    let colon = memchr(b':', uri.as_bytes());
    let parts = colon.and_then(|at| Some((&uri[..at], uri[at..].strip_prefix("://")?)));
    let Some((scheme, rest)) = parts else {
        return Err(Refused::bad_request("malformed request target"));
    };
    if !is_scheme(scheme.as_bytes()) {
        return Err(Refused::bad_request("malformed scheme"));
    }
    if !scheme.eq_ignore_ascii_case("http") {
        return Err(Refused::new(
            501,
            "only http is spoken; use CONNECT for other schemes",
        ));
    }
    let end = memchr2(b'/', b'?', rest.as_bytes()).unwrap_or(rest.len());
    let (text, path) = rest.split_at(end);
    let authority = Authority::parse(text, Some(HTTP_PORT)).map_err(Refused::bad_request)?;
    let target = RequestTarget::Absolute {
        authority,
        path_and_query: path_and_query(path, method),
    };
    Ok((target, text))
}

/// RFC 9112 sections 3.2.1 and 3.2.4: an empty path is sent as `/`, or as `*` in OPTIONS without a query.
fn path_and_query(path: &str, method: &Method) -> Box<str> {
    match (path, method) {
        ("", Method::Options) => "*".into(),
        ("", _) => "/".into(),
        (query, _) if query.starts_with('?') => format!("/{query}").into_boxed_str(),
        (path, _) => path.into(),
    }
}

/// RFC 3986 section 3.1.
fn is_scheme(scheme: &[u8]) -> bool {
    scheme.first().is_some_and(u8::is_ascii_alphabetic)
        && scheme
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
}

/// RFC 9112 section 3: three parts, a single space between them.
fn request_line(head: &[u8]) -> Result<(Method, (RequestTarget, &str), Version), Refused> {
    const MALFORMED: Refused = Refused::bad_request("malformed request line");
    let end = memchr(b'\r', head).ok_or(MALFORMED)?;
    let line = std::str::from_utf8(&head[..end]).map_err(|_| MALFORMED)?;
    let first = memchr(b' ', line.as_bytes()).ok_or(MALFORMED)?;
    let last = memrchr(b' ', line.as_bytes()).ok_or(MALFORMED)?;
    let (method, version) = (&line[..first], &line[last + 1..]);
    let target = line.get(first + 1..last).ok_or(MALFORMED)?;
    if !is_token(method.as_bytes()) {
        return Err(MALFORMED);
    }
    let version = parse_version(version)?;
    let method = Method::from_token(method);
    let target = RequestTarget::parse(target, &method)?;
    Ok((method, target, version))
}

fn parse_version(text: &str) -> Result<Version, Refused> {
    match text.as_bytes() {
        b"HTTP/1.1" => Ok(Version::Http11),
        b"HTTP/1.0" => Ok(Version::Http10),
        [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
            if major.is_ascii_digit() && minor.is_ascii_digit() =>
        {
            Err(Refused::new(505, "only HTTP/1.0 and HTTP/1.1 are spoken"))
        }
        _ => Err(Refused::bad_request("malformed version")),
    }
}

/// The field lines. A second parser reads the whole head, and must see what the line-by-line pass saw.
fn fields(head: &[u8], field_count: usize) -> Result<Fields, Reason> {
    with_room(field_count, |headers| {
        let mut parsed = httparse::Request::new(&mut []);
        let status = httparse::ParserConfig::default()
            .parse_request_with_uninit_headers(&mut parsed, head, headers)
            .map_err(field_error)?;
        if status != httparse::Status::Complete(head.len()) || parsed.headers.len() != field_count {
            return Err("malformed header section");
        }
        Fields::collect(head, parsed.headers)
    })
}

/// RFC 9112 section 3.2: exactly one Host, well formed; HTTP/1.0 may do without.
/// One that says what the target's `authority` says was read with that. Beside the target of a CONNECT its value means nothing.
fn check_host(
    fields: &Fields,
    version: Version,
    target: &RequestTarget,
    authority: &str,
) -> Result<(), Reason> {
    match fields.single(FieldKind::Host, "more than one Host")? {
        None if version == Version::Http10 => Ok(()),
        None => Err("no Host"),
        Some(_) if matches!(target, RequestTarget::Connect(_)) => Ok(()),
        Some(value) if !authority.is_empty() && value == authority.as_bytes() => Ok(()),
        Some(value) => authority_of(value).map(drop),
    }
}

fn authority_of(host: &[u8]) -> Result<Authority, Reason> {
    let text = std::str::from_utf8(host).map_err(|_| "malformed Host")?;
    Authority::parse(text, Some(HTTP_PORT)).map_err(|_| "malformed Host")
}

/// RFC 9110 section 10.1.1: ignored in HTTP/1.0, and 417 for what is not known.
fn expects_continue(fields: &Fields, version: Version) -> Result<bool, Refused> {
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
fn asks_for_upgrade(
    fields: &Fields,
    options: ConnectionOptions,
    version: Version,
) -> Result<bool, Refused> {
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

fn max_forwards(fields: &Fields, method: &Method) -> Result<Option<u32>, Reason> {
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
        sum.saturating_mul(10)
            .saturating_add(u32::from(digit - b'0'))
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
