//! The same request at regular intervals, and how long each answer takes.

use std::io;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use clap::Args;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use crate::bulk::print_report;
use crate::failure::{Attempt as _, Failure};
use crate::http;
use crate::route::Route;
use crate::seconds::seconds;

/// An answer that takes longer has failed.
const NEVER: Duration = Duration::from_secs(30);

/// Asks on a new connection each time, at regular intervals, or as soon as the answer before is there. Prints `{"ms":
/// [...], "at": [...], "failed": [...]}`: the milliseconds from before connect(2) to the last byte of each answer, when each
/// of these requests began, in Unix time, and the requests that failed: `{"at", "seconds", "why"}`. An answer other than
/// 200 is a failure. The first one ends it, without `--go-on`.
#[derive(Args, Debug)]
pub struct Options {
    #[command(flatten)]
    route: Route,
    /// What to ask for, on any server.
    #[arg(long, default_value = "/1024", value_name = "PATH")]
    path: String,
    /// No request begins later.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    seconds: Duration,
    /// From one request to the next.
    #[arg(long, default_value = "0.05", value_name = "SECONDS", value_parser = seconds)]
    every: Duration,
    /// Send each request at its time, whether those before were answered, failed, or still wait.
    #[arg(long)]
    go_on: bool,
}

#[derive(Default)]
struct Report {
    ms: Vec<f64>,
    at: Vec<f64>,
    failed: Vec<Value>,
}

/// One request: when it began, how long it took, what came of it.
struct Asked {
    at: f64,
    took: Duration,
    outcome: io::Result<()>,
}

pub async fn run(options: Options) -> Result<(), Failure> {
    let options = Arc::new(options);
    let end = Instant::now() + options.seconds;
    let mut report = Report::default();
    let mut waiting = JoinSet::new();
    loop {
        let begun = Instant::now();
        if begun >= end {
            break;
        }
        if options.go_on {
            waiting.spawn(asked(Arc::clone(&options)));
        } else {
            let asked = asked(Arc::clone(&options)).await;
            asked.outcome.attempt(&options.path)?;
            report.answered(asked.at, asked.took);
        }
        sleep_until(begun + options.every).await;
    }
    let mut rest = waiting.join_all().await;
    rest.sort_by(|one, other| one.at.total_cmp(&other.at));
    for Asked { at, took, outcome } in rest {
        match outcome {
            Ok(()) => report.answered(at, took),
            Err(error) => report.failed.push(json!({
                "at": at,
                "seconds": took.as_secs_f64(),
                "why": error.to_string(),
            })),
        }
    }
    print_report(&json!({"ms": report.ms, "at": report.at, "failed": report.failed}));
    Ok(())
}

impl Report {
    fn answered(&mut self, at: f64, took: Duration) {
        self.at.push(at);
        self.ms.push((took.as_secs_f64() * 1e6).round() / 1e3);
    }
}

async fn asked(options: Arc<Options>) -> Asked {
    let at = UNIX_EPOCH.elapsed().map_or(0.0, |since| since.as_secs_f64());
    let begun = Instant::now();
    let outcome = timeout(NEVER, ask(&options)).await.unwrap_or_else(|_| {
        let why = format!("no answer within {} s", NEVER.as_secs());
        Err(io::Error::new(io::ErrorKind::TimedOut, why))
    });
    Asked {
        at,
        took: begun.elapsed(),
        outcome,
    }
}

async fn ask(options: &Options) -> io::Result<()> {
    let route = &options.route;
    let request = route.request("GET", &options.path, "Connection: close\r\n");
    let mut stream = route.open().await?;
    http::exchange(&mut stream, request.as_bytes(), &mut Vec::new()).await?;
    Ok(())
}
