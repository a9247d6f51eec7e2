//! The same request at regular intervals, and how long each answer takes.

use std::io;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tokio::time::{Instant, sleep_until, timeout};

use crate::bulk::print_report;
use crate::failure::{Attempt as _, Failure};
use crate::http;
use crate::route::Route;
use crate::seconds::seconds;

/// An answer that takes longer has failed.
const NEVER: Duration = Duration::from_secs(30);

/// Asks on a new connection each time, at regular intervals, or as soon as the answer before is there. Prints `{"ms":
/// [...], "failed": [...]}`: the milliseconds from before connect(2) to the last byte of each answer, and each failure
/// with the seconds since the start at which its request began: `{"at", "seconds", "why"}`. An answer other than 200 is
/// one, and the first ends it, without `--go-on`.
#[derive(Args, Debug)]
pub struct Options {
    #[command(flatten)]
    route: Route,
    /// What to ask for, on any server.
    #[arg(long, default_value = "/1024", value_name = "PATH")]
    path: String,
    /// No request begins later.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    seconds: f64,
    /// From one request to the next.
    #[arg(long, default_value = "0.05", value_name = "SECONDS", value_parser = seconds)]
    every: f64,
    /// When a request fails, tell it and send the next one.
    #[arg(long)]
    go_on: bool,
}

#[derive(Default, Serialize)]
struct Report {
    ms: Vec<f64>,
    failed: Vec<Failed>,
}

#[derive(Serialize)]
struct Failed {
    at: f64,
    seconds: f64,
    why: String,
}

/// Asks and tells.
pub async fn run(options: &Options) -> Result<(), Failure> {
    let request = options
        .route
        .request("GET", &options.path, "Connection: close\r\n");
    let start = Instant::now();
    let end = start + Duration::from_secs_f64(options.seconds);
    let mut report = Report::default();
    loop {
        let begun = Instant::now();
        if begun >= end {
            break;
        }
        match answered(&options.route, &request).await {
            Err(error) if options.go_on => report.failed.push(Failed {
                at: (begun - start).as_secs_f64(),
                seconds: begun.elapsed().as_secs_f64(),
                why: error.to_string(),
            }),
            answered => {
                answered.attempt(&options.path)?;
                let ms = (begun.elapsed().as_secs_f64() * 1e6).round() / 1e3;
                report.ms.push(ms);
            }
        }
        sleep_until(begun + Duration::from_secs_f64(options.every)).await;
    }
    print_report(&report);
    Ok(())
}

async fn answered(route: &Route, request: &str) -> io::Result<()> {
    timeout(NEVER, ask(route, request))
        .await
        .unwrap_or_else(|_| {
            let why = format!("no answer within {} s", NEVER.as_secs());
            Err(io::Error::new(io::ErrorKind::TimedOut, why))
        })
}

async fn ask(route: &Route, request: &str) -> io::Result<()> {
    let mut stream = route.open().await?;
    http::exchange(&mut stream, request.as_bytes(), &mut Vec::new()).await?;
    Ok(())
}
