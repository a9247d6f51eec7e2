//! The origin of a soak: it does as each connection's first line says, and keeps count.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::Args;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::ends::play;
use super::plan::Plan;
use super::stats::Stats;
use crate::failure::Failure;
use crate::http::malformed;
use crate::sockets::Listen;

const LINE_WITHIN: Duration = Duration::from_secs(30);

/// What a client asks for at its end: the counts of this end so far, as JSON, and new ones from then on.
pub const REPORT: &str = "report";

/// The other end of `soak`: takes connections from any number of clients and tells each at its end what it counted.
#[derive(Args, Debug)]
pub struct OriginOptions {
    #[command(flatten)]
    listen: Listen,
}

type Shared = Arc<Mutex<Stats>>;

pub async fn run_origin(options: &OriginOptions) -> Result<(), Failure> {
    let shared = Shared::default();
    let serve = |stream| connection(stream, Arc::clone(&shared));
    options.listen.serve(50_000, serve).await
}

async fn connection(mut stream: TcpStream, shared: Shared) {
    let mut received = Vec::new();
    let line = match timeout(LINE_WITHIN, first_line(&mut stream, &mut received)).await {
        Ok(Ok(line)) => line,
        _ => String::new(),
    };
    if line == REPORT {
        // A client that does not wait for it says so itself.
        report(&mut stream, &shared).await.ok();
        return;
    }
    let stats = match Plan::of_line(&line) {
        Some(plan) => play(stream, &plan.parts().1, &received).await,
        None => Stats {
            without_plan: 1,
            ..Stats::default()
        },
    };
    with(&shared, |all| all.add(&stats));
}

/// The first line, without its end; what came behind it stays in `received`.
async fn first_line(stream: &mut TcpStream, received: &mut Vec<u8>) -> io::Result<String> {
    loop {
        if stream.read_buf(received).await? == 0 {
            return Err(malformed("no line"));
        }
        if let Some(end) = received.iter().position(|byte| *byte == b'\n') {
            let line = received.drain(..=end).take(end).collect();
            return String::from_utf8(line).map_err(|_| malformed("a line that is not text"));
        }
    }
}

async fn report(stream: &mut TcpStream, shared: &Shared) -> io::Result<()> {
    let stats = with(shared, std::mem::take);
    stream.write_all(&serde_json::to_vec(&stats)?).await?;
    stream.shutdown().await
}

fn with<T>(shared: &Shared, act: impl FnOnce(&mut Stats) -> T) -> T {
    act(&mut shared.lock().unwrap_or_else(PoisonError::into_inner))
}
