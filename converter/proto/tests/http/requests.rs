//! What a request means, and which ones are refused with which status.

use tributary_proto::host::Host;
use tributary_proto::http::{Authority, Body, HeadLimits, HeadReader, Method, RequestTarget, Version, parse_request};

use super::{BEHIND, accepted, limits, read_request};

fn get(target: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: example.com\r\n\r\n").into_bytes()
}

fn name(name: &str, port: u16) -> Authority {
    Authority {
        host: Host::Name(name.into()),
        port,
    }
}

#[test]
fn test_each_form_of_target_has_its_meaning() {
    let v4 = |port| Authority {
        host: Host::V4([192, 0, 2, 7].into()),
        port,
    };
    let v6 = |port| Authority {
        host: Host::V6("2001:db8::1".parse().unwrap()),
        port,
    };
    #[rustfmt::skip]
    let cases = [
        ("http://example.com/", name("example.com", 80), "/"),
        ("http://example.com", name("example.com", 80), "/"),
        ("HTTP://EXAMPLE.com/A", name("example.com", 80), "/A"),
        ("http://example.com?q", name("example.com", 80), "/?q"),
        ("http://example.com:8080/a?b=c%20d", name("example.com", 8080), "/a?b=c%20d"),
        ("http://example.com:/", name("example.com", 80), "/"),
        ("http://example.com:65535/", name("example.com", 65535), "/"),
        ("http://example.com./", name("example.com.", 80), "/"),
        ("http://a_b.example/", name("a_b.example", 80), "/"),
        ("http://xn--bcher-kva.example/", name("xn--bcher-kva.example", 80), "/"),
        ("http://3com.com/", name("3com.com", 80), "/"),
        ("http://1.2.3.four/", name("1.2.3.four", 80), "/"),
        ("http://192.0.2.7/", v4(80), "/"),
        ("http://192.0.2.7:81/", v4(81), "/"),
        ("http://[2001:db8::1]/", v6(80), "/"),
        ("http://[2001:DB8:0::1]:81/", v6(81), "/"),
        ("http://example.com/a|b[c]{d}^e\\f", name("example.com", 80), "/a|b[c]{d}^e\\f"),
        ("http://example.com//evil.example/@x", name("example.com", 80), "//evil.example/@x"),
            ];
    for (text, authority, path) in cases {
        let request = accepted(&get(text));
        assert_eq!(request.target, RequestTarget::Absolute(authority), "{text}");
        assert_eq!(request.path(), path, "{text}");
    }
    let request = accepted(&get("/a?b"));
    let of_host = RequestTarget::Origin(Some(name("example.com", 80)));
    assert_eq!((request.target.clone(), request.path()), (of_host, "/a?b"));
    let request = accepted(b"GET /a?b HTTP/1.0\r\n\r\n");
    assert_eq!(request.target, RequestTarget::Origin(None));
}

#[test]
fn test_connect_names_an_authority_with_a_port() {
    #[rustfmt::skip]
    let cases = [
        ("example.com:443", name("example.com", 443)),
        ("192.0.2.7:1", Authority { host: Host::V4([192, 0, 2, 7].into()), port: 1, }),
        ("[::1]:22", Authority { host: Host::V6(std::net::Ipv6Addr::LOCALHOST), port: 22, }),
    ];
    for (text, expected) in cases {
        let request = accepted(format!("CONNECT {text} HTTP/1.1\r\nHost: {text}\r\n\r\n").as_bytes());
        assert_eq!(request.method, Method::Connect, "{text}");
        assert_eq!(request.target, RequestTarget::Connect(expected), "{text}");
    }
}

