//! Heads of requests, and the heads that the proxy makes of them.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tributary_fuzz::check;
use tributary_fuzz::http::{Head, SMALL_LIMITS, WHOLE};
use tributary_proto::http::{
    Body, HeadReader, Hop, Method, Pseudonym, Refused, Request, RequestTarget, Version,
    parse_request,
};

static PSEUDONYM: LazyLock<Pseudonym> =
    LazyLock::new(|| Pseudonym::new("next-hop").expect("a token"));

/// What can be compared of a request.
type View = (
    Method,
    RequestTarget,
    Version,
    Body,
    [bool; 3],
    Option<u32>,
    Vec<(Vec<u8>, Vec<u8>)>,
);

fn view(request: &Request) -> View {
    let flags = [request.keep_alive, request.expect_continue, request.upgrade];
    let fields = request
        .fields()
        .map(|(name, value)| (name.to_vec(), value.to_vec()))
        .collect();
    let (method, target) = (request.method.clone(), request.target.clone());
    (
        method,
        target,
        request.version,
        request.body,
        flags,
        request.max_forwards,
        fields,
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
    if parsed.is_none() {
        return;
    }
    let (request, _) = parse_request(data, &SMALL_LIMITS)
        .expect("valid")
        .expect("whole");
    for keep_alive in [false, true] {
        check_forwarded(&request, keep_alive);
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
fn check_forwarded(request: &Request, keep_alive: bool) {
    let mut out = Vec::new();
    let hop = Hop {
        pseudonym: Some(&PSEUDONYM),
        keep_alive,
    };
    if request.forward(&hop, &mut out).is_err() {
        assert!(out.is_empty());
        return;
    }
    let head = Head::read(&out);
    assert_eq!(head.count(b"host"), 1);
    assert_eq!(head.body(), request.body);
    let (parsed, consumed) = parse_request(&out, &WHOLE).expect("valid").expect("whole");
    assert_eq!(consumed, out.len());
    assert_eq!(
        (&parsed.method, parsed.body),
        (&request.method, request.body)
    );
    assert_eq!(parsed.upgrade, request.upgrade);
    assert_eq!(parsed.expect_continue, request.expect_continue);
    assert_eq!(parsed.keep_alive, keep_alive || request.upgrade);
}
