//! One end of one connection: both ends do the same, each by its part of the plan.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, Interest};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::time::{Instant, sleep, timeout};

use super::plan::{Part, Rest};
use super::stats::Stats;
use crate::pattern::Pattern;
use crate::random::Random;
use crate::sockets;

const MOST_AT_ONCE: u64 = 64 << 10;
const PAUSE: Duration = Duration::from_millis(50);
const STUCK: Duration = Duration::from_secs(30);
/// A proxy's time begins with the last byte that it moved, which an end may see this much later.
const SEEN_LATER: Duration = Duration::from_secs(1);

/// Plays `part` on `stream` to its end; `early` came in already.
pub async fn play(mut stream: TcpStream, part: &Part, early: &[u8]) -> Stats {
    let mut stats = Stats {
        connections: 1,
        ..Stats::default()
    };
    let most = STUCK + part.rest.time;
    let is_reaped = part.rest.is_too_long();
    match timeout(most, both_ways(&mut stream, part, early, &mut stats)).await {
        Err(_) if part.is_reset || is_reaped => stats.resets_unheard += 1,
        Err(_) => stats.stuck += 1,
        Ok(Err(error)) if is_reaped && error.kind() != io::ErrorKind::Other => stats.reaped += 1,
        Ok(Err(error)) if !part.is_reset => {
            stats.broken += 1;
            stats.broken_by = Some(error.to_string());
        }
        Ok(Err(_)) => stats.resets += 1,
        Ok(Ok(())) if is_reaped => stats.outlived += 1,
        Ok(Ok(())) if part.rest.time > Duration::ZERO => stats.rests += 1,
        Ok(Ok(())) if part.is_reset => stats.resets_as_ends += 1,
        Ok(Ok(())) => {}
    }
    stats
}

async fn both_ways(stream: &mut TcpStream, part: &Part, early: &[u8], stats: &mut Stats) -> io::Result<()> {
    if part.rests_first {
        rest(stream, part.rest).await?;
    }
    let (mut reader, mut writer) = stream.split();
    let ended = if part.waits {
        receive(&mut reader, part, early, stats).await?;
        stats.half_closes += 1;
        rest(writer.as_ref(), part.rest).await?;
        send(&mut writer, part).await
    } else if part.resets {
        // What comes in is checked as long as there is something to send.
        tokio::select! {
            sent = send(&mut writer, part) => sent,
            Err(error) = receive(&mut reader, part, early, stats) => Err(error),
        }
    } else {
        let (sent, received) = tokio::join!(send(&mut writer, part), receive(&mut reader, part, early, stats));
        received.and(sent)
    };
    if part.resets {
        sockets::abort(stream)?;
    }
    ended
}

/// Nothing is sent for a while. An error if the connection breaks meanwhile; of kind Other, if that is too early.
async fn rest(stream: &TcpStream, rest: Rest) -> io::Result<()> {
    if rest.time.is_zero() {
        return Ok(());
    }
    let begun = Instant::now();
    if timeout(rest.time, stream.ready(Interest::ERROR)).await.is_err() {
        return Ok(());
    }
    let after = begun.elapsed();
    if after + SEEN_LATER < rest.limit {
        let limit = rest.limit;
        return Err(io::Error::other(format!(
            "reset after a rest of {after:?}, before its limit of {limit:?}"
        )));
    }
    Err(io::ErrorKind::ConnectionReset.into())
}

async fn send(writer: &mut WriteHalf<'_>, part: &Part) -> io::Result<()> {
    let (seed, length) = part.sends;
    let (pattern, mut random) = (Pattern::new(seed), Random::new(seed));
    let mut sent = 0;
    while sent < length {
        let size = (1 + random.below(MOST_AT_ONCE)).min(length - sent);
        sent += writer.write(pattern.at(sent, size)).await? as u64;
        if let Some(pause) = random.pause(32, PAUSE) {
            sleep(pause).await;
        }
    }
    if !part.resets {
        writer.shutdown().await?;
    }
    Ok(())
}

/// Reads to the end, at a pace of its own, and compares every byte.
async fn receive(reader: &mut ReadHalf<'_>, part: &Part, early: &[u8], stats: &mut Stats) -> io::Result<()> {
    let (seed, length) = part.receives;
    let mut random = Random::new(!seed);
    let mut received = Received::new(seed, length, stats);
    received.take(early);
    let mut buffer = vec![0; 64 << 10];
    loop {
        let size = usize::try_from(1 + random.below(MOST_AT_ONCE)).unwrap_or(1);
        match reader.read(&mut buffer[..size]).await? {
            0 => break,
            count => received.take(&buffer[..count]),
        }
        if let Some(pause) = random.pause(64, PAUSE) {
            sleep(pause).await;
        }
    }
    received.end(part.is_reset || part.resets);
    Ok(())
}

struct Received<'a> {
    pattern: Pattern,
    length: u64,
    count: u64,
    stats: &'a mut Stats,
}

impl<'a> Received<'a> {
    fn new(seed: u64, length: u64, stats: &'a mut Stats) -> Self {
        Self {
            pattern: Pattern::new(seed),
            length,
            count: 0,
            stats,
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        let left = usize::try_from(self.length - self.count.min(self.length)).unwrap_or(usize::MAX);
        let expected = &bytes[..bytes.len().min(left)];
        let surplus = bytes.len() - expected.len();
        self.stats.wrong_bytes += self.pattern.wrong(self.count, expected) + surplus as u64;
        self.stats.checked_bytes += bytes.len() as u64;
        self.count += bytes.len() as u64;
    }

    fn end(&mut self, may_be_early: bool) {
        if self.count < self.length && !may_be_early {
            self.stats.truncated += 1;
        }
    }
}
