//! Many small requests, on a new connection each or on connections that are kept.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use tokio::net::TcpStream;
use tokio::runtime::Builder;

use crate::bulk::print_report;
use crate::failure::{self, Attempt as _, Failure};
use crate::http;
use crate::latency::Latencies;
use crate::route::Route;
use crate::seconds::seconds;

/// As many as the processors that are there to measure on.
const THREADS: u64 = 2;

/// What `connect` and `requests` share.
#[derive(Args, Debug)]
pub struct Options {
    #[command(flatten)]
    route: Route,
    /// How many clients ask at once, each one request at a time.
    #[arg(long, default_value_t = 64, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    clients: u64,
    /// For how long.
    #[arg(long, default_value = "10", value_name = "SECONDS", value_parser = seconds)]
    seconds: Duration,
    /// Bytes of each answer.
    #[arg(long, default_value_t = 1024, value_name = "COUNT")]
    bytes: usize,
    /// How long a client waits after each answer.
    #[arg(long, default_value_t = 0.0, value_name = "MILLISECONDS")]
    pause: f64,
    /// Have the origin close its connection behind each answer: a proxy that keeps such connections opens a new one.
    #[arg(long)]
    fresh: bool,
}

#[derive(Default)]
struct Stats {
    latencies: Latencies,
    errors: u64,
    first_error: Option<io::Error>,
}

/// Asks for the time that was wished; `keep` says whether on one connection for each client.
pub fn run(options: Options, keep: bool) -> Result<(), Failure> {
    let options = &Arc::new(options);
    let start = Instant::now();
    let until = start + options.seconds;
    let mut all = Stats::default();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|number| {
                let clients = (options.clients + number) / THREADS;
                scope.spawn(move || some_clients(options, clients, keep, until))
            })
            .collect();
        for thread in threads {
            all.join(thread.join().expect("a thread does not panic")?);
        }
        Ok::<_, io::Error>(())
    })
    .attempt("a thread")?;
    let seconds = start.elapsed().as_secs_f64();
    let requests = all.latencies.count();
    if requests == 0 {
        let why = all
            .first_error
            .map_or_else(|| "there was no time".to_owned(), |error| error.to_string());
        return Err(failure::unavailable(format!("no request was answered: {why}")));
    }
    let mut report = all.latencies.quantiles();
    report["requests"] = requests.into();
    report["seconds"] = seconds.into();
    report["per_second"] = (requests as f64 / seconds).into();
    report["errors"] = all.errors.into();
    if let Some(error) = all.first_error {
        report["first_error"] = error.to_string().into();
    }
    print_report(&report);
    Ok(())
}

/// Some clients on a thread of their own: it wakes no other one, so that they cost little beside what they ask through.
fn some_clients(options: &Arc<Options>, count: u64, keep: bool, until: Instant) -> io::Result<Stats> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let clients: Vec<_> = (0..count)
            .map(|_| tokio::spawn(client(Arc::clone(options), keep, until)))
            .collect();
        let mut all = Stats::default();
        for client in clients {
            all.join(client.await.expect("a client does not panic"));
        }
        Ok(all)
    })
}

async fn client(options: Arc<Options>, keep: bool, until: Instant) -> Stats {
    let request = options.request(keep);
    let mut stats = Stats::default();
    let mut received = Vec::with_capacity(2 * options.bytes);
    let mut kept = None;
    let mut start = Instant::now();
    while start < until {
        match ask(&options, kept.take(), &request, &mut received).await {
            Ok(stream) => {
                kept = keep.then_some(stream);
                let now = Instant::now();
                stats.latencies.add(now - start);
                start = now;
            }
            Err(error) => {
                stats.fail(error).await;
                start = Instant::now();
            }
        }
        if options.pause > 0.0 {
            tokio::time::sleep(Duration::from_secs_f64(options.pause / 1e3)).await;
            start = Instant::now();
        }
    }
    stats
}

/// One request and its answer, on `kept` or on a new connection.
async fn ask(
    options: &Options,
    kept: Option<TcpStream>,
    request: &str,
    received: &mut Vec<u8>,
) -> io::Result<TcpStream> {
    let mut stream = match kept {
        Some(stream) => stream,
        None => options.route.open().await?,
    };
    let body = http::exchange(&mut stream, request.as_bytes(), received).await?;
    http::check_length(&body, options.bytes as u64)?;
    Ok(stream)
}

impl Options {
    fn request(&self, keep: bool) -> String {
        let path = format!("/{}{}", self.bytes, if self.fresh { "?close" } else { "" });
        self.route
            .request("GET", &path, if keep { "" } else { "Connection: close\r\n" })
    }
}

impl Stats {
    /// Counts an error, and waits a little: a server that refuses is not to be asked in a busy loop.
    async fn fail(&mut self, error: io::Error) {
        self.errors += 1;
        self.first_error.get_or_insert(error);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }

    fn join(&mut self, other: Self) {
        self.latencies.join(other.latencies);
        self.errors += other.errors;
        self.first_error = self.first_error.take().or(other.first_error);
    }
}
