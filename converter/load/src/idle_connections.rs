//! Many connections that are there and do nothing.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use clap::Args;
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tributary_program::end_signal;

use crate::bulk::print_report;
use crate::failure::{self, Attempt as _, Failure};
use crate::route::Route;
use crate::sockets;

/// Opens the connections and, with --via-http-proxy, asks for one byte on each, so that the proxy has to connect. When
/// all are up prints `{"connections", "seconds"}`, then leaves them idle until SIGTERM, SIGINT or a line on standard input
/// (its end alone means nothing). Then asks for one byte on each, prints `{"alive", "dead"}`, and closes them; exit 1 if
/// any was dead. One address of the client's has some 28,000 ports (`net.ipv4.ip_local_port_range`): --source takes more.
#[derive(Args, Debug)]
pub struct Options {
    #[command(flatten)]
    route: Route,
    /// How many to open.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    connections: u64,
    /// How many are being opened, or asked, at a time.
    #[arg(long, default_value_t = 64, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    at_once: u64,
}

pub async fn run(options: Options) -> Result<(), Failure> {
    sockets::need_descriptors(options.connections + 100)?;
    let options = Arc::new(options);
    let start = Instant::now();
    let held = open_all(&options).await?;
    print_report(&json!({"connections": held.len(), "seconds": start.elapsed().as_secs_f64()}));
    tokio::select! {
        ended = end_signal() => ended?,
        () = a_line() => {}
    }
    prove(&options, held).await
}

async fn open_all(options: &Arc<Options>) -> Result<Vec<TcpStream>, Failure> {
    let opened = Arc::new(AtomicU64::new(0));
    let mut openers = JoinSet::new();
    for _ in 0..options.at_once {
        openers.spawn(open_some(Arc::clone(options), Arc::clone(&opened)));
    }
    let mut held = Vec::new();
    while let Some(some) = openers.join_next().await {
        let opened = opened.load(Ordering::Relaxed).min(options.connections);
        let some = some.expect("an opener does not panic");
        held.append(&mut some.attempt(format!("opening one of the first {opened} connections"))?);
    }
    Ok(held)
}

async fn open_some(options: Arc<Options>, opened: Arc<AtomicU64>) -> io::Result<Vec<TcpStream>> {
    let mut held = Vec::new();
    while opened.fetch_add(1, Ordering::Relaxed) < options.connections {
        let mut stream = options.route.open().await?;
        if options.route.via_http_proxy.is_some() {
            options.route.ask_for_a_byte(&mut stream).await?;
        }
        held.push(stream);
    }
    Ok(held)
}

/// Ends with a line on standard input; without one, never.
async fn a_line() {
    let mut line = String::new();
    match BufReader::new(tokio::io::stdin()).read_line(&mut line).await {
        Ok(1..) => {}
        _ => std::future::pending().await,
    }
}

async fn prove(options: &Arc<Options>, mut held: Vec<TcpStream>) -> Result<(), Failure> {
    let count = held.len() as u64;
    let share = held
        .len()
        .div_ceil(usize::try_from(options.at_once).unwrap_or(usize::MAX));
    let mut provers = JoinSet::new();
    while !held.is_empty() {
        let mine = held.split_off(held.len().saturating_sub(share));
        provers.spawn(prove_some(Arc::clone(options), mine));
    }
    let counts = provers.join_all().await;
    let alive: u64 = counts.iter().map(|(alive, _)| alive).sum();
    let dead = count - alive;
    print_report(&json!({"alive": alive, "dead": dead}));
    match counts.into_iter().find_map(|(_, error)| error) {
        None => Ok(()),
        Some(error) => Err(failure::wrong(format!(
            "{dead} of {count} connections were dead, one of them by: {error}"
        ))),
    }
}

/// How many of `held` are alive, and one error of those that are not.
async fn prove_some(options: Arc<Options>, held: Vec<TcpStream>) -> (u64, Option<io::Error>) {
    let (mut alive, mut error) = (0, None);
    for mut stream in held {
        match options.route.ask_for_a_byte(&mut stream).await {
            Ok(()) => alive += 1,
            Err(this) => error = Some(this),
        }
    }
    (alive, error)
}
