//! What a response means, which ones are bad, and what the client gets.

use tributary_proto::http::{
    Body, Delivery, HeadReader, MalformedFields, Refused, RequestContext, Response, ResponseBodyRule, Version,
};

use super::{clock, limits, read_response};

const GET: RequestContext = RequestContext {
    content: ResponseBodyRule::Framed,
    upgrade: false,
    version: Version::Http11,
    keep_alive: true,
    is_whole: true,
};
const HEAD: RequestContext = RequestContext {
    content: ResponseBodyRule::Absent,
    ..GET
};
const CONNECT: RequestContext = RequestContext {
    content: ResponseBodyRule::Tunnel,
    ..GET
};
const UPGRADE: RequestContext = RequestContext { upgrade: true, ..GET };
const OLD: RequestContext = RequestContext {
    version: Version::Http10,
    keep_alive: false,
    ..GET
};

fn wire(short: &str) -> String {
    short.replace('|', "\r\n") + "\r\n\r\n"
}

fn read(short: &str, awaited: RequestContext) -> Response {
    delivered(short, awaited).0
}

/// What is meant, and what the client gets in the notation of the cases.
fn delivered(short: &str, awaited: RequestContext) -> (Response, String) {
    let bytes = wire(short);
    let (response, used, sent) = read_response(bytes.as_bytes(), awaited)
        .expect(short)
        .expect("complete");
    assert_eq!(used, bytes.len());
    let sent = sent.strip_suffix("\r\n\r\n").unwrap_or_default();
    (response, sent.replace("\r\n", "|"))
}

#[test]
fn test_the_body_follows_from_method_status_and_fields() {
    #[rustfmt::skip]
    let cases = [
        (GET, "HTTP/1.1 200 OK|Content-Length: 5", Body::Length(5), true),
        (GET, "HTTP/1.1 200 OK|Content-Length: 0", Body::Length(0), true),
        (GET, "HTTP/1.1 200 OK|Content-Length: 0005", Body::Length(5), true),
        (GET, "HTTP/1.1 200 OK|Content-Length : 5", Body::Length(5), true),
        (GET, "HTTP/1.1 200 OK|Content-Length: 5|Content-Length: 5", Body::Length(5), true),
        (GET, "HTTP/1.1 200 OK|Content-Length: 5, 5,05", Body::Length(5), true),
        (GET, "HTTP/1.1 200 OK|Transfer-Encoding: Chunked", Body::Chunked, true),
        (GET, "HTTP/1.1 200 OK", Body::UntilClose, false),
        (GET, "HTTP/1.1 200 OK|Transfer-Encoding: Identity", Body::UntilClose, false),
        (GET, "HTTP/1.0 200 OK|Transfer-Encoding: identity", Body::UntilClose, false),
        (HEAD, "HTTP/1.1 200 OK|Transfer-Encoding: identity", Body::None, true),
        (GET, "HTTP/1.1 304 Not Modified|Transfer-Encoding: identity", Body::None, true),
        (GET, "HTTP/1.1 200 OK|Connection: close|Content-Length: 5", Body::Length(5), false),
        (GET, "HTTP/1.0 200 OK|Content-Length: 5", Body::Length(5), false),
        (GET, "HTTP/1.0 200 OK|Content-Length: 5|Connection: keep-alive", Body::Length(5), true),
        (GET, "HTTP/1.0 200 OK|Connection: keep-alive", Body::UntilClose, false),
        (GET, "HTTP/1.1 204 No Content", Body::None, true),
        (GET, "HTTP/1.1 204 No Content|Content-Length: 5", Body::None, true),
        (GET, "HTTP/1.1 304 Not Modified|Content-Length: 5", Body::None, true),
        (GET, "HTTP/1.1 304 Not Modified|Transfer-Encoding: chunked", Body::None, true),
        (GET, "HTTP/1.1 100 Continue|Transfer-Encoding: chunked", Body::None, true),
        (GET, "HTTP/1.1 103 Early Hints|Link: <a>", Body::None, true),
        (GET, "HTTP/1.1 999 Request denied|Content-Length: 1", Body::Length(1), true),
        (HEAD, "HTTP/1.1 200 OK|Content-Length: 5", Body::None, true),
        (HEAD, "HTTP/1.1 200 OK|Transfer-Encoding: chunked", Body::None, true),
        (HEAD, "HTTP/1.1 200 OK", Body::None, true),
        (CONNECT, "HTTP/1.1 200 OK|Content-Length: 5", Body::None, false),
        (CONNECT, "HTTP/1.1 200 OK|Content-Length: 5|Transfer-Encoding: chunked", Body::None, false),
        (CONNECT, "HTTP/1.1 403 Forbidden|Content-Length: 5", Body::Length(5), true),
        (UPGRADE, "HTTP/1.1 101 Switching Protocols|Connection: upgrade|Upgrade: websocket", Body::None, false),
        (UPGRADE, "HTTP/1.1 200 OK|Content-Length: 5", Body::Length(5), true),
    ];
    for (awaited, short, body, keep_alive) in cases {
        let response = read(short, awaited);
        assert_eq!((response.body, response.keep_alive), (body, keep_alive), "{short}");
    }
}

