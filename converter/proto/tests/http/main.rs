//! The HTTP/1.1 codec: tables of cases, each whole, byte by byte and with more bytes behind it.

mod chunks;
mod exchange;
mod exchange_model;
mod forwarding;
mod properties;
mod requests;
mod responses;
mod script;
mod smuggling;

use std::time::{Duration, SystemTime};

use tributary_proto::http::{
    BadResponse, HeadLimits, HeadReader, Pseudonym, Refused, Request, RequestContext, Response, parse_request,
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

fn clock() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777) // RFC 9110 section 5.6.7
}

/// Shows a reader the bytes one by one, then asks once more for all that is left.
fn drip<T, E>(bytes: &[u8], mut read: impl FnMut(&[u8]) -> Result<Option<T>, E>) -> Result<Option<T>, E> {
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

/// A response, how many bytes its head took, and what the client gets of it.
type ReadResponse = Result<Option<(Response, usize, String)>, BadResponse>;

/// The same for a response. What is bad writes nothing.
fn read_response(bytes: &[u8], awaited: RequestContext) -> ReadResponse {
    let limits = limits();
    let read = |reader: &mut HeadReader, bytes: &[u8]| -> ReadResponse {
        let mut out = Vec::new();
        let read = reader.response(bytes, awaited, &limits, clock, &mut out);
        assert!(out.is_empty() || matches!(read, Ok(Some(_))));
        let sent = String::from_utf8(out).unwrap();
        Ok(read?.map(|(response, used)| (response, used, sent)))
    };
    let shape = |read: &ReadResponse| format!("{read:?}");
    let whole = read(&mut HeadReader::new(), bytes);
    let mut reader = HeadReader::new();
    assert_eq!(
        shape(&drip(bytes, |seen| read(&mut reader, seen))),
        shape(&whole),
        "byte by byte"
    );
    if !matches!(whole, Ok(None)) {
        let with_more = [bytes, b"HTTP/1.1 200 OK\r\n\r\n"].concat();
        let read = read(&mut HeadReader::new(), &with_more);
        assert_eq!(shape(&read), shape(&whole), "with a response behind it");
    }
    whole
}

fn accepted(bytes: &[u8]) -> Request {
    let (request, used) = read_request(bytes, &limits()).expect("accepted").expect("complete");
    assert_eq!(used, bytes.len());
    request
}

/// What the origin server gets, as text.
fn forwarded(request: &Request) -> String {
    let (_, head) = request.forwarded().expect("forwarded");
    String::from_utf8_lossy(head).into_owned()
}
