//! The heads that go out: requests to origin servers, refusals to clients.

use tributary_proto::http::{HeadLimits, Pseudonym, Refused, parse_request, refused};

use super::{accepted, forwarded, limits};

struct Case {
    fact: &'static str,
    received: &'static str,
    sent: &'static str,
}

const CASES: [Case; 19] = [
    Case {
        fact: "absolute-form becomes origin-form",
        received: "GET http://a.example/x?y HTTP/1.1|Host: a.example|Accept: */*",
        sent: "GET /x?y HTTP/1.1|Host: a.example|Accept: */*|Via: 1.1 tributary-7f3a",
    },
    Case {
        fact: "Host is the target's, in its canonical form",
        received: "GET http://A.example:8080/ HTTP/1.1|Host: other.example",
        sent: "GET / HTTP/1.1|Host: a.example:8080|Via: 1.1 tributary-7f3a",
    },
    Case {
        fact: "Host of an IPv6 address stands in brackets",
        received: "GET http://[2001:DB8::0:1]:80/ HTTP/1.1|Host: x",
        sent: "GET / HTTP/1.1|Host: [2001:db8::1]|Via: 1.1 tributary-7f3a",
    },
    Case {
        fact: "HTTP/1.0 is forwarded as 1.1 and its version told in Via",
        received: "GET http://a.example/ HTTP/1.0",
        sent: "GET / HTTP/1.1|Host: a.example|Via: 1.0 tributary-7f3a|Connection: close",
    },
    Case {
        fact: "hop-by-hop fields end here",
        received: "GET http://a.example/ HTTP/1.1|Host: a.example|Connection: keep-alive|Keep-Alive: timeout=5|\
                   Proxy-Connection: keep-alive|Proxy-Authorization: Basic eDp5|Proxy-Authenticate: Basic|TE: trailers|\
                   HTTP2-Settings: AAMAAABk|Trailer: x|Upgrade: websocket|A: b",
        sent: "GET / HTTP/1.1|Host: a.example|A: b|Via: 1.1 tributary-7f3a",
    },
    Case {
        fact: "what Connection names ends here",
        received: "GET http://a.example/ HTTP/1.1|Host: a.example|X-A: 1|Connection: close, x-a|x-A: 2|X-B: 3|Connection: X-B",
        sent: "GET / HTTP/1.1|Host: a.example|Via: 1.1 tributary-7f3a|Connection: close",
    },
    Case {
        fact: "the fields of others keep their order and their white space",
        received: "GET http://a.example/ HTTP/1.1|B:  1 \t 2  |Host: a.example|A: 1|B: 3|Empty:",
        sent: "GET / HTTP/1.1|Host: a.example|B: 1 \t 2|A: 1|B: 3|Empty: |Via: 1.1 tributary-7f3a",
    },
    Case {
        fact: "our Via comes last",
        received: "GET http://a.example/ HTTP/1.1|Host: a.example|Via: 1.0 fred|A: b",
        sent: "GET / HTTP/1.1|Host: a.example|Via: 1.0 fred|A: b|Via: 1.1 tributary-7f3a",
    },
    Case {
        fact: "a length is rewritten",
        received: "POST http://a.example/ HTTP/1.1|content-length:   12 |Host: a.example",
        sent: "POST / HTTP/1.1|Host: a.example|Content-Length: 12|Via: 1.1 tributary-7f3a",
    },
    Case {
        fact: "a length of zero stays",
        received: "POST http://a.example/ HTTP/1.1|Content-Length: 0|Host: a.example",
        sent: "POST / HTTP/1.1|Host: a.example|Content-Length: 0|Via: 1.1 tributary-7f3a",
    },
    Case {
        fact: "chunked stays chunked, with its Trailer",
        received: "POST http://a.example/ HTTP/1.1|Transfer-Encoding: CHUNKED|Trailer: X-Sum|Host: a.example",
        sent: "POST / HTTP/1.1|Host: a.example|Trailer: X-Sum|Transfer-Encoding: chunked|Via: 1.1 tributary-7f3a",
    },
    Case {
        fact: "an expectation is passed on when there is content",
        received: "PUT http://a.example/ HTTP/1.1|Host: a.example|Expect: 100-CONTINUE|Content-Length: 3",
        sent: "PUT / HTTP/1.1|Host: a.example|Expect: 100-continue|Content-Length: 3|Via: 1.1 tributary-7f3a",
    },
    Case {
        fact: "an expectation without content or in HTTP/1.0 is not passed on",
        received: "PUT http://a.example/ HTTP/1.0|Host: a.example|Expect: 100-continue|Content-Length: 3",
        sent: "PUT / HTTP/1.1|Host: a.example|Content-Length: 3|Via: 1.0 tributary-7f3a|Connection: close",
    },
    Case {
        fact: "an upgrade is rewritten",
        received: "GET http://a.example/ HTTP/1.1|Host: a.example|Connection: keep-alive, Upgrade, X-A|X-A: 1|\
                   Upgrade: websocket|Sec-WebSocket-Version: 13",
        sent: "GET / HTTP/1.1|Host: a.example|Sec-WebSocket-Version: 13|Via: 1.1 tributary-7f3a|Connection: upgrade|\
               Upgrade: websocket",
    },
    Case {
        fact: "an upgrade with content of known length goes on, as Docker's client sends exec",
        received: "POST http://a.example/ HTTP/1.1|Host: a.example|Upgrade: tcp|Connection: upgrade|Content-Length: 2",
        sent: "POST / HTTP/1.1|Host: a.example|Content-Length: 2|Via: 1.1 tributary-7f3a|Connection: upgrade|Upgrade: tcp",
    },
    Case {
        fact: "one with content in chunks does not",
        received: "POST http://a.example/ HTTP/1.1|Host: a.example|Upgrade: tcp|Connection: upgrade|Transfer-Encoding: chunked",
        sent: "POST / HTTP/1.1|Host: a.example|Transfer-Encoding: chunked|Via: 1.1 tributary-7f3a",
    },
    Case {
        fact: "OPTIONS without a path asks for the whole server",
        received: "OPTIONS http://a.example HTTP/1.1|Host: a.example",
        sent: "OPTIONS * HTTP/1.1|Host: a.example|Via: 1.1 tributary-7f3a",
    },
    Case {
        fact: "Max-Forwards of an OPTIONS goes down by one",
        received: "OPTIONS http://a.example/ HTTP/1.1|Max-Forwards: 3|Host: a.example",
        sent: "OPTIONS / HTTP/1.1|Host: a.example|Max-Forwards: 2|Via: 1.1 tributary-7f3a",
    },
    Case {
        fact: "an unknown method is passed on, and Max-Forwards with it",
        received: "M-SEARCH http://a.example/ HTTP/1.1|Max-Forwards: 3|Host: a.example",
        sent: "M-SEARCH / HTTP/1.1|Host: a.example|Max-Forwards: 3|Via: 1.1 tributary-7f3a",
    },
];

