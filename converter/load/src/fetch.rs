//! Many requests for random objects whose content is known, on connections that are kept: is anything ever answered with
//! another request's bytes?

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::bulk::print_report;
use crate::corpus::{Corpus, Object};
use crate::failure::{self, Failure};
use crate::http;
use crate::pattern::Pattern;
use crate::random::Random;
use crate::route::Route;
use crate::seconds::seconds;
use crate::sockets;

/// One in so many times: a part of an object is asked for, requests are sent before answers are there, the client rests, and
/// it goes on with a new connection.
const PARTS: u64 = 4;
const PIPELINED: u64 = 16;
const RESTS: u64 = 2000;
const FRESH: u64 = 1000;
/// Requests that are sent together at most.
const TOGETHER: u64 = 4;
/// A rest takes less.
const REST: Duration = Duration::from_millis(2500);
/// An answer that takes longer never comes.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Asks for objects that `stock` has written, each time for any of them or for any part of it; some requests are sent before
/// the one before them is answered, some clients rest before they go on. A connection that breaks is replaced and counted.
#[derive(Args, Debug)]
pub struct Options {
    #[command(flatten)]
    route: Route,
    #[command(flatten)]
    corpus: Corpus,
    /// How many clients ask at once, each on a connection of its own.
    #[arg(long, default_value_t = 64, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    clients: u64,
    /// How many requests are answered in all.
    #[arg(long, default_value_t = 100_000, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    requests: u64,
    /// Of the random choices.
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    seed: u64,
    /// Each client rests for so long once half of the requests are asked for: every other one in the midst of an answer, the
    /// rest of which fills its window, and the others before a request. That one, for the longest object of a folder, is
    /// not counted in --requests.
    #[arg(long, default_value = "0", value_name = "SECONDS", value_parser = seconds)]
    rest: Duration,
}

#[derive(Debug, Default, Serialize)]
struct Stats {
    answers: u64,
    bytes: u64,
    /// Clients that have rested as long as they were told to.
    rested: u64,
    /// Answers with a byte or a length that is not right.
    wrong: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_wrong: Option<String>,
    /// Connections, and those of them that broke.
    connections: u64,
    broken: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_broken: Option<String>,
}

/// Asks until all is answered. Fails if an answer was wrong.
pub async fn run(options: Options) -> Result<(), Failure> {
    let options = Arc::new(options);
    let left = Arc::new(AtomicU64::new(options.requests));
    let start = Instant::now();
    let clients: Vec<_> = (0..options.clients)
        .map(|number| tokio::spawn(client(Arc::clone(&options), number, Arc::clone(&left))))
        .collect();
    let mut stats = Stats::default();
    for client in clients {
        stats.join(client.await.expect("a client does not panic"));
    }
    let seconds = start.elapsed().as_secs_f64();
    let mut report = json!(stats);
    report["seconds"] = seconds.into();
    report["per_second"] = (stats.answers as f64 / seconds).into();
    print_report(&report);
    match (stats.wrong, stats.answers) {
        (0, 0) => Err(failure::unavailable("no request was answered")),
        (0, _) => Ok(()),
        (wrong, _) => Err(failure::wrong(format!("{wrong} answers were wrong"))),
    }
}

/// One request, and what its answer must be.
#[derive(Debug)]
struct Wanted {
    request: String,
    pattern: Pattern,
    from: u64,
    length: u64,
    /// A rest in the midst of the answer.
    rest: Duration,
}

impl Wanted {
    /// All of `object`.
    fn whole(options: &Options, object: &Object<'_>, rest: Duration) -> Self {
        Self {
            request: options.route.request("GET", &object.path(), ""),
            pattern: object.pattern(),
            from: 0,
            length: object.length,
            rest,
        }
    }

    fn any(options: &Options, random: &mut Random) -> Self {
        let object = options.corpus.any(random);
        if object.length == 0 || random.below(PARTS) != 0 {
            return Self::whole(options, &object, Duration::ZERO);
        }
        let from = random.below(object.length);
        let length = 1 + random.below(object.length - from);
        let fields = format!("Range: bytes={from}-{}\r\n", from + length - 1);
        Self {
            request: options.route.request("GET", &object.path(), &fields),
            pattern: object.pattern(),
            from,
            length,
            rest: Duration::ZERO,
        }
    }

    /// Why `body` is not the answer.
    fn wrong(&self, body: &[u8]) -> Option<String> {
        let line = self.request.lines().next().unwrap_or_default();
        if body.len() as u64 != self.length {
            let (came, asked) = (body.len(), self.length);
            return Some(format!("{line}: {came} bytes came, {asked} were asked for"));
        }
        let wrong = self.pattern.wrong(self.from, body);
        (wrong > 0).then(|| format!("{line}: {wrong} bytes are wrong, from {} on", self.from))
    }
}

