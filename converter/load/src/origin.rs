//! The origin: an HTTP server whose bodies are patterns, made to cost little beside what it is asked through.

use std::io;

use clap::Args;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tributary_proto::http::{Body, BodyReader};

use crate::failure::Failure;
use crate::http::{Head, malformed};
use crate::pattern::Pattern;
use crate::rate_limit::RateLimit;
use crate::sockets::Listen;

/// An answer up to this long leaves with its head in one piece.
const SMALL: u64 = 16 << 10;
const UPLOAD_BUFFER: usize = 256 << 10;

/// GET /N[-SEED][?close | ?rate-limit=BITS] is answered by N bytes of the pattern SEED (0 without one); with ?close the
/// connection ends there, with ?rate-limit they come no faster than so many bits per second. PUT or POST /[N][-SEED] takes a body
/// with Content-Length or in chunks and answers `{"bytes": N, "wrong": N}`: how long it was, and how many of its bytes
/// were not the pattern's.
#[derive(Args, Debug)]
pub struct Options {
    #[command(flatten)]
    listen: Listen,
}

/// What a PUT or POST is answered by.
#[derive(Debug, Deserialize, Serialize)]
pub struct Taken {
    pub bytes: u64,
    /// How many of them were not the pattern's.
    pub wrong: u64,
}

#[derive(Debug, PartialEq)]
struct Target {
    length: u64,
    seed: u64,
    close: bool,
    rate_limit: Option<u64>,
}

#[derive(Debug)]
struct Request {
    target: Target,
    body: Option<Body>,
    close: bool,
    wants_continue: bool,
}

pub async fn run(options: &Options) -> Result<(), Failure> {
    // A client that goes away or talks nonsense is nothing to tell of: its own report has it.
    let serve = |stream| async { drop(connection(stream).await) };
    // For some tens of thousands of connections that are held.
    options.listen.serve(100_000, serve).await
}

async fn connection(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut received = Vec::with_capacity(1024);
    while let Some(request) = next_request(&mut stream, &mut received).await? {
        let last = if request.close { "Connection: close\r\n" } else { "" };
        let pattern = Pattern::new(request.target.seed);
        match request.body {
            None => send(&mut stream, &request.target, last).await?,
            Some(body) => {
                if request.wants_continue {
                    stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
                }
                let taken = take(&mut stream, pattern, body, &mut received).await?;
                let answer = serde_json::to_string(&taken)?;
                let head = head_of_answer(answer.len() as u64, last);
                stream.write_all((head + &answer).as_bytes()).await?;
            }
        }
        if request.close {
            break;
        }
    }
    Ok(())
}

/// The next request, of which `received` may hold a part; what comes behind its head stays there. None at the end.
async fn next_request(stream: &mut TcpStream, received: &mut Vec<u8>) -> io::Result<Option<Request>> {
    loop {
        if let Some((head, length)) = Head::of(received)? {
            let request = Request::of(&head)?;
            received.drain(..length);
            return Ok(Some(request));
        }
        received.reserve(1024);
        if stream.read_buf(received).await? == 0 {
            return Ok(None);
        }
    }
}

impl Request {
    fn of(head: &Head<'_>) -> io::Result<Self> {
        let mut words = head.start_line.split(' ');
        let body = match words.next() {
            Some("GET") => None,
            Some("PUT" | "POST") if head.says("transfer-encoding", "chunked") => Some(Body::Chunked),
            Some("PUT" | "POST") => Some(Body::Length(head.length().unwrap_or(0))),
            _ => return Err(malformed("a method that is not GET, PUT or POST")),
        };
        let target = words.next().and_then(Target::parse);
        let target = target.ok_or_else(|| malformed("a path that is not /N[-SEED][?close | ?rate-limit=BITS]"))?;
        Ok(Self {
            close: target.close || head.says("connection", "close"),
            wants_continue: head.says("expect", "100-continue"),
            target,
            body,
        })
    }
}

impl Target {
    fn parse(path: &str) -> Option<Self> {
        let path = path.strip_prefix('/')?;
        let (path, close, rate_limit) = match path.split_once('?') {
            None => (path, false, None),
            Some((path, "close")) => (path, true, None),
            Some((path, query)) => {
                let bits = query.strip_prefix("rate-limit=")?.parse().ok();
                (path, false, Some(bits.filter(|bits| *bits > 0)?))
            }
        };
        let (length, seed) = path.split_once('-').unwrap_or((path, "0"));
        Some(Self {
            length: if length.is_empty() { 0 } else { length.parse().ok()? },
            seed: seed.parse().ok()?,
            close,
            rate_limit,
        })
    }
}

fn head_of_answer(length: u64, last: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n{last}\r\n")
}

async fn send(stream: &mut TcpStream, target: &Target, last: &str) -> io::Result<()> {
    let (pattern, length) = (Pattern::new(target.seed), target.length);
    let mut rate_limit = RateLimit::new(target.rate_limit);
    let mut answer = head_of_answer(length, last).into_bytes();
    let mut sent = length.min(SMALL);
    answer.extend_from_slice(pattern.at(0, sent));
    stream.write_all(&answer).await?;
    while sent < length {
        let room = rate_limit.room().await.min(length - sent);
        let count = stream.write(pattern.at(sent, room)).await? as u64;
        rate_limit.spent(count);
        sent += count;
    }
    Ok(())
}

/// Reads a body to its end; `received` holds what has come of it, and then what comes behind it.
async fn take(stream: &mut TcpStream, pattern: Pattern, body: Body, received: &mut Vec<u8>) -> io::Result<Taken> {
    let mut taken = Taken { bytes: 0, wrong: 0 };
    let mut reader = BodyReader::new(body);
    let mut start = 0;
    while !reader.has_ended() {
        if start == received.len() {
            received.clear();
            start = 0;
            received.reserve(UPLOAD_BUFFER);
            if stream.read_buf(received).await? == 0 {
                return Err(malformed("the body ended early"));
            }
        }
        let step = reader.step(&received[start..]);
        let step = step.map_err(|bad| malformed(bad.0))?;
        let data = &received[start..][step.data];
        taken.wrong += pattern.wrong(taken.bytes, data);
        taken.bytes += data.len() as u64;
        start += step.used;
    }
    received.drain(..start);
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_length_seed_and_end() {
        let paced = |length, seed, close, rate_limit| {
            Some(Target {
                length,
                seed,
                close,
                rate_limit,
            })
        };
        let target = |length, seed, close| paced(length, seed, close, None);
        assert_eq!(Target::parse("/1024"), target(1024, 0, false));
        assert_eq!(Target::parse("/1024-7?close"), target(1024, 7, true));
        assert_eq!(Target::parse("/-7"), target(0, 7, false));
        assert_eq!(Target::parse("/5?rate-limit=800"), paced(5, 0, false, Some(800)));
        let wrong = " 1024 /x /1- /1-2-3 /1?open /1?rate-limit=0 /1?rate-limit= /1?rate=1";
        for wrong in wrong.split(' ') {
            assert_eq!(Target::parse(wrong), None, "{wrong}");
        }
    }
}
