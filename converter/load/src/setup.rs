//! How long a connection takes to stand, beside many others.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::bulk::print_report;
use crate::failure::{Attempt as _, Failure};
use crate::latency::Latencies;
use crate::route::Route;
use crate::sockets;

/// Between two connections of which one follows the other.
const PAUSE: Duration = Duration::from_millis(2);

/// Opens the connections all at once, then others beside them one after the other. Each asks for one byte, so that a
/// proxy has to connect. Prints `{"connections", "at_once", "beside"}`; the latter two have `connected` and `answered`, the
/// times from connect(2) until the connection stood and until the byte was there, each with the median and the 99th
/// percentile in microseconds.
#[derive(Args, Debug)]
pub struct Options {
    #[command(flatten)]
    route: Route,
    /// How many to open at once.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    connections: u64,
    /// How many to open then, one after the other.
    #[arg(long, default_value_t = 200, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    beside: u64,
}

#[derive(Default)]
struct Times {
    connected: Latencies,
    answered: Latencies,
}

pub async fn run(options: Options) -> Result<(), Failure> {
    sockets::need_descriptors(options.connections + 100)?;
    let connections = options.connections;
    let options = Arc::new(options);
    let mut openers = JoinSet::new();
    for _ in 0..connections {
        let options = Arc::clone(&options);
        openers.spawn(async move { open(&options.route).await });
    }
    let mut held = Vec::new();
    let mut at_once = Times::default();
    while let Some(opened) = openers.join_next().await {
        let opened = opened.expect("an opener does not panic");
        held.push(at_once.add(opened.attempt(format!("opening {connections} at once"))?));
    }
    let mut beside = Times::default();
    for _ in 0..options.beside {
        sleep(PAUSE).await;
        let opened = open(&options.route).await;
        beside.add(opened.attempt(format!("opening one beside {connections}"))?);
    }
    print_report(&json!({
        "connections": connections,
        "at_once": at_once.quantiles(),
        "beside": beside.quantiles(),
    }));
    Ok(())
}

/// A connection, and how long it took until it stood and until it brought an answer.
async fn open(route: &Route) -> io::Result<(TcpStream, Duration, Duration)> {
    let start = Instant::now();
    let mut stream = route.open().await?;
    let connected = start.elapsed();
    route.ask_for_a_byte(&mut stream).await?;
    Ok((stream, connected, start.elapsed()))
}

impl Times {
    fn add(&mut self, (stream, connected, answered): (TcpStream, Duration, Duration)) -> TcpStream {
        self.connected.add(connected);
        self.answered.add(answered);
        stream
    }

    fn quantiles(self) -> Value {
        json!({"connected": self.connected.quantiles(), "answered": self.answered.quantiles()})
    }
}