#[test]
fn test_tunnels_and_informational_responses_are_told_apart() {
    #[rustfmt::skip]
    let cases = [
        (GET, "HTTP/1.1 100 Continue", true, false),
        (GET, "HTTP/1.1 200 OK", false, false),
        (CONNECT, "HTTP/1.1 200 OK", false, true),
        (CONNECT, "HTTP/1.1 100 Continue", true, false),
        (CONNECT, "HTTP/1.1 407 No", false, false),
        (UPGRADE, "HTTP/1.1 101 Yes|Connection: upgrade|Upgrade: x", false, true),
    ];
    for (awaited, short, is_informational, switching_protocols) in cases {
        let response = read(short, awaited);
        assert_eq!(
            (response.is_informational(), response.switching_protocols),
            (is_informational, switching_protocols)
        );
    }
}

#[test]
fn test_ambiguous_responses_are_bad() {
    #[rustfmt::skip]
    let heads = [
        ("both lengths", "HTTP/1.1 200 OK|Content-Length: 5|Transfer-Encoding: chunked"),
        ("lengths that differ", "HTTP/1.1 200 OK|Content-Length: 5|Content-Length: 6"),
        ("lengths that differ in a list", "HTTP/1.1 200 OK|Content-Length: 5, 6"),
        ("an empty length", "HTTP/1.1 200 OK|Content-Length:"),
        ("a length of commas", "HTTP/1.1 200 OK|Content-Length: ,"),
        ("an empty length beside a good one", "HTTP/1.1 200 OK|Content-Length: 5|Content-Length:"),
        ("a signed length", "HTTP/1.1 200 OK|Content-Length: +5"),
        ("a length of 2^63", "HTTP/1.1 200 OK|Content-Length: 9223372036854775808"),
        ("an alias of a length", "HTTP/1.1 200 OK|Content_Length: 5"),
        ("Transfer-Encoding in 1.0", "HTTP/1.0 200 OK|Transfer-Encoding: chunked"),
        ("Transfer-Encoding twice", "HTTP/1.1 200 OK|Transfer-Encoding: chunked|Transfer-Encoding: chunked"),
        ("identity twice", "HTTP/1.1 200 OK|Transfer-Encoding: identity|Transfer-Encoding: identity"),
        ("identity and a length", "HTTP/1.1 200 OK|Transfer-Encoding: identity|Content-Length: 5"),
        ("identity, chunked", "HTTP/1.1 200 OK|Transfer-Encoding: identity, chunked"),
        ("gzip, chunked", "HTTP/1.1 200 OK|Transfer-Encoding: gzip, chunked"),
        ("chunked, gzip", "HTTP/1.1 200 OK|Transfer-Encoding: chunked, gzip"),
        ("an unasked 101", "HTTP/1.1 101 Yes|Connection: upgrade|Upgrade: websocket"),
        ("status of two digits", "HTTP/1.1 20 OK"),
        ("status of four digits", "HTTP/1.1 2000 OK"),
        ("status 99", "HTTP/1.1 099 OK"),
        ("status with a sign", "HTTP/1.1 +20 OK"),
        ("two spaces", "HTTP/1.1  200 OK"),
        ("HTTP/2.0", "HTTP/2.0 200 OK"),
        ("ICY", "ICY 200 OK"),
        ("small letters", "http/1.1 200 OK"),
        ("a request", "GET / HTTP/1.1"),
        ("a fold", "HTTP/1.1 200 OK|A: b| c"),
        ("bare LF", "HTTP/1.1 200 OK\nA: b"),
        ("bare CR", "HTTP/1.1 200 OK|A: b\rc"),
        ("NUL in the phrase", "HTTP/1.1 200 O\0K"),
        ("NUL in a length", "HTTP/1.1 200 OK|Content-Length: 5\0"),
        ("NUL in the name of a length", "HTTP/1.1 200 OK|Content-\0Length: 5"),
        ("a length behind a space", "HTTP/1.1 200 OK|X Content-Length: 5"),
        ("a length before another word", "HTTP/1.1 200 OK|Content-Length x: 5"),
        ("a length without a colon", "HTTP/1.1 200 OK|Content-Length 5"),
        ("an alias of a coding", "HTTP/1.1 200 OK|Transfer\x0bEncoding: chunked"),
        ("a Connection of a control character", "HTTP/1.1 200 OK|Connection: close\x01"),
        ("a fold behind a malformed field", "HTTP/1.1 200 OK|A B: c| Content-Length: 5"),
        ("an empty line before it", "|HTTP/1.1 200 OK"),
        ("a Connection that is no list", "HTTP/1.1 200 OK|Connection: a b"),
    ];
    for (what, short) in heads {
        let awaited = if what.ends_with("HEAD") { HEAD } else { GET };
        let bad = read_response(wire(short).as_bytes(), awaited).expect_err(what);
        assert_eq!(Refused::from(bad).status, 502);
    }
}

