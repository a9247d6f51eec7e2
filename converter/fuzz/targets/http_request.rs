//! Heads of requests, and the heads that the proxy makes of them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tributary_fuzz::check;
use tributary_fuzz::http::{Head, SMALL_LIMITS, WHOLE};
use tributary_proto::http::{Body, HeadReader, Method, Refused, Request, RequestTarget, Version, parse_request};

/// What can be compared of a request, with the head that goes on.
type View = (
    Method,
    RequestTarget,
    Version,
    Body,
    [bool; 3],
    Option<u32>,
    Option<Vec<u8>>,
);

fn view(request: &Request) -> View {
    let flags = [request.keep_alive, request.expect_continue, request.upgrade];
    (
        request.method.clone(),
        request.target.clone(),
        request.version,
        request.body,
        flags,
        request.max_forwards,
        request.forwarded().ok().map(|(_, head)| head.to_vec()),
    )
}

fn parse(bytes: &[u8]) -> Result<Option<(View, usize)>, Refused> {
    let parsed = parse_request(bytes, &SMALL_LIMITS)?;
    Ok(parsed.map(|(request, consumed)| (view(&request), consumed)))
}

fuzz_target!(|data: &[u8]| {
    // Two empty lines may come before a request.
    let parsed = check(data, SMALL_LIMITS.head + 5, parse);
    check_pieces(data);
    if parsed.is_some() {
        let (request, _) = parse_request(data, &SMALL_LIMITS).expect("valid").expect("whole");
        check_forwarded(&request);
    }
});

/// A reader that gets the head byte by byte says what one says that gets it whole.
fn check_pieces(data: &[u8]) {
    let whole = parse_request(data, &SMALL_LIMITS);
    let mut reader = HeadReader::new();
    for end in 0..=data.len() {
        match reader.request(&data[..end], &SMALL_LIMITS) {
            Ok(None) => continue,
            Ok(Some((request, consumed))) => {
                let (expected, length) = whole.expect("valid").expect("whole");
                assert_eq!((view(&request), consumed), (view(&expected), length));
            }
            Err(refused) => {
                assert_eq!(whole.expect_err("refused in pieces"), refused);
                assert_eq!(reader.request(data, &SMALL_LIMITS).err(), Some(refused));
                let mut response = Vec::new();
                refused.write(&mut response);
                assert!(response.starts_with(b"HTTP/1.1 "));
            }
        }
        return;
    }
    assert!(matches!(whole, Ok(None)));
}

/// What is forwarded is one unambiguous request, and the same.
fn check_forwarded(request: &Request) {
    let Ok((_, out)) = request.forwarded() else {
        return;
    };
    let head = Head::read(out);
    assert_eq!(head.count(b"host"), 1);
    assert_eq!(head.body(), request.body);
    let (parsed, consumed) = parse_request(out, &WHOLE).expect("valid").expect("whole");
    assert_eq!(consumed, out.len());
    assert_eq!((&parsed.method, parsed.body), (&request.method, request.body));
    // The one of OPTIONS for a whole server is no path of the request that goes on.
    if request.path() != "*" {
        assert_eq!(parsed.path(), request.path());
    }
    assert_eq!(parsed.upgrade, request.upgrade);
    assert_eq!(parsed.expect_continue, request.expect_continue);
    assert_eq!(parsed.keep_alive, request.keep_alive || request.upgrade);
}