#[test]
fn test_targets_are_refused_with_the_right_status() {
    #[rustfmt::skip]
    let cases = [
        (400, "user information", "http://user@example.com/"),
        (400, "user information with a password", "http://user:pass@example.com/"),
        (400, "an empty user", "http://@example.com/"),
        (400, "fragment", "http://example.com/#top"),
        (400, "fragment after the authority", "http://example.com#@evil.example/"),
        (400, "port 0", "http://example.com:0/"),
        (400, "port 65536", "http://example.com:65536/"),
        (400, "port with a sign", "http://example.com:+80/"),
        (400, "port with a leading zero", "http://example.com:080/"),
        (400, "port in hexadecimal", "http://example.com:0x50/"),
        (400, "two ports", "http://example.com:80:80/"),
        (400, "no authority", "http:///path"),
        (400, "no slashes", "http:example.com/"),
        (400, "one slash", "http:/example.com/"),
        (400, "authority-form in a GET", "example.com:80"),
        (400, "asterisk-form in a GET", "*"),
        (400, "relative path", "index.html"),
        (400, "empty scheme", "://example.com/"),
        (400, "backslash in the authority", "http://example.com\\@evil.example/"),
        (400, "percent-encoded host", "http://%65xample.com/"),
        (400, "raw UTF-8 in the host", "http://b\u{fc}cher.example/"),
        (400, "raw UTF-8 in the path", "http://example.com/\u{fc}"),
        (501, "https", "https://example.com/"),
        (501, "ftp", "ftp://example.com/"),
        (501, "ws", "ws://example.com/"),
    ];
    for (status, what, target) in cases {
        assert_eq!(
            read_request(&get(target), &limits()).unwrap_err().status,
            status,
            "{what}"
        );
    }
}

#[test]
fn test_hosts_that_resolvers_read_differently_are_refused() {
    let label = "a".repeat(64);
    let long = ["a"; 128].join(".");
    let cases = [
        ("decimal", "2130706433"),
        ("hexadecimal", "0x7f000001"),
        ("capital X at the end", "127.0X1"),
        ("hexadecimal part", "0x7f.1"),
        ("capital X", "0X7F.0.0.1"),
        ("hexadecimal last part", "127.0.0.0x1"),
        ("an empty hexadecimal number", "0x"),
        ("two parts", "127.1"),
        ("three parts", "127.0.1"),
        ("octal part", "0177.0.0.1"),
        ("octal last part", "127.0.0.01"),
        ("a part of 256", "127.0.0.256"),
        ("five parts", "1.2.3.4.5"),
        ("trailing dot behind an address", "127.0.0.1."),
        ("a name that ends in a number", "example.1"),
        ("zero", "0"),
        ("IPv6 without brackets", "::1"),
        ("IPv6 with a zone", "[fe80::1%25eth0]"),
        ("IPv6 with a bare zone", "[fe80::1%eth0]"),
        ("IPv6 that does not end", "[::1"),
        ("IPv6 with something behind it", "[::1]x"),
        ("an empty IPv6", "[]"),
        ("an address of the future", "[v1.x]"),
        ("IPv4 in brackets", "[127.0.0.1]"),
        ("empty", ""),
        ("a dot", "."),
        ("a leading dot", ".example.com"),
        ("two dots", "example..com"),
        ("two trailing dots", "example.com.."),
        ("a leading hyphen", "-a.example"),
        ("a trailing hyphen", "a-.example"),
        ("a label of 64 bytes", &label),
        ("a name of 255 bytes", &long),
        ("a star", "*.example"),
        ("a comma", "a,b"),
        ("full-width digits", "\u{ff11}27.0.0.1"),
    ];
    for (what, host) in cases {
        for head in [
            format!("GET http://{host}/ HTTP/1.1\r\nHost: example.com\r\n\r\n"),
            format!("CONNECT {host}:443 HTTP/1.1\r\nHost: example.com\r\n\r\n"),
            format!("GET http://example.com/ HTTP/1.1\r\nHost: {host}\r\n\r\n"),
        ] {
            let read = read_request(head.as_bytes(), &limits());
            assert_eq!(read.unwrap_err().status, 400, "{what}: {head}");
        }
    }
}