fn wire(short: &str) -> String {
    short.replace('|', "\r\n") + "\r\n\r\n"
}

/// Where the server's connection serves other clients next: after what may be sent again, and has no content.
#[test]
fn a_server_is_told_of_a_clients_last_request_if_nobody_comes_after_it() {
    let limits = HeadLimits {
        outlives_client: true,
        ..limits()
    };
    for (last, is_told) in [
        ("GET http://a.example/ HTTP/1.1\r\nConnection: close\r\n", false),
        ("GET http://a.example/ HTTP/1.0\r\n", false),
        ("POST http://a.example/ HTTP/1.1\r\nConnection: close\r\n", true),
        (
            "PUT http://a.example/ HTTP/1.1\r\nConnection: close\r\nContent-Length: 1\r\n",
            true,
        ),
    ] {
        let head = format!("{last}Host: a.example\r\n\r\n");
        let parsed = parse_request(head.as_bytes(), &limits).expect("a request");
        let (request, _) = parsed.expect("a whole one");
        let (_, head) = request.forwarded().expect("forwarded");
        assert!(!request.keep_alive);
        let says_so = String::from_utf8_lossy(head).contains("Connection: close");
        assert_eq!(says_so, is_told, "{last}");
    }
}

#[test]
fn test_requests_are_forwarded_as_the_table_says() {
    for Case { fact, received, sent } in CASES {
        assert_eq!(forwarded(&accepted(wire(received).as_bytes())), wire(sent), "{fact}");
    }
}

