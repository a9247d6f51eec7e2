//! As much of HTTP/1.1 (RFC 9112) as both ends of a benchmark need.

use std::io;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A head that is longer than this is refused.
const MOST_HEAD: usize = 16 << 10;

#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// The request line or status line, without its line end.
    pub start_line: &'a str,
    fields: &'a str,
}

impl<'a> Head<'a> {
    /// The head that `bytes` begin with and its length with the empty line; None if it is not whole yet.
    pub fn of(bytes: &'a [u8]) -> io::Result<Option<(Self, usize)>> {
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
            return if bytes.len() > MOST_HEAD {
                Err(malformed("a head that is too long"))
            } else {
                Ok(None)
            };
        };
        let text = std::str::from_utf8(&bytes[..end]).map_err(|_| malformed("a head that is not text"))?;
        let (start_line, fields) = text.split_once("\r\n").unwrap_or((text, ""));
        Ok(Some((Self { start_line, fields }, end + 4)))
    }

    /// The value of the first field of this name, whatever the case.
    pub fn field(&self, name: &str) -> Option<&'a str> {
        self.fields.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// Whether the field `name` holds `word` alone, whatever the case.
    pub fn says(&self, name: &str, word: &str) -> bool {
        self.field(name).is_some_and(|value| value.eq_ignore_ascii_case(word))
    }

    pub fn status(&self) -> Option<u16> {
        self.start_line.split(' ').nth(1)?.parse().ok()
    }

    pub fn length(&self) -> Option<u64> {
        self.field("content-length")?.parse().ok()
    }
}

pub fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Sends `request` and reads the whole answer into `received`; gives the body's place in it.
///
/// Fails unless the status is 200 or 206 and the field Content-Length says how long the body is.
pub async fn exchange(
    stream: &mut TcpStream,
    request: &[u8],
    received: &mut Vec<u8>,
) -> io::Result<std::ops::Range<usize>> {
    stream.write_all(request).await?;
    received.clear();
    let body = read_head(stream, received).await?;
    read_body(stream, &body, received).await?;
    if received.len() > body.end {
        return Err(malformed("bytes after the answer's end"));
    }
    Ok(body)
}

/// Reads on until the answer's head is in `received`, if it is not there already; gives the place of the body, which may not
/// all be there yet. Its status is 200, or 206 for who asks for a part.
pub async fn read_head(stream: &mut TcpStream, received: &mut Vec<u8>) -> io::Result<std::ops::Range<usize>> {
    loop {
        if let Some((head, start)) = Head::of(received)? {
            if !matches!(head.status(), Some(200 | 206)) {
                return Err(malformed(&format!("answered by {:?}", head.start_line)));
            }
            let length = head
                .length()
                .ok_or_else(|| malformed("an answer without Content-Length"))?;
            let length = usize::try_from(length).map_err(|_| malformed("an answer that is too long"))?;
            return Ok(start..start + length);
        }
        received.reserve(4096);
        need_more(stream.read_buf(received).await?)?;
    }
}

/// Reads on until all of `body`, a place in `received`, is there.
pub async fn read_body(
    stream: &mut TcpStream,
    body: &std::ops::Range<usize>,
    received: &mut Vec<u8>,
) -> io::Result<()> {
    while received.len() < body.end {
        received.reserve(body.end - received.len());
        need_more(stream.read_buf(received).await?)?;
    }
    Ok(())
}

/// Fails unless `body` is as long as was asked for.
pub fn check_length(body: &std::ops::Range<usize>, asked: u64) -> io::Result<()> {
    if body.len() as u64 == asked {
        return Ok(());
    }
    Err(malformed("the answer has another length than was asked for"))
}

fn need_more(count: usize) -> io::Result<()> {
    if count == 0 {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "the connection ended within an answer",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_taken_only_when_it_is_whole() {
        let head = b"PUT /5 HTTP/1.1\r\nContent-Length: 5\r\ntransfer-encoding:  CHUNKED \r\n\r\n";
        assert!((0..head.len()).all(|length| Head::of(&head[..length]).unwrap().is_none()));
        let (parsed, length) = Head::of(head).unwrap().unwrap();
        assert_eq!((parsed.start_line, length), ("PUT /5 HTTP/1.1", head.len()));
        assert_eq!(parsed.length(), Some(5));
        assert!(parsed.says("transfer-encoding", "chunked"));
    }

    #[test]
    fn a_head_without_an_end_is_refused() {
        assert!(Head::of(&b"x".repeat(MOST_HEAD + 1)).is_err());
    }
}