#[test]
fn test_a_101_must_say_what_it_switches_to() {
    for short in [
        "HTTP/1.1 101 Yes",
        "HTTP/1.1 101 Yes|Upgrade: x",
        "HTTP/1.1 101 Yes|Connection: upgrade",
    ] {
        assert!(read_response(wire(short).as_bytes(), UPGRADE).is_err(), "{short}");
    }
}

/// A HEAD's response and a 304 have no body, whatever they say of one; what is not understood of that is not passed on.
#[test]
fn test_where_no_body_can_be_no_framing_is_bad() {
    for fields in [
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: chunked|Content-Length: 5",
        "Content-Length: 5|Content-Length: 6",
        "Content-Length: x",
    ] {
        for (awaited, status) in [(HEAD, 200), (GET, 304)] {
            let head = format!("HTTP/1.1 {status} OK|Date: x|{fields}");
            let (response, sent) = delivered(&head, awaited);
            assert_eq!((response.body, response.keep_alive), (Body::None, false), "{head}");
            assert!(response.delivery.keep_alive, "{head}");
            assert_eq!(sent, format!("HTTP/1.1 {status} OK|Date: x|Via: 1.1 tributary-7f3a"));
        }
    }
}

/// Old servers send such lines. The rest of the response is passed on, and its connection serves no other request.
#[test]
fn test_a_malformed_field_that_does_not_frame_is_left_out() {
    for line in [
        "Secured by Excellent Serv : x",
        "A",
        ": a",
        "A B: c",
        "A: b\0c",
        "HTTP/1.1 200 OK",
    ] {
        let head = format!("HTTP/1.1 200 OK|Date: x|{line}|Content-Length: 5|B: c");
        let (response, sent) = delivered(&head, GET);
        let malformed = MalformedFields {
            count: 1,
            first: line.as_bytes().into(),
        };
        assert_eq!(response.malformed, malformed);
        assert_eq!((response.body, response.keep_alive), (Body::Length(5), false), "{line}");
        assert!(response.delivery.keep_alive);
        assert_eq!(
            sent,
            "HTTP/1.1 200 OK|Date: x|B: c|Content-Length: 5|Via: 1.1 tributary-7f3a"
        );
    }
}

#[test]
fn test_a_response_may_have_many_fields() {
    let fields = "|Link: </a>; rel=preload".repeat(1000);
    let (_, sent) = delivered(&format!("HTTP/1.1 200 OK{fields}"), GET);
    assert!(sent.starts_with(&format!("HTTP/1.1 200 OK{fields}|Date")));
}

#[test]
fn test_an_oversized_response_head_is_bad() {
    let long = format!("HTTP/1.1 200 OK\r\nA: {}", "a".repeat(64 * 1024));
    let mut out = Vec::new();
    let read = HeadReader::new().response(long.as_bytes(), GET, &limits(), clock, &mut out);
    assert!(read.is_err());
}

