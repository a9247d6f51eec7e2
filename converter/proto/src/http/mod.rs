//! HTTP/1.1 as a forward proxy speaks it (RFC 9110, RFC 9112): heads and chunked bodies, in and out.
//!
//! Strict on purpose. What two parsers could read in two ways is refused, and what is forwarded is rewritten from
//! the parsed value: framing, `Host` and connection fields are never copied. The deviations from the RFCs, all of them
//! towards refusing more, unless they say otherwise:
//!
//! - A bare LF never ends a line (RFC 9112 section 2.2 would permit it).
//! - White space in a chunk's framing (RFC 9112 section 7.1.1, "bad whitespace") is refused.
//! - Content-Length and Transfer-Encoding together are refused in both directions (RFC 9112 section 6.3 permits it), and
//!   so is a trailer field that frames or routes.
//! - A request's Content-Length has no leading zeros, and no length exceeds 2^63 - 1.
//! - TRACE is refused with 501: it would reflect the client's credentials.
//! - A request that has our own pseudonym in Via gets 508 (RFC 5842 section 7.2); RFC 9110 names no status for loops. Without a
//!   pseudonym no Via is added, though RFC 9110 section 7.6.3 wants one.
//! - A target of `https` or another scheme gets 501: the scheme may be fine, this proxy does not speak it.
//! - Upgrade is dropped when a request carries chunked content or asks for `h2c`, as RFC 9110 section 7.8 lets any recipient do.
//! - Of a response, a malformed field line is left out, unless it may be meant to frame the message: then it is bad.
//! - More is accepted in one place: the path and query may hold every visible ASCII character but `#`, since browsers
//!   send `|`, `[`, `{` and the like unescaped (WHATWG URL) and none of them delimits anything here.
//!
//! Names are ASCII; internationalised names arrive in their `xn--` form or not at all.

pub mod body;
pub mod chunked;
pub mod exchange;
mod fields;
pub(crate) mod grammar;
mod head;
mod malformed;
pub mod refused;
pub mod request;
pub mod response;
mod via;

pub use crate::host::Authority;
pub use body::{Body, BodyReader};
pub use chunked::Chunked;
pub use grammar::{HTTP2_HEAD, Method, Version};
pub use head::{HeadLimits, HeadReader, parse_request};
pub use malformed::MalformedFields;
pub use refused::Refused;
pub use request::{Request, RequestContext, RequestTarget, ResponseBodyRule};
pub use response::{BadResponse, Delivery, Response};
pub use via::Pseudonym;
