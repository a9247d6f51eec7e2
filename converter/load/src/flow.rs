//! As many bytes as one connection takes in a time.

use std::io;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::bulk::print_report;
use crate::failure::{self, Attempt as _, Failure};
use crate::http;
use crate::pattern::Pattern;
use crate::rate_limit::RateLimit;
use crate::route::Route;
use crate::seconds::seconds;
use crate::sockets;

const BUFFER: usize = 256 << 10;
/// More than any connection moves.
const ENDLESS: u64 = 1 << 50;
/// Without progress for so long the flow has failed.
const STALLED: Duration = Duration::from_secs(30);
/// Bytes of the request that go first: they establish an MPTCP session for the listener too (RFC 8684 section 3.1).
const FIRST: usize = 4;

/// One connection to the origin, in one direction, which is broken off at the end, or at SIGTERM: what is in its buffers
/// would disturb the next measurement. Prints `{"bytes", "seconds", "bits_per_second", "longest_pause"}` of what was
/// received or, for an upload, given to the socket; at SIGTERM nothing. The rate is of what moved after the warm-up. The
/// pause is the longest time, in seconds, in which nothing moved.
#[derive(Args, Debug)]
pub struct Options {
    #[command(flatten)]
    route: Route,
    /// For how long.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    seconds: Duration,
    /// Send to the origin instead of reading from it.
    #[arg(long)]
    upload: bool,
    /// Compare every byte with what it should be; one that is wrong is an error.
    #[arg(long, conflicts_with = "upload")]
    verify: bool,
    /// No faster than this.
    #[arg(long, value_name = "BITS_PER_SECOND", value_parser = clap::value_parser!(u64).range(1..))]
    rate_limit: Option<u64>,
    /// Ask for the bytes so many seconds after the connection stands.
    #[arg(long, default_value = "0", value_name = "SECONDS", value_parser = seconds)]
    after: Duration,
    /// Leave the first seconds out of the rate: slow start, and subflows that are still to come.
    #[arg(long, default_value = "0", value_name = "SECONDS", value_parser = seconds)]
    warm_up: Duration,
}

/// What has moved so far, and when.
struct Progress {
    bytes: u64,
    wrong: u64,
    begun: Instant,
    last: Instant,
    longest_pause: Duration,
    warm_up: Duration,
    /// When the warm-up ended, and how much had moved by then.
    warm: Option<(Instant, u64)>,
}

pub async fn run(options: &Options) -> Result<(), Failure> {
    let mut terminated = signal(SignalKind::terminate()).attempt("signals")?;
    let mut stream = None;
    let moved = tokio::select! {
        moved = moved(options, &mut stream) => Some(moved),
        _ = terminated.recv() => None,
    };
    if let Some(stream) = &stream {
        sockets::abort(stream).attempt("a reset")?;
    }
    let Some(moved) = moved else { return Ok(()) };
    let progress = moved.attempt("the flow")?;
    print_report(&json!({
        "bytes": progress.bytes,
        "seconds": progress.begun.elapsed().as_secs_f64(),
        "bits_per_second": progress.rate(),
        "longest_pause": progress.longest_pause.as_secs_f64(),
    }));
    match progress.wrong {
        0 => Ok(()),
        wrong => Err(failure::wrong(format!("{wrong} bytes were wrong"))),
    }
}

/// What moved until the end. The connection is left in `place`, whatever comes.
async fn moved(options: &Options, place: &mut Option<TcpStream>) -> io::Result<Progress> {
    let stream = place.insert(soon(options.route.open()).await?);
    let request = options.request();
    let (first, rest) = request.as_bytes().split_at(FIRST);
    soon(stream.write_all(first)).await?;
    sleep(options.after).await;
    soon(stream.write_all(rest)).await?;
    let mut progress = Progress::begin(options.warm_up);
    let end = progress.begun + options.seconds;
    if options.upload {
        let rate_limit = RateLimit::new(options.rate_limit);
        send(stream, rate_limit, end, &mut progress).await?;
    } else {
        receive(stream, options.verify, end, &mut progress).await?;
    }
    progress.made(0);
    Ok(progress)
}

async fn send(
    stream: &mut TcpStream,
    mut rate_limit: RateLimit,
    end: Instant,
    progress: &mut Progress,
) -> io::Result<()> {
    let pattern = Pattern::new(0);
    while Instant::now() < end {
        let piece = async {
            let room = rate_limit.room().await;
            stream.write(pattern.at(progress.bytes, room)).await
        };
        let count = until(end, piece).await?.unwrap_or(0) as u64;
        rate_limit.spent(count);
        progress.made(count);
    }
    Ok(())
}

async fn receive(stream: &mut TcpStream, verify: bool, end: Instant, progress: &mut Progress) -> io::Result<()> {
    let pattern = verify.then(|| Pattern::new(0));
    let mut take = |data: &[u8]| {
        let wrong = pattern.map_or(0, |pattern| pattern.wrong(progress.bytes, data));
        progress.wrong += wrong;
        progress.made(data.len() as u64);
    };
    let mut buffer = Vec::with_capacity(BUFFER);
    let head = async {
        let body = http::read_head(stream, &mut buffer).await?;
        Ok(body.start)
    };
    let Some(start) = until(end, head).await? else {
        return Ok(());
    };
    take(&buffer[start..]);
    buffer.resize(BUFFER, 0);
    while Instant::now() < end {
        match until(end, stream.read(&mut buffer)).await? {
            Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Some(count) => take(&buffer[..count]),
            None => {}
        }
    }
    Ok(())
}

/// What `step` gives, or None at the end; fails if it takes too long.
async fn until<T>(end: Instant, step: impl Future<Output = io::Result<T>>) -> io::Result<Option<T>> {
    timeout_at(end, soon(step)).await.ok().transpose()
}

/// What `step` gives, if that is soon.
async fn soon<T>(step: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    timeout(STALLED, step).await.unwrap_or_else(|_| {
        let why = format!("nothing moved for {} s", STALLED.as_secs());
        Err(io::Error::new(io::ErrorKind::TimedOut, why))
    })
}

impl Progress {
    fn begin(warm_up: Duration) -> Self {
        let begun = Instant::now();
        Self {
            bytes: 0,
            wrong: 0,
            begun,
            last: begun,
            longest_pause: Duration::ZERO,
            warm_up,
            warm: warm_up.is_zero().then_some((begun, 0)),
        }
    }

    /// So many bytes more, now.
    fn made(&mut self, count: u64) {
        self.longest_pause = self.longest_pause.max(self.last.elapsed());
        self.last = Instant::now();
        self.bytes += count;
        if self.warm.is_none() && self.begun.elapsed() >= self.warm_up {
            self.warm = Some((self.last, self.bytes));
        }
    }

    /// Bits in a second, behind the warm-up.
    fn rate(&self) -> f64 {
        let (since, before) = self.warm.unwrap_or((self.begun, 0));
        8.0 * (self.bytes - before) as f64 / since.elapsed().as_secs_f64()
    }
}

impl Options {
    fn request(&self) -> String {
        if self.upload {
            let length = format!("Content-Length: {ENDLESS}\r\n");
            return self.route.request("PUT", "/", &length);
        }
        let query = self.rate_limit.map(|bits| format!("?rate-limit={bits}"));
        let path = format!("/{ENDLESS}{}", query.unwrap_or_default());
        self.route.request("GET", &path, "")
    }
}
