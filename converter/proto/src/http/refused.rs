//! A request that is not served, and the response that says so.

use super::BadResponse;
use super::grammar::Reason;

/// Why a request is refused. The connection closes after the response: where the next request begins is not certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The status code, 400 to 599.
    pub status: u16,
    /// One sentence for the client.
    pub reason: Reason,
    /// The request was a HEAD: its response has no content (RFC 9110 section 9.3.2).
    pub to_head: bool,
    /// The methods that the target takes, if the response names them (RFC 9110 section 15.5.6).
    pub allow: Option<&'static str>,
}

impl Refused {
    /// A refusal of a request that is not a HEAD.
    pub const fn new(status: u16, reason: &'static str) -> Self {
        Self {
            status,
            reason,
            to_head: false,
            allow: None,
        }
    }

    pub(crate) const fn bad_request(reason: Reason) -> Self {
        Self::new(400, reason)
    }

    /// The same refusal, of a HEAD request if `to_head`.
    #[must_use]
    pub const fn to_head(self, to_head: bool) -> Self {
        Self { to_head, ..self }
    }

    /// The same refusal, which names the methods that the target takes.
    #[must_use]
    pub const fn allowing(self, methods: &'static str) -> Self {
        Self {
            allow: Some(methods),
            ..self
        }
    }

    /// Writes the whole response, with `Connection: close`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let (status, phrase, length) = (self.status, phrase(self.status), self.reason.len() + 1);
        let allow = self.allow.map(|methods| format!("Allow: {methods}\r\n"));
        let allow = allow.unwrap_or_default();
        let head = format!(
            "HTTP/1.1 {status} {phrase}\r\n{allow}Connection: close\r\nContent-Type: text/plain\r\n\
             Content-Length: {length}\r\n\r\n"
        );
        out.extend_from_slice(head.as_bytes());
        if !self.to_head {
            out.extend_from_slice(self.reason.as_bytes());
            out.push(b'\n');
        }
    }
}

impl From<Reason> for Refused {
    /// Of a request that cannot be understood.
    fn from(reason: Reason) -> Self {
        Self::bad_request(reason)
    }
}

impl From<BadResponse> for Refused {
    /// A response that cannot be understood is a bad gateway's (RFC 9112 section 6.3).
    fn from(bad: BadResponse) -> Self {
        Self::new(502, bad.0)
    }
}

/// The response to a request that [`crate::http::Request::is_for_proxy`]: the methods that the proxy forwards (RFC 9110
/// section 9.3.7). Returns its status.
pub fn write_options(keep_alive: bool, out: &mut Vec<u8>) -> u16 {
    out.extend_from_slice(
        b"HTTP/1.1 204 No Content\r\nAllow: CONNECT, DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT\r\n",
    );
    if !keep_alive {
        out.extend_from_slice(b"Connection: close\r\n");
    }
    out.extend_from_slice(b"\r\n");
    204
}

/// The reason phrases of RFC 9110 section 15 for the statuses that a proxy gives; the phrase carries no meaning.
fn phrase(status: u16) -> &'static str {
    match status {
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        413 => "Content Too Large",
        414 => "URI Too Long",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        508 => "Loop Detected",
        _ => "Refused",
    }
}
