//! Requests that may be handed to back ends: to which one, and whether it pays. Pure, but for [`SizeEstimator`]'s lock.

mod choice;
mod estimator;

pub use choice::{Choice, choose, choose_unseen};
pub use estimator::{SizeEstimate, SizeEstimator};
use tributary_proto::http::{Body, Method, Request};

/// How many bytes a request is expected to move, in the direction that has more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// By the request itself, or by earlier answers for the same object.
    pub known: Option<u64>,
    /// By answers for others of the same rule.
    pub guessed: Option<u64>,
}

impl Expected {
    /// The best that can be said.
    pub fn bytes(self) -> Option<u64> {
        self.known.or(self.guessed)
    }
}

/// What a request says of its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeHint {
    /// Its answer has so many bytes of content.
    Answer(u64),
    /// So many bytes go up; the answer may have more.
    Upload(u64),
    /// Something goes up, nobody knows how much.
    SomeUpload,
    /// The answer is the object, a part of it or nothing.
    Part,
    /// Nothing: the answer is a whole object.
    Nothing,
}

/// What `request` says of its size.
pub fn size_hint(request: &Request) -> SizeHint {
    match (request.body, request.field("range")) {
        _ if request.method == Method::Head => SizeHint::Answer(0),
        (Body::Length(bytes @ 1..), _) => SizeHint::Upload(bytes),
        (Body::Chunked | Body::UntilClose, _) => SizeHint::SomeUpload,
        (_, Some(range)) if request.method == Method::Get => part(range).map_or(SizeHint::Part, SizeHint::Answer),
        _ if is_conditional(request) => SizeHint::Part,
        _ => SizeHint::Nothing,
    }
}

/// Whether the client has the object already, and asks whether it is another one by now (RFC 9110 section 13.1).
fn is_conditional(request: &Request) -> bool {
    let conditions = ["if-none-match", "if-modified-since"];
    conditions.iter().any(|name| request.field(name).is_some())
}

/// The length of `bytes=FIRST-LAST` or `bytes=-LENGTH` (RFC 9110 section 14.1.2).
fn part(range: &[u8]) -> Option<u64> {
    let set = std::str::from_utf8(range).ok()?.strip_prefix("bytes=")?;
    let (first, last) = set.split_once('-')?;
    let last: u64 = last.parse().ok()?;
    if first.is_empty() {
        return Some(last);
    }
    let first: u64 = first.parse().ok()?;
    last.checked_sub(first)?.checked_add(1)
}

#[cfg(test)]
mod tests {
    use tributary_proto::http::{HeadLimits, parse_request};

    use super::*;

    #[test]
    fn a_request_may_say_how_large_it_is() {
        for (head, expected) in [
            ("HEAD /x HTTP/1.1|Host: a", SizeHint::Answer(0)),
            ("GET /x HTTP/1.1|Host: a", SizeHint::Nothing),
            ("GET /x HTTP/1.1|Host: a|Range: bytes=10-19", SizeHint::Answer(10)),
            ("GET /x HTTP/1.1|Host: a|Range: bytes=-5", SizeHint::Answer(5)),
            ("GET /x HTTP/1.1|Host: a|Range: bytes=10-", SizeHint::Part),
            ("GET /x HTTP/1.1|Host: a|Range: bytes=9-1", SizeHint::Part),
            ("GET /x HTTP/1.1|Host: a|Range: bytes=0-1,5-6", SizeHint::Part),
            ("GET /x HTTP/1.1|Host: a|Range: lines=0-1", SizeHint::Part),
            ("GET /x HTTP/1.1|Host: a|If-None-Match: *", SizeHint::Part),
            ("PUT /x HTTP/1.1|Host: a|Content-Length: 7", SizeHint::Upload(7)),
            ("PUT /x HTTP/1.1|Host: a|Content-Length: 0", SizeHint::Nothing),
            (
                "PUT /x HTTP/1.1|Host: a|Transfer-Encoding: chunked",
                SizeHint::SomeUpload,
            ),
        ] {
            let bytes = format!("{head}\r\n\r\n").replace('|', "\r\n");
            let parsed = parse_request(bytes.as_bytes(), &HeadLimits::default());
            let request = parsed.expect("accepted").expect("whole").0;
            assert_eq!(size_hint(&request), expected, "{head}");
        }
    }
}