#[test]
fn test_framing_persistence_and_expectations_are_read() {
    type Meaning = (Version, Body, bool, bool, bool); // version, body, keep-alive, expects 100, upgrade
    let (v10, v11) = (Version::Http10, Version::Http11);
    #[rustfmt::skip]
    let cases: [(&str, Meaning); 21] = [
        ("GET / 1.1|A: b", (v11, Body::None, true, false, false)),
        ("GET / 1.1|Connection: close", (v11, Body::None, false, false, false)),
        ("GET / 1.1|Connection: x-a, CLOSE", (v11, Body::None, false, false, false)),
        ("GET / 1.1|Connection: ,,keep-alive,", (v11, Body::None, true, false, false)),
        ("GET / 1.1|Proxy-Connection: close", (v11, Body::None, true, false, false)),
        ("GET / 1.0|A: b", (v10, Body::None, false, false, false)),
        ("GET / 1.0|Connection: keep-alive", (v10, Body::None, false, false, false)),
        ("POST / 1.1|Content-Length: 0", (v11, Body::Length(0), true, false, false)),
        ("POST / 1.0|Content-Length: 5", (v10, Body::Length(5), false, false, false)),
        ("POST / 1.1|content-length:\t9223372036854775807 \t", (v11, Body::Length(i64::MAX.unsigned_abs()), true, false, false)),
        ("POST / 1.1|Transfer-Encoding: chunked", (v11, Body::Chunked, true, false, false)),
        ("POST / 1.1|transfer-encoding:ChUnKeD", (v11, Body::Chunked, true, false, false)),
        ("POST / 1.1|Expect: 100-Continue|Content-Length: 1", (v11, Body::Length(1), true, true, false)),
        ("POST / 1.0|Expect: 100-continue|Content-Length: 1", (v10, Body::Length(1), false, false, false)),
        ("GET / 1.1|Expect: 100-continue", (v11, Body::None, true, false, false)),
        ("GET / 1.1|Connection: Upgrade|Upgrade: websocket", (v11, Body::None, true, false, true)),
        ("GET / 1.0|Connection: Upgrade|Upgrade: websocket", (v10, Body::None, false, false, false)),
        ("GET / 1.1|Upgrade: websocket", (v11, Body::None, true, false, false)),
        ("GET / 1.1|Connection: upgrade|Upgrade: websocket, H2C", (v11, Body::None, true, false, false)),
        ("POST / 1.1|Connection: upgrade|Upgrade: websocket|Content-Length: 3", (v11, Body::Length(3), true, false, true)),
        ("POST / 1.1|Connection: upgrade|Upgrade: websocket|Transfer-Encoding: chunked", (v11, Body::Chunked, true, false, false)),
    ];
    for (short, expected) in cases {
        let (line, fields) = short.split_once('|').unwrap();
        let (method, version) = line.split_once(" / ").unwrap();
        let fields = fields.replace('|', "\r\n");
        let head = format!("{method} http://example.com/ HTTP/{version}\r\nHost: example.com\r\n{fields}\r\n\r\n");
        let it = accepted(head.as_bytes());
        assert_eq!(
            (it.version, it.body, it.keep_alive, it.expect_continue, it.upgrade),
            expected,
            "{short}"
        );
    }
}

#[test]
fn test_connection_options_are_bounded() {
    for (count, is_accepted) in [(32, true), (33, false)] {
        let options = vec!["x"; count].join(",");
        let head = format!("GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nConnection: {options}\r\n\r\n");
        assert_eq!(read_request(head.as_bytes(), &limits()).is_ok(), is_accepted, "{count}");
    }
}

#[test]
fn test_up_to_two_empty_lines_before_a_request_are_skipped() {
    for (empty_lines, is_accepted) in [(1, true), (2, true), (3, false)] {
        let bytes = ["\r\n".repeat(empty_lines).as_bytes(), BEHIND].concat();
        match read_request(&bytes, &limits()) {
            Ok(read) => assert_eq!(read.unwrap().1, bytes.len()),
            Err(refused) => assert_eq!(refused.status, 400),
        }
        assert_eq!(
            parse_request(&bytes, &limits()).is_ok(),
            is_accepted,
            "{empty_lines} empty lines"
        );
    }
}

#[test]
fn test_a_head_behind_too_many_empty_lines_is_refused_without_content() {
    let refused = parse_request(b"\r\n\r\n\r\nHEAD / HTTP/1.1\r\n\r\n", &limits());
    assert!(refused.expect_err("too many").to_head);
}

