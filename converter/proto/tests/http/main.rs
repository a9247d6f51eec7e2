//! The HTTP/1.1 codec: tables of cases, each whole, byte by byte and with more bytes behind it.

mod chunks;
mod exchange;
mod exchange_model;
mod forwarding;
mod properties;
mod requests;
mod responses;
mod smuggling;

use tributary_proto::http::{
    BadResponse, HeadLimits, HeadReader, Hop, Pseudonym, Refused, Request, RequestContext,
    Response, parse_request,
};

const BEHIND: &[u8] = b"GET http://behind.example/ HTTP/1.1\r\nHost: behind.example\r\n\r\n";

fn limits() -> HeadLimits {
    HeadLimits {
        pseudonym: Some(pseudonym()),
        ..HeadLimits::default()
    }
}

fn pseudonym() -> Pseudonym {
    Pseudonym::new("tributary-7f3a").unwrap()
}

/// Shows a reader the bytes one by one, then asks once more for all that is left.
fn drip<T, E>(
    bytes: &[u8],
    mut read: impl FnMut(&[u8]) -> Result<Option<T>, E>,
) -> Result<Option<T>, E> {
    for end in 0..bytes.len() {
        match read(&bytes[..end]) {
            Ok(None) => {}
            decided => return decided,
        }
    }
    read(bytes)
}

/// The request at the start of `bytes`, found to be the same whole, byte by byte, at every cut in two, and with another
/// request behind it.
fn read_request(bytes: &[u8], limits: &HeadLimits) -> Result<Option<(Request, usize)>, Refused> {
    let shape = |read: &Result<Option<(Request, usize)>, Refused>| format!("{read:?}");
    let whole = parse_request(bytes, limits);
    let mut reader = HeadReader::new();
    assert_eq!(
        shape(&drip(bytes, |seen| reader.request(seen, limits))),
        shape(&whole),
        "byte by byte"
    );
    for cut in 0..bytes.len() {
        let mut reader = HeadReader::new();
        let read = match reader.request(&bytes[..cut], limits) {
            Ok(None) => reader.request(bytes, limits),
            decided => decided,
        };
        assert_eq!(shape(&read), shape(&whole), "cut at {cut}");
    }
    if !matches!(whole, Ok(None)) {
        let with_more = [bytes, BEHIND].concat();
        assert_eq!(
            shape(&parse_request(&with_more, limits)),
            shape(&whole),
            "with a request behind it"
        );
    }
    whole
}

/// The same for a response.
fn read_response(
    bytes: &[u8],
    awaited: RequestContext,
) -> Result<Option<(Response, usize)>, BadResponse> {
    let limits = limits();
    let shape = |read: &Result<Option<(Response, usize)>, BadResponse>| format!("{read:?}");
    let whole = HeadReader::new().response(bytes, awaited, &limits);
    let mut reader = HeadReader::new();
    assert_eq!(
        shape(&drip(bytes, |seen| reader.response(seen, awaited, &limits))),
        shape(&whole),
        "byte by byte"
    );
    if !matches!(whole, Ok(None)) {
        let with_more = [bytes, b"HTTP/1.1 200 OK\r\n\r\n"].concat();
        let read = HeadReader::new().response(&with_more, awaited, &limits);
        assert_eq!(shape(&read), shape(&whole), "with a response behind it");
    }
    whole
}

fn accepted(bytes: &[u8]) -> Request {
    let (request, used) = read_request(bytes, &limits())
        .expect("accepted")
        .expect("complete");
    assert_eq!(used, bytes.len());
    request
}

/// What the origin server gets, as text.
fn forwarded(request: &Request) -> String {
    let mut out = Vec::new();
    request
        .forward(
            &Hop {
                pseudonym: Some(&pseudonym()),
                keep_alive: true,
            },
            &mut out,
        )
        .expect("forwarded");
    String::from_utf8_lossy(&out).into_owned()
}
