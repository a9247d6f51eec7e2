//! What holds for every request, not for those of the tables alone.

use proptest::collection::vec;
use proptest::prelude::*;
use tributary_proto::http::{Body, BodyReader, HeadReader, Request, parse_request};

use super::limits;

/// A head built from parts that are good, nearly good and hostile.
fn head() -> impl Strategy<Value = Vec<u8>> {
    let method = prop::sample::select(vec!["GET", "POST", "HEAD", "OPTIONS", "PURGE", "CONNECT", "G@T"]);
    let target = prop_oneof![
        "http://[a-z]{1,8}(\\.[a-z0-9]{1,4}){0,3}(:[0-9]{0,5})?(/[!-~]{0,12})?(\\?[!-~]{0,8})?",
        "http://[ -~]{0,20}",
        "http://[0-9.x]{1,15}/",
        "http://\\[[0-9a-f:.]{0,20}\\](:[0-9]{1,5})?/",
        Just("*".to_owned()),
    ];
    let version = prop::sample::select(vec!["HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/1.2"]);
    let line_end = prop::sample::select(
        vec!["\r\n"; 40]
            .into_iter()
            .chain(["\n", "\r", "\r\r\n", "\r\n "])
            .collect::<Vec<_>>(),
    );
    let fields = vec((field(), line_end), 0..8);
    (method, target, version, any::<bool>(), fields).prop_map(|(method, target, version, has_host, fields)| {
        let mut head = format!("{method} {target} {version}\r\n").into_bytes();
        if has_host {
            head.extend_from_slice(b"Host: x.example\r\n");
        }
        for (field, line_end) in fields {
            head.extend_from_slice(&field);
            head.extend_from_slice(line_end.as_bytes());
        }
        head.extend_from_slice(b"\r\n");
        head
    })
}

fn field() -> impl Strategy<Value = Vec<u8>> {
    let name = prop::sample::select(vec![
        "Content-Length",
        "Transfer-Encoding",
        "Connection",
        "Expect",
        "Upgrade",
        "Via",
        "TE",
        "Keep-Alive",
        "Trailer",
        "Max-Forwards",
        "X-A",
        "X-B",
        "content_length",
        "Proxy-Authorization",
    ]);
    let value = prop_oneof![
        4 => "[0-9]{1,3}",
        4 => prop::sample::select(vec!["chunked", "close", "keep-alive, x-a", "Upgrade, X-B", "websocket", "100-continue"])
            .prop_map(str::to_owned),
        2 => "[ -~\t]{0,20}",
    ];
    let bytes = vec(any::<u8>(), 0..6);
    (
        name,
        prop::sample::select(vec![": ", ": ", ": ", ":", " :", ""]),
        value,
        prop::option::weighted(0.1, bytes),
    )
        .prop_map(|(name, colon, value, bytes)| {
            [
                name.as_bytes(),
                colon.as_bytes(),
                value.as_bytes(),
                &bytes.unwrap_or_default(),
            ]
            .concat()
        })
}

/// A head in which nothing is wrong, so that acceptance is the rule.
fn good_head() -> impl Strategy<Value = Vec<u8>> {
    let framing = prop_oneof![
        Just(String::new()),
        (0..1_000_000_u32).prop_map(|length| format!("Content-Length: {length}\r\n")),
        Just("Transfer-Encoding: chunked\r\n".to_owned()),
    ];
    let connection = prop::sample::select(vec![
        "",
        "Connection: close\r\n",
        "Connection: x-a, keep-alive\r\n",
        "Connection: upgrade\r\nUpgrade: websocket\r\n",
        "Expect: 100-continue\r\n",
        "TE: trailers\r\nTrailer: X-A\r\n",
        "Via: 1.0 fred (a, b)\r\n",
    ]);
    let method = prop::sample::select(vec!["GET", "POST", "HEAD", "OPTIONS", "PURGE"]);
    let target = "http://[a-z]{1,8}(\\.[a-z]{1,4}){0,3}(:[1-9][0-9]{0,3})?(/[a-z0-9%&;=]{0,12})?(\\?[a-z/?]{0,8})?";
    let others = vec("X-[A-C]: ?[!-~]{0,5}[ -~\t\u{80}-\u{ff}]{0,20}\r\n", 0..4);
    (method, target, framing, connection, others, 0..2).prop_map(
        |(method, target, framing, connection, others, minor)| {
            let framing = if minor == 0 && framing.starts_with('T') {
                ""
            } else {
                &framing
            };
            format!(
                "{method} {target} HTTP/1.{minor}\r\nHost: y.example\r\n{framing}{connection}{}\r\n",
                others.concat()
            )
            .into_bytes()
        },
    )
}

/// The forwarded head, turned back into what a next proxy would get: absolute-form, and without our own Via.
fn to_absolute(request: &Request) -> Vec<u8> {
    let (authority, forwarded) = request.forwarded().unwrap();
    let path = request.path().trim_start_matches('*');
    let text = [request.method.as_str(), " http://", &authority.to_string(), path].concat();
    let origin_form = [request.method.as_str(), " ", request.path()].concat();
    let rest = forwarded.strip_prefix(origin_form.as_bytes()).unwrap();
    let via = rest.windows(14).rposition(|part| part == b"tributary-7f3a").unwrap();
    [text.as_bytes(), &rest[..via], b"another", &rest[via + 14..]].concat()
}

