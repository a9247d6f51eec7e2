//! Chunked bodies: what belongs to them, what their content is, at any cut.

use tributary_proto::http::chunked::{LONGEST_EXTENSION, LONGEST_TRAILERS};
use tributary_proto::http::{Body, BodyReader, Chunked, Refused};

const BEHIND: &[u8] = b"0\r\n\r\nGET / HTTP/1.1\r\n\r\n";

/// Content and length of the body, shown in pieces of `size` bytes.
fn decode(bytes: &[u8], size: usize) -> (Vec<u8>, usize, bool) {
    let (mut chunked, mut content, mut used, mut start) = (Chunked::new(), Vec::new(), 0, 0);
    while start < bytes.len() && !chunked.has_ended() {
        let piece = &bytes[start..bytes.len().min(start + size)];
        let mut at = 0;
        while at < piece.len() && !chunked.has_ended() {
            let step = chunked.step(&piece[at..]).unwrap();
            assert!(step.data.end <= step.used && step.ended == chunked.has_ended());
            content.extend_from_slice(&piece[at..][step.data]);
            at += step.used;
        }
        used += at;
        start += size;
    }
    (content, used, chunked.has_ended())
}

#[rustfmt::skip]
const BODIES: [(&str, &[u8], &[u8]); 12] = [
    ("nothing", b"0\r\n\r\n", b""),
    ("one chunk", b"5\r\nhello\r\n0\r\n\r\n", b"hello"),
    ("two chunks", b"1\r\nh\r\n4\r\nello\r\n0\r\n\r\n", b"hello"),
    ("hexadecimal, both cases", b"a\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n", b"01234567890123456789"),
    ("leading zeros", b"0005\r\nhello\r\n0000000000000000\r\n\r\n", b"hello"),
    ("framing in the content", b"7\r\n\r\n0\r\n\r\n\r\n0\r\n\r\n", b"\r\n0\r\n\r\n"),
    ("an extension", b"5;a\r\nhello\r\n0;b\r\n\r\n", b"hello"),
    ("extensions with values", b"5;a=b;c=\"d;\\\"e\"\r\nhello\r\n0\r\n\r\n", b"hello"),
    ("an empty quoted value", b"5;a=\"\"\r\nhello\r\n0\r\n\r\n", b"hello"),
    ("a trailer", b"5\r\nhello\r\n0\r\nA: b\r\n\r\n", b"hello"),
    ("trailers", b"0\r\nX-Sum:1\r\nEmpty:\r\nContent-Length-Of-What: 7\r\n\r\n", b""),
    ("NUL and LF in the content", b"3\r\n\0\n\r\r\n0\r\n\r\n", b"\0\n\r"),
];

#[test]
fn test_content_is_found_at_any_cut_and_nothing_behind_the_body_is_taken() {
    for (name, body, content) in BODIES {
        let bytes = [body, BEHIND].concat();
        for size in 1..=bytes.len() {
            assert_eq!(
                decode(&bytes, size),
                (content.to_vec(), body.len(), true),
                "{name}, pieces of {size}"
            );
        }
    }
}

#[test]
fn test_a_relay_needs_only_the_length() {
    for (name, body, _) in BODIES {
        let mut reader = BodyReader::new(Body::Chunked);
        assert_eq!(reader.advance(&[body, BEHIND].concat()), Ok(body.len()), "{name}");
        assert!(reader.has_ended());
        assert_eq!(reader.advance(BEHIND), Ok(0));
    }
}

#[test]
fn test_a_body_that_is_cut_short_has_not_ended() {
    for (name, body, _) in BODIES {
        for end in 0..body.len() {
            let mut reader = BodyReader::new(Body::Chunked);
            assert_eq!(reader.advance(&body[..end]), Ok(end), "{name}");
            assert!(!reader.has_ended(), "{name}, cut at {end}");
        }
    }
}

#[test]
fn test_extensions_and_trailers_are_bounded_to_the_byte() {
    let extension = |length: usize| format!("0;{}\r\n\r\n", "a".repeat(length));
    let trailers = |length: usize| format!("0\r\nA:{}\r\n\r\n", "a".repeat(length));
    let is_read = |body: String| BodyReader::new(Body::Chunked).advance(body.as_bytes()).is_ok();
    let longest = usize::from(LONGEST_EXTENSION) - 1; // the CR counts
    assert!(is_read(extension(longest)) && !is_read(extension(longest + 1)));
    let longest = usize::from(LONGEST_TRAILERS) - 4; // so do the name, its colon and two CRs
    assert!(is_read(trailers(longest)) && !is_read(trailers(longest + 1)));
}

#[test]
fn test_the_bound_of_extensions_is_for_each_chunk() {
    let chunk = format!("1;{}\r\nx\r\n", "a".repeat(1000));
    let body = chunk.repeat(100) + "0\r\n\r\n";
    assert_eq!(BodyReader::new(Body::Chunked).advance(body.as_bytes()), Ok(body.len()));
}

#[test]
fn test_the_largest_chunk_is_followed() {
    let mut reader = BodyReader::new(Body::Chunked);
    assert_eq!(reader.advance(b"7fffffffffffffff\r\nhello"), Ok(23));
    assert!(!reader.has_ended());
}

#[test]
fn test_an_error_stays() {
    let mut chunked = Chunked::new();
    let error = chunked.step(b"5\n").unwrap_err();
    assert_eq!(chunked.step(b"5\r\nhello\r\n0\r\n\r\n").unwrap_err(), error);
    assert_eq!(Refused::from(error).status, 400);
}

#[test]
fn test_a_length_is_counted_down_and_nothing_behind_it_is_taken() {
    let mut reader = BodyReader::new(Body::Length(5));
    assert_eq!(reader.advance(b"he"), Ok(2));
    assert!(!reader.has_ended());
    let step = reader.step(b"lloGET").unwrap();
    assert_eq!((step.used, step.data, step.ended), (3, 0..3, true));
    assert_eq!(reader.advance(b"GET"), Ok(0));
}

#[test]
fn test_bodies_of_nothing_have_ended_and_those_until_close_never_do() {
    assert!(BodyReader::new(Body::None).has_ended() && BodyReader::new(Body::Length(0)).has_ended());
    let mut reader = BodyReader::new(Body::UntilClose);
    assert_eq!(reader.advance(b"hello"), Ok(5));
    assert!(!reader.has_ended());
}