#[test]
fn test_one_reader_reads_pipelined_requests_one_after_the_other() {
    let bytes = [BEHIND, b"\r\n", &get("http://second.example/"), BEHIND].concat();
    let (mut reader, mut rest, mut seen) = (HeadReader::new(), &bytes[..], Vec::new());
    while let Some((request, used)) = reader.request(rest, &limits()).unwrap() {
        seen.push(request.target.authority().unwrap().to_string());
        rest = &rest[used..];
    }
    assert_eq!(seen, ["behind.example:80", "second.example:80", "behind.example:80"]);
    assert!(rest.is_empty() && !reader.has_begun());
}

#[test]
fn test_a_reader_tells_whether_a_request_has_begun() {
    let mut reader = HeadReader::new();
    for (bytes, has_begun) in [(&b""[..], false), (b"\r\n", false), (b"\r\nG", true), (b"\r\nGE", true)] {
        assert!(reader.request(bytes, &limits()).unwrap().is_none());
        assert_eq!(reader.has_begun(), has_begun, "{bytes:?}");
    }
}

#[test]
fn test_a_reader_repeats_its_error() {
    let mut reader = HeadReader::new();
    let refused = reader.request(b"GET /\n", &limits()).unwrap_err();
    assert_eq!(
        reader.request(b"GET /\nHost: a\r\n\r\n", &limits()).unwrap_err(),
        refused
    );
}

#[test]
fn test_the_limit_holds_to_the_byte() {
    let head = get("http://example.com/");
    let line = head.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let of = |head| HeadLimits { head, ..limits() };
    assert!(read_request(&head, &of(head.len())).unwrap().is_some());
    for (status, limits) in [(431, of(head.len() - 1)), (431, of(line)), (414, of(line - 1))] {
        let refused = read_request(&head, &limits).unwrap_err();
        assert_eq!(refused.status, status, "{limits:?}");
        assert!(refused.reason.contains("limits.head"), "{refused:?}");
    }
}

/// Heads are bounded by their bytes alone: neither a long request line nor many short fields are refused below that.
#[test]
fn test_long_lines_and_many_fields_are_read_up_to_the_limit() {
    let limits = HeadLimits {
        head: 256 * 1024,
        ..limits()
    };
    let long = get(&format!("http://example.com/{}", "a".repeat(200 * 1024)));
    assert!(parse_request(&long, &limits).unwrap().is_some());
    for count in [64, 65, 101, 120, 10_000] {
        let lines: Vec<_> = (0..count).map(|n| format!("A{n}: {n}\r\n")).collect();
        let fields = lines.concat();
        let head = format!("GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\n{fields}\r\n");
        let (request, _) = parse_request(head.as_bytes(), &limits).unwrap().unwrap();
        let lines = super::forwarded(&request).lines().count();
        assert_eq!(lines, count + 4, "request line, Host, Via, empty line");
        let last = format!("A{}", count - 1);
        assert_eq!(request.field(&last), Some((count - 1).to_string().as_bytes()));
        assert!(request.memory() >= super::forwarded(&request).len());
    }
}

/// What the value of Host says is no matter where the target names the server; that there is one is.
#[test]
fn test_the_host_of_a_connect_may_say_anything() {
    let connect = |fields: &str| {
        let head = format!("CONNECT [2600:77:9::2]:8080 HTTP/1.1\r\n{fields}\r\n");
        read_request(head.as_bytes(), &limits()).map(|read| read.is_some())
    };
    for host in ["2600:77:9::2:8080", "[fe80::1%eth0]:8080", "", "a b/c"] {
        assert_eq!(connect(&format!("Host: {host}\r\n")), Ok(true), "{host}");
    }
    for fields in ["", "Host: a\r\nHost: a\r\n"] {
        assert_eq!(connect(fields).unwrap_err().status, 400, "{fields}");
    }
}