#[test]
fn test_bytes_beyond_ascii_pass_unchanged_in_values() {
    let request = accepted(b"GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nA: \xff\x80\r\n\r\n");
    let (_, out) = request.forwarded().unwrap();
    assert!(out.windows(7).any(|part| part == b"A: \xff\x80\r\n"));
}

#[test]
fn test_only_absolute_form_is_forwarded() {
    for head in [
        "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: a.example\r\n\r\n",
        "OPTIONS http://a.example/ HTTP/1.1\r\nHost: a.example\r\nMax-Forwards: 0\r\n\r\n",
    ] {
        let refused = accepted(head.as_bytes()).forwarded().unwrap_err();
        assert_eq!(refused.status, 400, "{head}");
    }
}

#[test]
fn test_a_path_is_for_the_host_that_the_request_names() {
    let received = "GET /x?y HTTP/1.1|Host: A.example:8080|A: b";
    let request = accepted(wire(received).as_bytes());
    let sent = "GET /x?y HTTP/1.1|Host: a.example:8080|A: b|Via: 1.1 tributary-7f3a";
    let request = request.for_origin().expect("a host");
    assert_eq!(forwarded(&request), wire(sent));
}

#[test]
fn test_a_path_without_a_host_is_for_nobody() {
    let request = accepted(wire("HEAD / HTTP/1.0").as_bytes());
    let refused = request.for_origin().expect_err("no host");
    assert_eq!((refused.status, refused.to_head), (400, true));
}

#[test]
fn test_a_refusal_is_a_whole_response() {
    let mut out = Vec::new();
    Refused::new(403, "not allowed").write(&mut out);
    let expected = "HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Type: text/plain\r\n\
                    Content-Length: 12\r\n\r\nnot allowed\n";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

#[test]
fn test_a_refusal_of_a_head_has_no_content() {
    for head in [
        "\r\nHEAD http://a.example/ HTTP/1.1\r\nHost : a\r\n\r\n",
        "HEAD / HTTP/1.1\r\nHost: a.example\r\n\r\n",
    ] {
        let refused = match super::read_request(head.as_bytes(), &super::limits()) {
            Ok(read) => read.unwrap().0.forwarded().unwrap_err(),
            Err(refused) => refused,
        };
        let mut out = Vec::new();
        refused.write(&mut out);
        assert!(String::from_utf8(out).unwrap().ends_with("\r\n\r\n"), "{head}");
    }
}

#[test]
fn test_the_answer_to_options_has_no_content() {
    let mut out = Vec::new();
    refused::write_options(false, &mut out);
    let text = String::from_utf8(out).unwrap();
    assert!(
        text.starts_with("HTTP/1.1 204 ") && text.contains("\r\nAllow: ") && text.contains("\r\nConnection: close\r\n")
    );
    assert!(text.ends_with("\r\n\r\n"));
}

#[test]
fn test_a_pseudonym_is_a_token() {
    assert!(Pseudonym::new("tributary-1").is_some());
    for name in ["", "a b", "a,b", "a\r\nB: c", "a(b)"] {
        assert!(Pseudonym::new(name).is_none(), "{name}");
    }
}