async fn client(options: Arc<Options>, number: u64, left: Arc<AtomicU64>) -> Stats {
    let mut random = Random::new(options.seed.wrapping_mul(1 << 20).wrapping_add(number));
    let mut stats = Stats::default();
    let mut kept = None;
    let mut rests = !options.rest.is_zero();
    loop {
        let some = if rests && left.load(Ordering::Relaxed) <= options.requests / 2 {
            rests = false;
            vec![rest(&options, number, &mut stats).await]
        } else {
            let together = match random.below(PIPELINED) {
                0 => 2 + random.below(TOGETHER - 1),
                _ => 1,
            };
            let take = |left: u64| (left > 0).then(|| left.saturating_sub(together));
            let Ok(before) = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) else {
                return stats;
            };
            if random.below(FRESH) == 0 {
                kept = None;
            }
            let some = (0..together.min(before)).map(|_| Wanted::any(&options, &mut random));
            some.collect()
        };
        match ask(&options, kept.take(), &some, &mut stats).await {
            Ok(stream) => kept = Some(stream),
            Err(error) => stats.broke(&error).await,
        }
        if let Some(rest) = random.pause(RESTS, REST) {
            sleep(rest).await;
        }
    }
}

/// Rests, or has the rest come in the midst of the answer to what it gives.
async fn rest(options: &Options, number: u64, stats: &mut Stats) -> Wanted {
    let folders = &options.corpus.folders;
    let folder = usize::try_from(number / 2).unwrap_or(0) % folders.len();
    let longest = options.corpus.longest(&folders[folder]);
    if number % 2 == 0 {
        return Wanted::whole(options, &longest, options.rest);
    }
    sleep(options.rest).await;
    stats.rested += 1;
    Wanted::whole(options, &longest, Duration::ZERO)
}

/// All of them at once, and their answers in order, on `kept` or on a new connection.
async fn ask(options: &Options, kept: Option<TcpStream>, some: &[Wanted], stats: &mut Stats) -> io::Result<TcpStream> {
    let mut stream = if let Some(stream) = kept {
        stream
    } else {
        stats.connections += 1;
        let stream = options.route.open().await?;
        if !options.rest.is_zero() {
            sockets::keep_receive_buffer_small(&stream)?;
        }
        stream
    };
    let requests: String = some.iter().map(|each| each.request.as_str()).collect();
    stream.write_all(requests.as_bytes()).await?;
    let mut received = Vec::new();
    for each in some {
        timeout(
            ANSWER_TIMEOUT + each.rest,
            answer(&mut stream, each, &mut received, stats),
        )
        .await??;
    }
    match received.len() {
        0 => Ok(stream),
        _ => Err(http::malformed("bytes after the last answer's end")),
    }
}

/// One answer out of `received` and what comes behind it.
async fn answer(stream: &mut TcpStream, wanted: &Wanted, received: &mut Vec<u8>, stats: &mut Stats) -> io::Result<()> {
    let body = http::read_head(stream, received).await?;
    if !wanted.rest.is_zero() {
        let half = body.start..body.start + body.len() / 2;
        http::read_body(stream, &half, received).await?;
        sleep(wanted.rest).await;
        stats.rested += 1;
    }
    http::read_body(stream, &body, received).await?;
    stats.answers += 1;
    stats.bytes += body.len() as u64;
    if let Some(why) = wanted.wrong(&received[body.clone()]) {
        stats.wrong += 1;
        stats.first_wrong.get_or_insert(why);
    }
    received.drain(..body.end);
    Ok(())
}

impl Stats {
    /// Counts it, and waits a little: a server that refuses is not to be asked in a busy loop. What cannot be parsed is an
    /// answer that is wrong.
    async fn broke(&mut self, error: &io::Error) {
        if error.kind() == io::ErrorKind::InvalidData {
            self.wrong += 1;
            self.first_wrong.get_or_insert(error.to_string());
        } else {
            self.broken += 1;
            self.first_broken.get_or_insert(error.to_string());
        }
        sleep(Duration::from_millis(10)).await;
    }

    fn join(&mut self, other: Self) {
        self.answers += other.answers;
        self.bytes += other.bytes;
        self.rested += other.rested;
        self.wrong += other.wrong;
        self.connections += other.connections;
        self.broken += other.broken;
        self.first_wrong = self.first_wrong.take().or(other.first_wrong);
        self.first_broken = self.first_broken.take().or(other.first_broken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(from: u64, length: u64) -> Wanted {
        Wanted {
            request: "GET /a/10-1 HTTP/1.1\r\n\r\n".to_owned(),
            pattern: Pattern::new(1),
            from,
            length,
            rest: Duration::ZERO,
        }
    }

    #[test]
    fn an_answer_is_wrong_by_its_length_its_bytes_and_their_place() {
        let bytes = Pattern::new(1).at(5, 100);
        assert_eq!(wanted(5, 100).wrong(bytes), None);
        assert!(wanted(5, 99).wrong(bytes).is_some());
        assert!(wanted(4, 100).wrong(bytes).is_some());
        let other = Pattern::new(2).at(5, 100);
        let said = wanted(5, 100).wrong(other).expect("wrong");
        assert!(said.starts_with("GET /a/10-1 HTTP/1.1: "), "{said}");
    }
}