#[test]
fn test_responses_are_relayed_as_the_table_says() {
    const DATE: &str = "|Date: Sun, 06 Nov 1994 08:49:37 GMT";
    const VIA: &str = "|Via: 1.1 tributary-7f3a";
    #[rustfmt::skip]
    let cases = [
        (GET, "HTTP/1.1 200 OK|Date: x|Content-Length: 5", format!("HTTP/1.1 200 OK|Date: x|Content-Length: 5{VIA}")),
        (GET, "HTTP/1.1 200|Content-Length: 5,5", format!("HTTP/1.1 200 {DATE}|Content-Length: 5{VIA}")),
        (GET, "HTTP/1.1 200 OK|Date: x|A : b", format!("HTTP/1.1 200 OK|Date: x|A: b{VIA}|Connection: close")),
        (GET, "HTTP/1.0 404 No|Connection: keep-alive, X-A|X-A: 1|Keep-Alive: 1|Proxy-Authenticate: Basic|Content-Length: 5|Date: x", "HTTP/1.1 404 No|Date: x|Content-Length: 5|Via: 1.0 tributary-7f3a".to_owned()),
        (GET, "HTTP/1.1 200 OK|Date: x|Trailer: A|Transfer-Encoding: Chunked|Via: 1.1 b", format!("HTTP/1.1 200 OK|Date: x|Trailer: A|Via: 1.1 b|Transfer-Encoding: chunked{VIA}")),
        (OLD, "HTTP/1.1 200 OK|Date: x|Trailer: A|Transfer-Encoding: chunked", format!("HTTP/1.1 200 OK|Date: x{VIA}|Connection: close")),
        (HEAD, "HTTP/1.1 200 OK|Date: x|Content-Length: 5", format!("HTTP/1.1 200 OK|Date: x|Content-Length: 5{VIA}")),
        (GET, "HTTP/1.1 204 No|Date: x|Content-Length: 5", format!("HTTP/1.1 204 No|Date: x{VIA}")),
        (GET, "HTTP/1.1 304 No|Date: x|Content-Length: 5", format!("HTTP/1.1 304 No|Date: x|Content-Length: 5{VIA}")),
        (RequestContext { keep_alive: false, ..GET }, "HTTP/1.1 103 Hints", format!("HTTP/1.1 103 Hints{VIA}")),
        (GET, "HTTP/1.1 100 Continue|Transfer-Encoding: chunked", format!("HTTP/1.1 100 Continue{VIA}")),
        (UPGRADE, "HTTP/1.1 101 Yes|Upgrade: websocket|Connection: Upgrade|A: b", format!("HTTP/1.1 101 Yes|A: b{VIA}|Connection: upgrade|Upgrade: websocket")),
        (UPGRADE, "HTTP/1.1 426 No|Date: x|Upgrade: websocket|Connection: Upgrade|Content-Length: 0", format!("HTTP/1.1 426 No|Date: x|Content-Length: 0{VIA}")),
    ];
    for (awaited, received, sent) in cases {
        assert_eq!(delivered(received, awaited).1, sent, "{received}");
    }
}

#[test]
fn test_delivery_follows_from_body_and_client() {
    let chunked = "HTTP/1.1 200 OK|Transfer-Encoding: chunked";
    let delivery = |send, decode, keep_alive| Delivery {
        send,
        decode,
        keep_alive,
    };
    #[rustfmt::skip]
    let cases = [
        (GET, chunked, delivery(true, false, true)),
        (OLD, chunked, delivery(true, true, false)),
        (RequestContext { keep_alive: false, ..GET }, chunked, delivery(true, false, false)),
        (GET, "HTTP/1.1 200 OK", delivery(true, false, false)),
        (GET, "HTTP/1.1 200 OK|Connection: close|Content-Length: 5", delivery(true, false, true)),
        (GET, "HTTP/1.1 100 Continue", delivery(true, false, true)),
        (OLD, "HTTP/1.1 100 Continue", delivery(false, false, false)),
        (HEAD, "HTTP/1.1 200 OK", delivery(true, false, true)),
        (RequestContext { version: Version::Http10, ..HEAD }, chunked, delivery(true, false, true)),
        (CONNECT, "HTTP/1.1 200 OK", delivery(true, false, false)),
        (RequestContext { is_whole: false, ..GET }, chunked, delivery(true, false, true)),
        (RequestContext { is_whole: false, ..GET }, "HTTP/1.1 413 No|Content-Length: 0", delivery(true, false, false)),
    ];
    for (awaited, short, expected) in cases {
        assert_eq!(read(short, awaited).delivery, expected, "{short}, {awaited:?}");
    }
}
