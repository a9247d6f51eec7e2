//! Heads of responses, and the heads that the proxy makes of them.
#![no_main]

use std::sync::LazyLock;
use std::time::SystemTime;

use libfuzzer_sys::fuzz_target;
use tributary_fuzz::check;
use tributary_fuzz::http::{Head, SMALL_LIMITS, WHOLE};
use tributary_proto::http::{
    BadResponse, Body, HeadReader, Hop, Pseudonym, RequestContext, Response, ResponseBodyRule,
    Version, parse_response,
};

static PSEUDONYM: LazyLock<Pseudonym> =
    LazyLock::new(|| Pseudonym::new("next-hop").expect("a token"));

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
    }
}

/// What can be compared of a response.
type View = (Version, u16, Body, [bool; 2], Vec<(Vec<u8>, Vec<u8>)>);

fn view(response: &Response) -> View {
    let fields = response
        .fields()
        .map(|(name, value)| (name.to_vec(), value.to_vec()))
        .collect();
    let flags = [response.keep_alive, response.switching_protocols];
    (
        response.version,
        response.status,
        response.body,
        flags,
        fields,
    )
}

fuzz_target!(|data: &[u8]| {
    for awaited in AWAITED {
        let parse = |bytes: &[u8]| -> Result<Option<(View, usize)>, BadResponse> {
            let parsed = parse_response(bytes, awaited, &SMALL_LIMITS)?;
            Ok(parsed.map(|(response, consumed)| (view(&response), consumed)))
        };
        let parsed = check(data, SMALL_LIMITS.head + 1, parse);
        if parsed.is_some() {
            let (response, _) = parse_response(data, awaited, &SMALL_LIMITS)
                .expect("valid")
                .expect("whole");
            check_forwarded(&response, awaited);
        }
    }
    check_pieces(data);
});

/// A reader that gets the head byte by byte says what one says that gets it whole.
fn check_pieces(data: &[u8]) {
    let whole = parse_response(data, AWAITED[0], &SMALL_LIMITS);
    let mut reader = HeadReader::new();
    for end in 0..=data.len() {
        match reader.response(&data[..end], AWAITED[0], &SMALL_LIMITS) {
            Ok(None) => continue,
            Ok(Some((response, consumed))) => {
                let (expected, length) = whole.expect("valid").expect("whole");
                assert_eq!((view(&response), consumed), (view(&expected), length));
            }
            Err(bad) => {
                assert_eq!(whole.expect_err("refused in pieces"), bad);
                assert_eq!(
                    reader.response(data, AWAITED[0], &SMALL_LIMITS).err(),
                    Some(bad)
                );
            }
        }
        return;
    }
    assert!(matches!(whole, Ok(None)));
}

/// What is forwarded is one unambiguous response, and the same.
fn check_forwarded(response: &Response, awaited: RequestContext) {
    let mut out = Vec::new();
    let delivery = response.delivery(awaited);
    let hop = Hop {
        pseudonym: Some(&PSEUDONYM),
        keep_alive: delivery.keep_alive,
    };
    response.forward(awaited, &hop, || SystemTime::UNIX_EPOCH, &mut out);
    let _ = Head::read(&out);
    let (parsed, consumed) = parse_response(&out, awaited, &WHOLE)
        .expect("valid")
        .expect("whole");
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
