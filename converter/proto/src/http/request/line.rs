//! The first line of a request (RFC 9112 section 3).

use memchr::{memchr, memchr2, memrchr};

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
    /// Reads the line with which `head` begins.
    pub fn parse(head: &'h [u8]) -> Result<Self, Refused> {
        const MALFORMED: Refused = Refused::bad_request("malformed request line");
        let end = memchr(b'\r', head).ok_or(MALFORMED)?;
        let line = &head[..end];
        let first = memchr(b' ', line).ok_or(MALFORMED)?;
        let last = memrchr(b' ', line).ok_or(MALFORMED)?;
        let (method, version) = (&line[..first], &line[last + 1..]);
        let target = line.get(first + 1..last).ok_or(MALFORMED)?;
        let method = Method::from_token(method).ok_or(MALFORMED)?;
        let version = parse_version(version)?;
        Self::with_target(method, target, version)
    }

    fn with_target(method: Method, text: &'h [u8], version: Version) -> Result<Self, Refused> {
        let is_known = |byte: &u8| byte.is_ascii_graphic() && *byte != b'#';
        if text.is_empty() || !text.iter().all(is_known) {
            let reason = "invalid character in the request target";
            return Err(Refused::bad_request(reason));
        }
        let (target, authority, path): (_, &[u8], [&[u8]; 2]) = match (&method, text) {
            (Method::Connect, authority) => {
                let parsed = Authority::parse(authority, None).map_err(Refused::bad_request)?;
                (RequestTarget::Connect(parsed), authority, [b"", b""])
            }
            (Method::Options, b"*") => (RequestTarget::Asterisk, b"", [b"", b""]),
            (_, path @ [b'/', ..]) => (RequestTarget::Origin(None), b"", [b"", path]),
            (method, uri) => {
                let (authority, path) = split_uri(uri)?;
                let parsed =
                    Authority::parse(authority, Some(HTTP_PORT)).map_err(Refused::bad_request)?;
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
    let colon = memchr(b':', uri);
    let parts = colon.and_then(|at| Some((&uri[..at], uri[at..].strip_prefix(b"://")?)));
    let Some((scheme, rest)) = parts else {
        return Err(Refused::bad_request("malformed request target"));
    };
    if !is_scheme(scheme) {
        return Err(Refused::bad_request("malformed scheme"));
    }
    if !scheme.eq_ignore_ascii_case(b"http") {
        let reason = "only http is spoken; use CONNECT for other schemes";
        return Err(Refused::new(501, reason));
    }
    let end = memchr2(b'/', b'?', rest).unwrap_or(rest.len());
    Ok(rest.split_at(end))
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
        [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
            if major.is_ascii_digit() && minor.is_ascii_digit() =>
        {
            Err(Refused::new(505, "only HTTP/1.0 and HTTP/1.1 are spoken"))
        }
        _ => Err(Refused::bad_request("malformed version")),
    }
}
