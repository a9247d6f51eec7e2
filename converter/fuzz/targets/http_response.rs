//! Heads of responses, and the heads that the proxy makes of them.
#![no_main]

use std::time::SystemTime;

use libfuzzer_sys::fuzz_target;
use tributary_fuzz::check;
use tributary_fuzz::http::{Head, SMALL_LIMITS, WHOLE};
use tributary_proto::http::{
    BadResponse, Body, Delivery, HeadLimits, HeadReader, RequestContext, Response, ResponseBodyRule, Version,
};

const AWAITED: [RequestContext; 4] = [
    awaited(ResponseBodyRule::Framed, false, Version::Http11),
    awaited(ResponseBodyRule::Framed, true, Version::Http10),
    awaited(ResponseBodyRule::Absent, true, Version::Http11),
    awaited(ResponseBodyRule::Tunnel, false, Version::Http11),
];

const fn awaited(content: ResponseBodyRule, upgrade: bool, version: Version) -> RequestContext {
    RequestContext {
        content,
        upgrade,
        version,
        keep_alive: matches!(version, Version::Http11),
        is_whole: true,
    }
}

/// What can be compared of a response, with what the client gets of its head.
type View = (Version, u16, Body, [bool; 2], Delivery, Vec<u8>);

fn view(response: &Response, forwarded: Vec<u8>) -> View {
    let flags = [response.keep_alive, response.switching_protocols];
    (
        response.version,
        response.status,
        response.body,
        flags,
        response.delivery,
        forwarded,
    )
}

/// The response, what the client gets of its head, and the length of that.
type Parsed = Result<Option<(Response, Vec<u8>, usize)>, BadResponse>;

fn parse(reader: &mut HeadReader, bytes: &[u8], awaited: RequestContext, limits: &HeadLimits) -> Parsed {
    let mut out = Vec::new();
    let parsed = reader.response(bytes, awaited, limits, || SystemTime::UNIX_EPOCH, &mut out);
    if !matches!(parsed, Ok(Some(_))) {
        assert!(out.is_empty(), "a part of a head is forwarded");
    }
    Ok(parsed?.map(|(response, consumed)| (response, out, consumed)))
}

fn parse_whole(bytes: &[u8], awaited: RequestContext, limits: &HeadLimits) -> Parsed {
    parse(&mut HeadReader::new(), bytes, awaited, limits)
}

fuzz_target!(|data: &[u8]| {
    for awaited in AWAITED {
        check(data, SMALL_LIMITS.head + 1, |bytes| {
            let parsed = parse_whole(bytes, awaited, &SMALL_LIMITS)?;
            Ok::<_, BadResponse>(parsed.map(|(response, out, consumed)| (view(&response, out), consumed)))
        });
        if let Ok(Some((response, out, _))) = parse_whole(data, awaited, &SMALL_LIMITS) {
            check_forwarded(&response, &out, awaited);
        }
    }
    check_pieces(data);
});

/// A reader that gets the head byte by byte says what one says that gets it whole.
fn check_pieces(data: &[u8]) {
    let whole = parse_whole(data, AWAITED[0], &SMALL_LIMITS);
    let mut reader = HeadReader::new();
    for end in 0..=data.len() {
        match parse(&mut reader, &data[..end], AWAITED[0], &SMALL_LIMITS) {
            Ok(None) => continue,
            Ok(Some((response, out, consumed))) => {
                let (expected, wanted, length) = whole.expect("valid").expect("whole");
                assert_eq!((view(&response, out), consumed), (view(&expected, wanted), length));
            }
            Err(bad) => {
                assert_eq!(whole.expect_err("refused in pieces"), bad);
                let again = parse(&mut reader, data, AWAITED[0], &SMALL_LIMITS);
                assert_eq!(again.err(), Some(bad));
            }
        }
        return;
    }
    assert!(matches!(whole, Ok(None)));
}

/// What is forwarded is one unambiguous response, and the same.
fn check_forwarded(response: &Response, out: &[u8], awaited: RequestContext) {
    let delivery = response.delivery;
    assert_eq!(out.is_empty(), !delivery.send);
    if !delivery.send {
        return;
    }
    let _ = Head::read(out);
    let (parsed, _, consumed) = parse_whole(out, awaited, &WHOLE).expect("valid").expect("whole");
    assert_eq!(consumed, out.len());
    assert_eq!(
        (parsed.status, parsed.switching_protocols),
        (response.status, response.switching_protocols)
    );
    let body = if delivery.decode {
        Body::UntilClose
    } else {
        response.body
    };
    assert_eq!(parsed.body, body);
    assert!(delivery.keep_alive <= parsed.keep_alive || parsed.switching_protocols);
}
