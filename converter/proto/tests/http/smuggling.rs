//! Requests that two parsers could read in two ways: none reaches an origin server. Whatever these vectors hide behind
//! the head or the body, the connection closes before it is looked at.

use tributary_proto::http::{BodyReader, HeadReader};

use super::{limits, read_request};

/// What a vector must meet.
#[derive(Clone, Copy, Debug)]
enum Met {
    /// The head is refused with this status.
    Head(u16),
    /// The head is fine; the chunked body is refused.
    Body,
}

use Met::{Body, Head};

const BAD: Met = Head(400);

struct Vector(&'static str, Met, &'static [u8]);

/// A POST with these field lines, which hides a second request.
macro_rules! post {
    ($fields:literal) => {
        concat!(
            "POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\n",
            $fields,
            "\r\nGET /hidden HTTP/1.1\r\n\r\n"
        )
        .as_bytes()
    };
}

/// A chunked POST with this body.
macro_rules! chunks {
    ($body:literal) => {
        concat!(
            "POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n",
            $body,
            "GET /hidden HTTP/1.1\r\n\r\n"
        )
        .as_bytes()
    };
}

#[rustfmt::skip]
const LENGTHS: &[Vector] = &[
    Vector("CL.CL identical", BAD, post!("Content-Length: 5\r\nContent-Length: 5\r\n")),
    Vector("CL.CL different", BAD, post!("Content-Length: 5\r\nContent-Length: 6\r\n")),
    Vector("CL.CL in different case", BAD, post!("Content-Length: 5\r\ncontent-length: 6\r\n")),
    Vector("CL.CL apart", BAD, post!("Content-Length: 5\r\nA: b\r\nContent-Length: 5\r\n")),
    Vector("CL list, identical", BAD, post!("Content-Length: 5, 5\r\n")),
    Vector("CL list, different", BAD, post!("Content-Length: 5, 6\r\n")),
    Vector("CL list with an empty element", BAD, post!("Content-Length: 5,\r\n")),
    Vector("CL with plus", BAD, post!("Content-Length: +5\r\n")),
    Vector("CL with minus", BAD, post!("Content-Length: -5\r\n")),
    Vector("CL minus zero", BAD, post!("Content-Length: -0\r\n")),
    Vector("CL with a leading zero", BAD, post!("Content-Length: 010\r\n")),
    Vector("CL in hexadecimal", BAD, post!("Content-Length: 0x5\r\n")),
    Vector("CL with an exponent", BAD, post!("Content-Length: 5e1\r\n")),
    Vector("CL with a fraction", BAD, post!("Content-Length: 5.0\r\n")),
    Vector("CL with an underscore", BAD, post!("Content-Length: 1_0\r\n")),
    Vector("CL with inner space", BAD, post!("Content-Length: 5 6\r\n")),
    Vector("CL in quotes", BAD, post!("Content-Length: \"5\"\r\n")),
    Vector("CL with a letter behind", BAD, post!("Content-Length: 5a\r\n")),
    Vector("CL with a parameter", BAD, post!("Content-Length: 5;a\r\n")),
    Vector("CL empty", BAD, post!("Content-Length:\r\n")),
    Vector("CL of white space", BAD, post!("Content-Length: \t \r\n")),
    Vector("CL of 2^63", BAD, post!("Content-Length: 9223372036854775808\r\n")),
    Vector("CL of 2^64 + 5", BAD, post!("Content-Length: 18446744073709551621\r\n")),
    Vector("CL of 20 digits", BAD, post!("Content-Length: 00000000000000000005\r\n")),
    Vector("CL in Arabic digits", BAD, post!("Content-Length: \u{665}\r\n")),
    Vector("CL with an underscore in its name", BAD, post!("Content_Length: 5\r\n")),
    Vector("CL beside its alias", BAD, post!("Content-Length: 5\r\ncontent_length: 6\r\n")),
    Vector("CL on CONNECT", BAD, b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\n\r\nhello"),
    Vector("CL that Connection names", BAD, post!("Connection: content-length\r\nContent-Length: 5\r\n")),
];

#[rustfmt::skip]
const ENCODINGS: &[Vector] = &[
    Vector("CL.TE", BAD, post!("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n")),
    Vector("TE.CL", BAD, post!("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n")),
    Vector("CL.TE with length 0", BAD, post!("Content-Length: 0\r\nTransfer-Encoding: chunked\r\n")),
    Vector("CL beside a bad TE", BAD, post!("Content-Length: 5\r\nTransfer-Encoding: xchunked\r\n")),
    Vector("TE.TE identical", BAD, post!("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n")),
    Vector("TE.TE with identity", BAD, post!("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n")),
    Vector("TE.TE with an unknown coding", BAD, post!("Transfer-Encoding: x\r\nTransfer-Encoding: chunked\r\n")),
    Vector("TE identity", BAD, post!("Transfer-Encoding: identity\r\n")),
    Vector("TE gzip", BAD, post!("Transfer-Encoding: gzip\r\n")),
    Vector("TE gzip, chunked", BAD, post!("Transfer-Encoding: gzip, chunked\r\n")),
    Vector("TE chunked, identity", BAD, post!("Transfer-Encoding: chunked, identity\r\n")),
    Vector("TE chunked twice in a list", BAD, post!("Transfer-Encoding: chunked, chunked\r\n")),
    Vector("TE with an empty element", BAD, post!("Transfer-Encoding: ,chunked\r\n")),
    Vector("TE with a comma behind", BAD, post!("Transfer-Encoding: chunked,\r\n")),
    Vector("TE xchunked", BAD, post!("Transfer-Encoding: xchunked\r\n")),
    Vector("TE chunkedx", BAD, post!("Transfer-Encoding: chunkedx\r\n")),
    Vector("TE chunk", BAD, post!("Transfer-Encoding: chunk\r\n")),
    Vector("TE in quotes", BAD, post!("Transfer-Encoding: \"chunked\"\r\n")),
    Vector("TE with a parameter", BAD, post!("Transfer-Encoding: chunked;q=1\r\n")),
    Vector("TE empty", BAD, post!("Transfer-Encoding:\r\n")),
    Vector("TE with vertical tab", BAD, post!("Transfer-Encoding:\x0bchunked\r\n")),
    Vector("TE with form feed", BAD, post!("Transfer-Encoding: chunked\x0c\r\n")),
    Vector("TE with NUL", BAD, post!("Transfer-Encoding: chunked\0\r\n")),
    Vector("TE with DEL", BAD, post!("Transfer-Encoding: chunked\x7f\r\n")),
    Vector("TE with no-break space", BAD, post!("Transfer-Encoding:\u{a0}chunked\r\n")),
    Vector("TE with a long s and Kelvin sign", BAD, post!("Transfer-Encoding: chun\u{212a}ed\r\n")),
    Vector("TE folded", BAD, post!("Transfer-Encoding:\r\n chunked\r\n")),
    Vector("TE behind a fold", BAD, post!("A: b\r\n Transfer-Encoding: chunked\r\n")),
    Vector("TE behind a bare CR", BAD, post!("A: b\rTransfer-Encoding: chunked\r\n")),
    Vector("TE behind a bare LF", BAD, post!("A: b\nTransfer-Encoding: chunked\r\n")),
    Vector("TE with a space before the colon", BAD, post!("Transfer-Encoding : chunked\r\n")),
    Vector("TE with a tab before the colon", BAD, post!("Transfer-Encoding\t: chunked\r\n")),
    Vector("TE with a space before its name", BAD, post!(" Transfer-Encoding: chunked\r\n")),
    Vector("TE with an underscore in its name", BAD, post!("Transfer_Encoding: chunked\r\n")),
    Vector("TE with a space in its name", BAD, post!("Transfer Encoding: chunked\r\n")),
    Vector("TE with a colon before its name", BAD, post!(":Transfer-Encoding: chunked\r\n")),
    Vector("TE that Connection names", BAD, post!("Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked\r\n")),
    Vector("TE on CONNECT", BAD, b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    Vector("TE in HTTP/1.0", BAD, b"POST http://a.example/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
];

#[rustfmt::skip]
const LINES: &[Vector] = &[
    Vector("bare LF ends the request line", BAD, b"GET http://a.example/ HTTP/1.1\nHost: a.example\r\n\r\n"),
    Vector("bare LF ends a field", BAD, b"GET http://a.example/ HTTP/1.1\r\nHost: a.example\nA: b\r\n\r\n"),
    Vector("bare LF ends the head", BAD, b"GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\n"),
    Vector("LF before the request", BAD, b"\nGET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n"),
    Vector("LFs only", BAD, b"GET http://a.example/ HTTP/1.1\nHost: a.example\n\n"),
    Vector("bare CR in the request line", BAD, b"GET http://a.example/\rx HTTP/1.1\r\nHost: a.example\r\n\r\n"),
    Vector("bare CR in a name", BAD, post!("A\rB: c\r\n")),
    Vector("bare CR before a CRLF", BAD, post!("A: b\r\r\n")),
    Vector("CR before the request", BAD, b"\rGET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n"),
    Vector("bare CRs end the head", BAD, b"GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\r\n\r\n"),
    Vector("NUL in the target", BAD, b"GET http://a.example/\0 HTTP/1.1\r\nHost: a.example\r\n\r\n"),
    Vector("NUL in a name", BAD, post!("A\0: b\r\n")),
    Vector("NUL in a value", BAD, post!("A: b\0c\r\n")),
    Vector("SOH in a value", BAD, post!("A: b\x01c\r\n")),
    Vector("escape in a value", BAD, post!("A: \x1b[2J\r\n")),
    Vector("backspace at the end of a long value", BAD, post!("A: bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\x08\r\n")),
    Vector("a first field that is folded", BAD, b"GET http://a.example/ HTTP/1.1\r\n Host: a.example\r\n\r\n"),
    Vector("fold with a tab", BAD, post!("A: b\r\n\tc\r\n")),
    Vector("fold of white space only", BAD, post!("A: b\r\n \r\n")),
    Vector("empty name", BAD, post!(": b\r\n")),
    Vector("no colon", BAD, post!("Content-Length 5\r\n")),
    Vector("name of a space", BAD, post!(" : b\r\n")),
    Vector("name with a separator", BAD, post!("A/B: c\r\n")),
    Vector("name with a quote", BAD, post!("\"A\": c\r\n")),
    Vector("name beyond ASCII", BAD, post!("C\u{f6}ntent-Length: 5\r\n")),
    Vector("no Host", BAD, b"GET http://a.example/ HTTP/1.1\r\n\r\n"),
    Vector("Host twice", BAD, b"GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nHost: b.example\r\n\r\n"),
    Vector("Host twice, identical", BAD, b"GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nhost: a.example\r\n\r\n"),
    Vector("Host twice in HTTP/1.0", BAD, b"GET http://a.example/ HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n"),
    Vector("Host list", BAD, b"GET http://a.example/ HTTP/1.1\r\nHost: a.example, b.example\r\n\r\n"),
    Vector("Host empty", BAD, b"GET http://a.example/ HTTP/1.1\r\nHost:\r\n\r\n"),
    Vector("Host with a path", BAD, b"GET http://a.example/ HTTP/1.1\r\nHost: a.example/x\r\n\r\n"),
    Vector("Host with a user", BAD, b"GET http://a.example/ HTTP/1.1\r\nHost: u@a.example\r\n\r\n"),
    Vector("Host with a space before the colon", BAD, b"GET http://a.example/ HTTP/1.1\r\nHost : a.example\r\n\r\n"),
    Vector("Host with a bad port", BAD, b"GET http://a.example/ HTTP/1.1\r\nHost: a.example:99999\r\n\r\n"),
    Vector("Host that Connection names", BAD, post!("Connection: close, host\r\n")),
    Vector("Connection that is no list of tokens", BAD, post!("Connection: a b\r\n")),
    Vector("an expectation nobody knows", Head(417), post!("Expect: 200-ok\r\n")),
    Vector("an upgrade that is no token", BAD, post!("Connection: upgrade\r\nUpgrade: (x)\r\n")),
];

#[rustfmt::skip]
const REQUEST_LINES: &[Vector] = &[
    Vector("HTTP/0.9", BAD, b"GET http://a.example/\r\n\r\n"),
    Vector("HTTP/1.2", Head(505), b"GET http://a.example/ HTTP/1.2\r\nHost: a.example\r\n\r\n"),
    Vector("HTTP/2.0", Head(505), b"GET http://a.example/ HTTP/2.0\r\nHost: a.example\r\n\r\n"),
    Vector("HTTP/0.9 spelled out", Head(505), b"GET http://a.example/ HTTP/0.9\r\nHost: a.example\r\n\r\n"),
    Vector("the preface of HTTP/2", Head(505), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    Vector("HTTP/1", BAD, b"GET http://a.example/ HTTP/1\r\nHost: a.example\r\n\r\n"),
    Vector("HTTP/1.10", BAD, b"GET http://a.example/ HTTP/1.10\r\nHost: a.example\r\n\r\n"),
    Vector("HTTP/01.1", BAD, b"GET http://a.example/ HTTP/01.1\r\nHost: a.example\r\n\r\n"),
    Vector("http in small letters", BAD, b"GET http://a.example/ http/1.1\r\nHost: a.example\r\n\r\n"),
    Vector("another protocol", BAD, b"GET http://a.example/ ICY/1.1\r\nHost: a.example\r\n\r\n"),
    Vector("two spaces before the target", BAD, b"GET  http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n"),
    Vector("two spaces before the version", BAD, b"GET http://a.example/  HTTP/1.1\r\nHost: a.example\r\n\r\n"),
    Vector("a space behind the version", BAD, b"GET http://a.example/ HTTP/1.1 \r\nHost: a.example\r\n\r\n"),
    Vector("a space in the target", BAD, b"GET http://a.example/a b HTTP/1.1\r\nHost: a.example\r\n\r\n"),
    Vector("a version in the target", BAD, b"GET http://a.example/ HTTP/1.1 HTTP/1.1\r\nHost: a.example\r\n\r\n"),
    Vector("a tab for a space", BAD, b"GET\thttp://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n"),
    Vector("a tab before the version", BAD, b"GET http://a.example/\tHTTP/1.1\r\nHost: a.example\r\n\r\n"),
    Vector("a space before the method", BAD, b" GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n"),
    Vector("a method that is no token", BAD, b"G(T http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n"),
    Vector("no method", BAD, b"http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n"),
    Vector("no target", BAD, b"GET HTTP/1.1\r\nHost: a.example\r\n\r\n"),
    Vector("a response", BAD, b"HTTP/1.1 200 OK\r\nHost: a.example\r\n\r\n"),
    Vector("a TLS record", BAD, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
    Vector("a SOCKS5 greeting", BAD, b"\x05\x01\x00"),
    Vector("a byte order mark", BAD, b"\xef\xbb\xbfGET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n"),
    Vector("TRACE", Head(501), b"TRACE http://a.example/ HTTP/1.1\r\nHost: a.example\r\nMax-Forwards: 0\r\n\r\n"),
    Vector("CONNECT without a port", BAD, b"CONNECT a.example HTTP/1.1\r\nHost: a.example\r\n\r\n"),
    Vector("CONNECT with an empty port", BAD, b"CONNECT a.example: HTTP/1.1\r\nHost: a.example\r\n\r\n"),
    Vector("CONNECT to port 0", BAD, b"CONNECT a.example:0 HTTP/1.1\r\nHost: a.example\r\n\r\n"),
    Vector("CONNECT to a URI", BAD, b"CONNECT http://a.example:80/ HTTP/1.1\r\nHost: a.example\r\n\r\n"),
    Vector("CONNECT to a path", BAD, b"CONNECT / HTTP/1.1\r\nHost: a.example\r\n\r\n"),
    Vector("CONNECT with a user", BAD, b"CONNECT u@a.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n"),
    Vector("connect in small letters", BAD, b"connect a.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n"),
];

#[rustfmt::skip]
const CHUNKS: &[Vector] = &[
    Vector("chunk size with 0x", Body, chunks!("0x5\r\nhello\r\n0\r\n\r\n")),
    Vector("chunk size with plus", Body, chunks!("+5\r\nhello\r\n0\r\n\r\n")),
    Vector("chunk size with minus", Body, chunks!("-5\r\nhello\r\n0\r\n\r\n")),
    Vector("chunk size empty", Body, chunks!("\r\n\r\n")),
    Vector("chunk size missing before an extension", Body, chunks!(";a\r\n\r\n")),
    Vector("chunk size that is no number", Body, chunks!("g\r\nhello\r\n0\r\n\r\n")),
    Vector("chunk size with a space before", Body, chunks!(" 5\r\nhello\r\n0\r\n\r\n")),
    Vector("chunk size with a space behind", Body, chunks!("5 \r\nhello\r\n0\r\n\r\n")),
    Vector("chunk size with a tab behind", Body, chunks!("5\t\r\nhello\r\n0\r\n\r\n")),
    Vector("chunk size with an underscore", Body, chunks!("1_0\r\nhello\r\n0\r\n\r\n")),
    Vector("chunk size of 2^63", Body, chunks!("8000000000000000\r\nhello")),
    Vector("chunk size of 2^64", Body, chunks!("10000000000000000\r\nhello")),
    Vector("chunk size of 2^64 + 5", Body, chunks!("10000000000000005\r\nhello\r\n0\r\n\r\n")),
    Vector("chunk size of 17 zeros", Body, chunks!("00000000000000000\r\n\r\n")),
    Vector("bare LF behind the size", Body, chunks!("5\nhello\r\n0\r\n\r\n")),
    Vector("bare CR behind the size", Body, chunks!("5\rhello\r\n0\r\n\r\n")),
    Vector("two CRs behind the size", Body, chunks!("5\r\r\nhello\r\n0\r\n\r\n")),
    Vector("bare LF behind the data", Body, chunks!("5\r\nhello\n0\r\n\r\n")),
    Vector("bare CR behind the data", Body, chunks!("5\r\nhello\r0\r\n\r\n")),
    Vector("no line end behind the data", Body, chunks!("5\r\nhello0\r\n\r\n")),
    Vector("data longer than its size", Body, chunks!("5\r\nhello!\r\n0\r\n\r\n")),
    Vector("data shorter than its size", Body, chunks!("8\r\nhello\r\n0\r\n\r\n")),
    Vector("bare LF in an extension", Body, chunks!("5;\nhello\r\n0\r\n\r\n")),
    Vector("bare LF behind an extension", Body, chunks!("5;a\nhello\r\n0\r\n\r\n")),
    Vector("bare CR in an extension", Body, chunks!("5;a\rb\r\nhello\r\n0\r\n\r\n")),
    Vector("CR in a quoted extension", Body, chunks!("5;a=\"\r\nhello\r\n0\r\n\r\n\"")),
    Vector("LF behind an escape in an extension", Body, chunks!("5;a=\"\\\nhello\r\n0\r\n\r\n\"")),
    Vector("extension without a name", Body, chunks!("5;\r\nhello\r\n0\r\n\r\n")),
    Vector("extension without a value", Body, chunks!("5;a=\r\nhello\r\n0\r\n\r\n")),
    Vector("extension behind a space", Body, chunks!("5 ;a\r\nhello\r\n0\r\n\r\n")),
    Vector("extension with NUL", Body, chunks!("5;a=\"\0\"\r\nhello\r\n0\r\n\r\n")),
    Vector("last chunk ended by LFs", Body, chunks!("0\n\n")),
    Vector("last empty line ended by LF", Body, chunks!("0\r\n\n")),
    Vector("trailer of Content-Length", Body, chunks!("0\r\nContent-Length: 5\r\n\r\n")),
    Vector("trailer of Transfer-Encoding", Body, chunks!("0\r\ntransfer-encoding: x\r\n\r\n")),
    Vector("trailer of Transfer_Encoding", Body, chunks!("0\r\nTransfer_Encoding: x\r\n\r\n")),
    Vector("second trailer of Host", Body, chunks!("0\r\nA: b\r\nHost: b.example\r\n\r\n")),
    Vector("trailer of Host", Body, chunks!("0\r\nHost: b.example\r\n\r\n")),
    Vector("trailer with a space before the colon", Body, chunks!("0\r\nA : b\r\n\r\n")),
    Vector("trailer folded", Body, chunks!("0\r\nA: b\r\n c\r\n\r\n")),
    Vector("trailer ended by LF", Body, chunks!("0\r\nA: b\n\r\n")),
    Vector("trailer with a bare CR", Body, chunks!("0\r\nA: b\rc\r\n\r\n")),
    Vector("trailer without a name", Body, chunks!("0\r\n: b\r\n\r\n")),
    Vector("trailer that is a request line", Body, chunks!("0\r\nGET /hidden HTTP/1.1\r\n\r\n")),
    Vector("trailer with NUL", Body, chunks!("0\r\nA: \0\r\n\r\n")),
];

fn vectors() -> impl Iterator<Item = &'static Vector> {
    [LENGTHS, ENCODINGS, LINES, REQUEST_LINES, CHUNKS].into_iter().flatten()
}

#[test]
fn test_no_smuggling_vector_is_forwarded() {
    for Vector(name, met, bytes) in vectors() {
        match (met, read_request(bytes, &limits())) {
            (Head(status), Err(refused)) => {
                assert_eq!(refused.status, *status, "{name}: {refused:?}");
            }
            (Body, Ok(Some((request, used)))) => {
                let mut reader = BodyReader::new(request.body);
                assert!(reader.advance(&bytes[used..]).is_err(), "{name}");
            }
            (_, read) => panic!("{name}: {read:?}"),
        }
    }
}

#[test]
fn test_every_body_vector_is_refused_at_the_same_byte_however_it_is_cut() {
    for Vector(name, _, bytes) in vectors().filter(|vector| matches!(vector.1, Body)) {
        let (request, used) = HeadReader::new().request(bytes, &limits()).unwrap().unwrap();
        let refused_at = |size: usize| {
            let mut reader = BodyReader::new(request.body);
            let mut pieces = bytes[used..].chunks(size);
            pieces
                .position(|piece| reader.advance(piece).is_err())
                .map(|index| index * size)
        };
        let at = refused_at(1).unwrap();
        for size in 2..bytes.len() - used {
            let piece = refused_at(size).unwrap();
            assert!((piece..piece + size).contains(&at), "{name}, pieces of {size}");
        }
    }
}

#[test]
fn test_the_reason_names_the_fault() {
    #[rustfmt::skip]
    let cases = [
        ("bare CR", "bare CR before a CRLF"),
        ("bare LF", "bare LF ends a field"),
        ("line folding", "fold with a tab"),
        ("line folding", "a first field that is folded"),
        ("user information in the authority", "CONNECT with a user"),
        ("no port in the authority", "CONNECT with an empty port"),
        ("both Transfer-Encoding and Content-Length", "CL.TE"),
        ("more than one Host", "Host twice, identical"),
    ];
    for (reason, name) in cases {
        let bytes = vectors().find(|vector| vector.0 == name).unwrap().2;
        assert_eq!(read_request(bytes, &limits()).unwrap_err().reason, reason, "{name}");
    }
}

#[test]
fn test_the_vectors_are_many_and_each_has_its_name() {
    let mut names: Vec<_> = vectors().map(|vector| vector.0).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), vectors().count());
    assert!(names.len() >= 80);
}

#[test]
fn test_other_control_characters_are_refused_everywhere_in_a_value() {
    let controls = (0..=31).filter(|byte| *byte != b'\t').chain([127]);
    for (control, before) in controls.flat_map(|control| (0..70).map(move |before| (control, before))) {
        let mut head = b"GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nA: ".to_vec();
        head.extend(std::iter::repeat_n(b'b', before));
        head.push(control);
        head.extend_from_slice(b"ccc\r\n\r\n");
        let read = HeadReader::new().request(&head, &limits());
        assert_eq!(read.unwrap_err().status, 400, "{control:#x} behind {before}");
    }
}

#[test]
fn test_names_hold_token_characters_only() {
    for byte in 0..=255_u8 {
        let head = [
            b"GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nX",
            &[byte][..],
            b"Y: z\r\n\r\n",
        ]
        .concat();
        let is_token = byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte) || byte == b':';
        assert_eq!(
            HeadReader::new().request(&head, &limits()).is_ok(),
            is_token,
            "{byte:#x}"
        );
    }
}