/// The lines of a head; fails where a CR or LF does not end one.
fn lines(head: &[u8]) -> Vec<&[u8]> {
    let text = head.strip_suffix(b"\r\n\r\n").unwrap();
    let lines: Vec<_> = text
        .split(|byte| *byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .collect();
    let line_ends = text.windows(2).filter(|pair| pair == b"\r\n").count();
    assert_eq!(lines.len(), line_ends + 1);
    assert!(
        lines
            .iter()
            .all(|line| !line.is_empty() && !line.iter().any(|byte| b"\r\n\0".contains(byte)))
    );
    lines
}

fn field_count(lines: &[&[u8]], name: &[u8]) -> usize {
    let is_named = |line: &&&[u8]| {
        line.split(|byte| *byte == b':')
            .next()
            .unwrap()
            .eq_ignore_ascii_case(name)
    };
    lines[1..].iter().filter(is_named).count()
}

/// Forwards what can be forwarded and checks what must hold for it; true if it was accepted.
fn holds_for(head: &[u8]) -> bool {
    let Ok(Some((request, _))) = parse_request(head, &limits()) else {
        return false;
    };
    let Ok((_, out)) = request.forwarded() else {
        return false;
    };
    let lines = lines(out);
    assert_eq!(field_count(&lines, b"host"), 1);
    let framing = [
        field_count(&lines, b"content-length"),
        field_count(&lines, b"transfer-encoding"),
    ];
    assert_eq!(
        framing,
        [
            usize::from(matches!(request.body, Body::Length(_))),
            usize::from(request.body == Body::Chunked)
        ]
    );
    for hop_by_hop in [&b"te"[..], b"keep-alive", b"proxy-authorization", b"proxy-connection"] {
        assert_eq!(field_count(&lines, hop_by_hop), 0);
    }
    let again = to_absolute(&request);
    let (second, used) = parse_request(&again, &limits()).unwrap().unwrap();
    assert_eq!(used, again.len());
    assert_eq!(
        (
            &second.method,
            &second.target,
            second.body,
            second.expect_continue,
            second.upgrade
        ),
        (
            &request.method,
            &request.target,
            request.body,
            request.expect_continue,
            request.upgrade
        )
    );
    assert_eq!(second.max_forwards, request.max_forwards.map(|left| left - 1));
    true
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn test_what_is_accepted_means_the_same_behind_the_proxy(head in head()) {
        holds_for(&head);
    }

    #[test]
    fn test_good_requests_are_accepted_and_mean_the_same_behind_the_proxy(head in good_head()) {
        prop_assert!(holds_for(&head));
    }

    #[test]
    fn test_a_good_request_with_one_byte_changed_is_refused_or_means_one_thing(
        head in good_head(), at in any::<prop::sample::Index>(), byte in any::<u8>(),
    ) {
        let mut head = head;
        let at = at.index(head.len());
        head[at] = byte;
        holds_for(&head);
    }

    #[test]
    fn test_no_bytes_make_a_parser_panic_or_take_more_than_there_is(bytes in vec(any::<u8>(), 0..300)) {
        if let Ok(Some((_, used))) = parse_request(&bytes, &limits()) {
            prop_assert!(used <= bytes.len());
        }
        if let Ok(used) = BodyReader::new(Body::Chunked).advance(&bytes) {
            prop_assert!(used <= bytes.len());
        }
    }

    #[test]
    fn test_every_cut_gives_the_same_result(head in head(), cuts in vec(any::<prop::sample::Index>(), 0..4)) {
        let whole = parse_request(&head, &limits());
        let mut ends: Vec<_> = cuts.iter().map(|cut| cut.index(head.len())).collect();
        ends.sort_unstable();
        ends.push(head.len());
        let mut reader = HeadReader::new();
        let mut read = Ok(None);
        for end in ends {
            read = reader.request(&head[..end], &limits());
            if !matches!(read, Ok(None)) {
                break;
            }
        }
        prop_assert_eq!(format!("{read:?}"), format!("{whole:?}"));
    }

    #[test]
    fn test_chunked_content_comes_back_at_every_cut(
        chunks in vec(vec(any::<u8>(), 1..40), 0..5),
        extension in "(;[a-z]{1,4}(=[a-z]{1,4}|=\"[ -!#-\\[\\]-~]{0,5}\")?){0,2}",
        size in 1_usize..30,
    ) {
        let mut body = Vec::new();
        for chunk in &chunks {
            body.extend_from_slice(format!("{:x}{extension}\r\n", chunk.len()).as_bytes());
            body.extend_from_slice(chunk);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(b"0\r\nX-Sum: 1\r\n\r\n");
        let (mut reader, mut content) = (BodyReader::new(Body::Chunked), Vec::new());
        for piece in body.chunks(size) {
            let mut at = 0;
            while at < piece.len() {
                let step = reader.step(&piece[at..]).unwrap();
                content.extend_from_slice(&piece[at..][step.data]);
                at += step.used;
            }
        }
        prop_assert!(reader.has_ended());
        prop_assert_eq!(content, chunks.concat());
    }
}