#[test]
fn test_an_oversized_head_is_refused_before_it_ends() {
    #[rustfmt::skip]
    let cases = [
        (414, vec![b'A'; 1 << 20]),
        (414, [b"GET http://example.com/", &vec![b'a'; 1 << 20][..]].concat()),
        (431, [b"GET http://example.com/ HTTP/1.1\r\nA: ", &vec![b'a'; 1 << 20][..]] .concat()),
        (431, [b"GET http://example.com/ HTTP/1.1\r\n", b"A: b\r\n".repeat(100_000).as_slice()] .concat()),
    ];
    for (status, bytes) in cases {
        let mut reader = HeadReader::new();
        let (mut end, mut refused) = (0, None);
        while refused.is_none() {
            end += 1000;
            refused = reader.request(&bytes[..end], &limits()).err();
        }
        assert_eq!(refused.unwrap().status, status);
        assert!(end <= limits().head + 1000);
        assert_eq!(parse_request(&bytes, &limits()).unwrap_err(), refused.unwrap());
    }
}

#[test]
fn test_a_head_at_one_byte_at_a_time_is_looked_at_once() {
    let limits = HeadLimits {
        head: 4 << 20,
        ..limits()
    };
    let bytes = [
        b"GET http://example.com/ HTTP/1.1\r\nHost: a\r\nA: ",
        &vec![b'a'; 2 << 20][..],
        b"\r\n\r\n",
    ]
    .concat();
    let mut reader = HeadReader::new();
    let read = super::drip(&bytes, |seen| reader.request(seen, &limits)); // quadratic: 2^41 bytes to look at, for minutes
    assert_eq!(read.unwrap().unwrap().1, bytes.len());
}

#[test]
fn test_max_forwards_counts_in_options_only() {
    let head = |method: &str, value: &str| {
        format!("{method} http://a.example/ HTTP/1.1\r\nHost: a.example\r\nMax-Forwards: {value}\r\n\r\n")
    };
    assert_eq!(accepted(head("OPTIONS", "7").as_bytes()).max_forwards, Some(7));
    assert_eq!(
        accepted(head("OPTIONS", "99999999999").as_bytes()).max_forwards,
        Some(u32::MAX)
    );
    assert!(accepted(head("OPTIONS", "0").as_bytes()).is_for_proxy());
    assert!(!accepted(head("GET", "0").as_bytes()).is_for_proxy());
    assert_eq!(
        read_request(head("OPTIONS", "-1").as_bytes(), &limits())
            .unwrap_err()
            .status,
        400
    );
    assert!(accepted(b"OPTIONS * HTTP/1.1\r\nHost: proxy.example\r\n\r\n").is_for_proxy());
}

#[test]
fn test_a_request_that_was_here_before_is_a_loop() {
    let cases = [
        (true, "1.1 tributary-7f3a"),
        (true, "1.0 fred, HTTP/1.1 Tributary-7F3A (a, b)"),
        (true, "1.1 a (x \\) y, 1.1 z), 1.1\ttributary-7f3a"),
        (false, "1.1 tributary"),
        (false, "1.1 tributary-7f3a:80"),
        (false, "1.1 a (1.1 tributary-7f3a, b)"),
        (false, "1.1 a (x, 1.1 tributary-7f3a, y)"),
        (false, "1.1 a (\\), 1.1 tributary-7f3a, b)"),
        (false, "1.1 a (x (y), 1.1 tributary-7f3a, z)"),
        (false, "tributary-7f3a"),
    ];
    for (is_loop, via) in cases {
        let head = format!("GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nVia: {via}\r\n\r\n");
        let read = read_request(head.as_bytes(), &limits());
        assert_eq!(
            read.map_err(|refused| refused.status).err(),
            is_loop.then_some(508),
            "{via}"
        );
    }
}

#[test]
fn test_without_a_name_via_is_neither_added_nor_looked_at() {
    let head = b"GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nVia: 1.1 tributary\r\n\r\n";
    let (request, _) = read_request(head, &HeadLimits::default()).unwrap().unwrap();
    assert_eq!(
        super::forwarded(&request),
        "GET / HTTP/1.1\r\nHost: a.example\r\nVia: 1.1 tributary\r\n\r\n"
    );
}

#[test]
fn test_fields_are_found_by_name_without_case() {
    let request =
        accepted(b"GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nUser-Agent:  x y\t\r\nEmpty:\r\n\r\n");
    assert_eq!(request.field("user-agent"), Some(&b"x y"[..]));
    assert_eq!(request.field("EMPTY"), Some(&b""[..]));
    assert_eq!(request.field("user"), None);
}
