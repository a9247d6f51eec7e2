//! As many bytes as connections take.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;
use serde_json::json;

use crate::failure::{self, Attempt as _, Failure};
use crate::http;
use crate::origin::Taken;
use crate::pattern::Pattern;
use crate::route::Route;
use crate::seconds::seconds;
use crate::sockets;

const BUFFER: usize = 256 << 10;

/// Each connection is one request, in a thread of its own with blocking calls. The time is that from the first connect
/// to the last byte: of the bodies, or for an upload of the origin's answers. What is read goes through a buffer of
/// 256 KiB as an application's would: no `MSG_TRUNC`, which would leave the copy out, and with it what MPTCP costs here.
/// Prints `{"connections", "bytes", "seconds", "bits_per_second"}`.
#[derive(Args, Debug)]
pub struct Options {
    #[command(flatten)]
    route: Route,
    /// How many at once.
    #[arg(long, default_value_t = 1, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    connections: u64,
    /// Bytes of each connection.
    #[arg(long, value_name = "COUNT")]
    bytes: u64,
    /// Send to the origin, which checks every byte, instead of reading from it.
    #[arg(long)]
    upload: bool,
    /// Check every byte that is read; without it only their number.
    #[arg(long)]
    verify: bool,
    /// Each connection rests for so long in the middle of its bytes: it sends nothing, or reads nothing, and then its window
    /// closes.
    #[arg(long, default_value = "0", value_name = "SECONDS", value_parser = seconds)]
    rest: Duration,
}

impl Options {
    /// Where each half of the bytes ends, and the rest behind it.
    fn parts(&self) -> [(u64, Duration); 2] {
        [(self.bytes / 2, self.rest), (self.bytes, Duration::ZERO)]
    }
}

pub fn run(options: &Options) -> Result<(), Failure> {
    let wrong = AtomicU64::new(0);
    let start = Instant::now();
    let moved = |seed: u64| -> io::Result<()> {
        wrong.fetch_add(move_one(options, seed)?, Ordering::Relaxed);
        Ok(())
    };
    let all_moved = thread::scope(|scope| {
        let movers: Vec<_> = (0..options.connections)
            .map(|seed| scope.spawn(move || moved(seed)))
            .collect();
        movers
            .into_iter()
            .try_for_each(|mover| mover.join().expect("a mover does not panic"))
    });
    all_moved.attempt("a transfer")?;
    let seconds = start.elapsed().as_secs_f64();
    let bytes = options.bytes * options.connections;
    print_report(&json!({
        "connections": options.connections,
        "bytes": bytes,
        "seconds": seconds,
        "bits_per_second": 8.0 * bytes as f64 / seconds,
    }));
    match wrong.into_inner() {
        0 => Ok(()),
        wrong => Err(failure::wrong(format!("{wrong} bytes were wrong"))),
    }
}

/// Prints `report` as one line of JSON.
pub fn print_report(report: &impl Serialize) {
    println!(
        "{}",
        serde_json::to_string(report).expect("a report has no keys but strings")
    );
}

/// Moves one connection's bytes; gives how many of them were wrong.
fn move_one(options: &Options, seed: u64) -> io::Result<u64> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if options.upload {
        return upload(options, seed, &runtime);
    }
    let path = format!("/{}-{seed}", options.bytes);
    let request = options.route.request("GET", &path, "");
    let mut received = Vec::new();
    let (stream, body) = runtime.block_on(async {
        let mut stream = options.route.open().await?;
        if !options.rest.is_zero() {
            sockets::keep_receive_buffer_small(&stream)?;
        }
        tokio::io::AsyncWriteExt::write_all(&mut stream, request.as_bytes()).await?;
        let body = http::read_head(&mut stream, &mut received).await?;
        Ok::<_, io::Error>((stream, body))
    })?;
    http::check_length(&body, options.bytes)?;
    let pattern = options.verify.then(|| Pattern::new(seed));
    read_body(blocking(stream)?, pattern, &received[body.start..], options)
}

fn blocking(stream: tokio::net::TcpStream) -> io::Result<TcpStream> {
    let stream = stream.into_std()?;
    stream.set_nonblocking(false)?;
    Ok(stream)
}

fn read_body(mut stream: TcpStream, pattern: Option<Pattern>, first: &[u8], options: &Options) -> io::Result<u64> {
    let wrong_of = |at: u64, data: &[u8]| pattern.map_or(0, |pattern| pattern.wrong(at, data));
    let mut wrong = wrong_of(0, first);
    let mut read = first.len() as u64;
    let mut buffer = vec![0; BUFFER];
    for (end, rest) in options.parts() {
        while read < end {
            let count = stream.read(&mut buffer)?;
            if count == 0 {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    format!("it ended after {read} bytes"),
                ));
            }
            wrong += wrong_of(read, &buffer[..count]);
            read += count as u64;
        }
        thread::sleep(rest);
    }
    if read > options.bytes {
        return Err(http::malformed("more bytes than were asked for"));
    }
    Ok(wrong)
}

fn upload(options: &Options, seed: u64, runtime: &tokio::runtime::Runtime) -> io::Result<u64> {
    let length = format!("Content-Length: {}\r\n", options.bytes);
    let request = options.route.request("PUT", &format!("/-{seed}"), &length);
    let mut stream = blocking(runtime.block_on(options.route.open())?)?;
    stream.write_all(request.as_bytes())?;
    let (pattern, mut sent) = (Pattern::new(seed), 0);
    for (end, rest) in options.parts() {
        while sent < end {
            sent += stream.write(pattern.at(sent, end - sent))? as u64;
        }
        thread::sleep(rest);
    }
    stream.set_nonblocking(true)?;
    let mut received = Vec::new();
    let body = runtime.block_on(async {
        let mut stream = tokio::net::TcpStream::from_std(stream)?;
        http::exchange(&mut stream, b"", &mut received).await
    })?;
    let taken: Taken = serde_json::from_slice(&received[body])?;
    Ok(taken.wrong + options.bytes.abs_diff(taken.bytes))
}
