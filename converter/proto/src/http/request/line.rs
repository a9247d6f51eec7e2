//! The first line of a request (RFC 9112 section 3).

use memchr::memchr;

use super::super::grammar::all;
use super::super::{Authority, Method, Refused, Version};
use super::RequestTarget;
use crate::host::HTTP_PORT;

/// Three parts, a single space between them.
pub struct RequestLine<'h> {
    pub method: Method,
    /// That of a path has no host yet: it stands in a field.
    pub target: RequestTarget,
    /// The target's authority as it stands there; empty where it has none.
    pub authority: &'h [u8],
    /// The path with its query, in two parts; empty where the target has none.
    pub path: [&'h [u8]; 2],
    pub version: Version,
}

impl<'h> RequestLine<'h> {
    /// Reads the line with which `head` begins, and returns what is behind it as well.
    pub fn parse(head: &'h [u8]) -> Result<(Self, &'h [u8]), Refused> {
        const MALFORMED: Refused = Refused::bad_request("malformed request line");
        let is_space = |byte: &u8| *byte == b' ';
        let end = memchr(b'\r', head).ok_or(MALFORMED)?;
        let line = &head[..end];
        let first = line.iter().position(is_space).ok_or(MALFORMED)?;
        let last = line.iter().rposition(is_space).ok_or(MALFORMED)?;
        let (method, version) = (&line[..first], &line[last + 1..]);
        let target = line.get(first + 1..last).ok_or(MALFORMED)?;
        let method = Method::from_token(method).ok_or(MALFORMED)?;
        let version = parse_version(version)?;
        let line = Self::with_target(method, target, version)?;
        Ok((line, &head[end + 2..]))
    }

    fn with_target(method: Method, text: &'h [u8], version: Version) -> Result<Self, Refused> {
        let is_known = |byte: u8| byte.is_ascii_graphic() && byte != b'#';
        if text.is_empty() || !all(text, is_known) {
            let reason = "invalid character in the request target";
            return Err(Refused::bad_request(reason));
        }
        let (target, authority, path): (_, &[u8], [&[u8]; 2]) = match (&method, text) {
            (Method::Connect, authority) => {
                let parsed = Authority::parse(authority, None)?;
                (RequestTarget::Connect(parsed), authority, [b"", b""])
            }
            (Method::Options, b"*") => (RequestTarget::Asterisk, b"", [b"", b""]),
            (_, path @ [b'/', ..]) => (RequestTarget::Origin(None), b"", [b"", path]),
            (method, uri) => {
                let (authority, path) = split_uri(uri)?;
                let parsed = Authority::parse(authority, Some(HTTP_PORT))?;
                let path = match (path, method) {
                    // RFC 9112 sections 3.2.1 and 3.2.4
                    ([], Method::Options) => [b"*".as_slice(), b""],
                    ([b'/', ..], _) => [b"", path],
                    (query, _) => [b"/", query],
                };
                (RequestTarget::Absolute(parsed), authority, path)
            }
        };
        Ok(Self {
            method,
            target,
            authority,
            path,
            version,
        })
    }
}

/// The authority of a URI, and what is behind it.
fn split_uri(uri: &[u8]) -> Result<(&[u8], &[u8]), Refused> {
    match uri.split_at_checked(b"http://".len()) {
        Some((http, rest)) if http.eq_ignore_ascii_case(b"http://") => {
            let is_end = |byte: &u8| matches!(byte, b'/' | b'?');
            let end = rest.iter().position(is_end);
            Ok(rest.split_at(end.unwrap_or(rest.len())))
        }
        _ => Err(not_http(uri)),
    }
}

fn not_http(uri: &[u8]) -> Refused {
    let colon = memchr(b':', uri);
    match colon.map(|at| uri.split_at(at)) {
        Some((scheme, rest)) if rest.starts_with(b"://") => {
            if is_scheme(scheme) {
                Refused::new(501, "only http is spoken; use CONNECT for other schemes")
            } else {
                Refused::bad_request("malformed scheme")
            }
        }
        _ => Refused::bad_request("malformed request target"),
    }
}

/// RFC 3986 section 3.1.
fn is_scheme(scheme: &[u8]) -> bool {
    scheme.first().is_some_and(u8::is_ascii_alphabetic)
        && scheme
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
}

fn parse_version(text: &[u8]) -> Result<Version, Refused> {
    match text {
        b"HTTP/1.1" => Ok(Version::Http11),
        b"HTTP/1.0" => Ok(Version::Http10),
        [b'H', b'T', b'T', b'P', b'/', major, b'.', minor] if major.is_ascii_digit() && minor.is_ascii_digit() => {
            Err(Refused::new(505, "only HTTP/1.0 and HTTP/1.1 are spoken"))
        }
        _ => Err(Refused::bad_request("malformed version")),
    }
}
