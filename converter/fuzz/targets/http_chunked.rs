//! Chunked bodies, whole and in pieces, beside a decoder that is simple and slow.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tributary_proto::http::chunked::BadChunk;
use tributary_proto::http::{Body, BodyReader};

/// Content, bytes used, and whether the body ended; or the content before an error.
type Outcome = Result<(Vec<u8>, usize, bool), (Vec<u8>, BadChunk)>;

fuzz_target!(|data: &[u8]| {
    let whole = decode(data, data.len());
    for piece in [1, 3] {
        assert_eq!(decode(data, piece), whole, "in pieces of {piece}");
    }
    if let Ok((content, used, true)) = &whole {
        assert_eq!(reference(data), Some((content.clone(), *used)));
        assert_eq!(BodyReader::new(Body::Chunked).advance(data), Ok(*used));
    }
});

/// Feeds the reader at most `piece` bytes at a time.
fn decode(data: &[u8], piece: usize) -> Outcome {
    let mut reader = BodyReader::new(Body::Chunked);
    let (mut content, mut used) = (Vec::new(), 0);
    while used < data.len() && !reader.has_ended() {
        let end = data.len().min(used + piece);
        let bytes = &data[used..end];
        let step = match reader.step(bytes) {
            Ok(step) => step,
            Err(bad) => {
                assert_eq!(reader.step(bytes), Err(bad));
                return Err((content, bad));
            }
        };
        assert!(0 < step.used && step.used <= bytes.len() && step.data.end <= step.used);
        assert_eq!(step.ended, reader.has_ended());
        content.extend(&bytes[step.data]);
        used += step.used;
    }
    Ok((content, used, reader.has_ended()))
}

/// Decodes a body that is known to be valid and whole, by lines (RFC 9112 section 7.1).
fn reference(data: &[u8]) -> Option<(Vec<u8>, usize)> {
    let mut content = Vec::new();
    let mut rest = data;
    loop {
        let (line, after) = split_line(rest)?;
        let digits = line.split(|&byte| byte == b';').next()?;
        let size = usize::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        rest = after;
        if size == 0 {
            break;
        }
        content.extend(rest.get(..size)?);
        rest = rest[size..].strip_prefix(b"\r\n")?;
    }
    loop {
        let (line, after) = split_line(rest)?;
        rest = after;
        if line.is_empty() {
            return Some((content, data.len() - rest.len()));
        }
    }
}

fn split_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    Some((&bytes[..end], &bytes[end + 2..]))
}
