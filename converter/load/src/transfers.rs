//! Transfers of given sizes, one after the other, and how long each takes.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use clap::Args;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::time::timeout;
use tributary_proto::convert::client::{self, Answer};
use tributary_proto::convert::{HEADER_LENGTH, Reply, Request};

use crate::bulk::print_report;
use crate::failure::{Attempt as _, Failure};
use crate::http;
use crate::route::Route;
use crate::sockets;

/// A transfer that takes longer has failed.
const NEVER: Duration = Duration::from_secs(300);

/// Asks for each size on a new connection each time. Prints `{"SIZE": [[FIRST, WHOLE], ...], ...}`: the milliseconds
/// from before connect(2) to the first byte of the answer and to its last.
#[derive(Args, Debug)]
pub struct Options {
    #[command(flatten)]
    route: Route,
    /// Ask this converter by RFC 8803, with message and request in the SYN; --to is then the origin. The kernel has to
    /// send data in SYNs without a cookie (`net.ipv4.tcp_fastopen`).
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with_all = ["via_http_proxy", "via_connect", "mptcp", "source"])]
    via_convert: Option<SocketAddr>,
    /// How many of each size.
    #[arg(long, default_value_t = 1, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,
    /// Bytes of an answer.
    #[arg(required = true, value_name = "SIZE")]
    sizes: Vec<usize>,
}

/// Milliseconds to the first byte and to the last.
type Times = (f64, f64);

pub fn run(options: &Options) -> Result<(), Failure> {
    // On one thread: waking another one would be part of what is measured.
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.attempt("an event loop")?;
    let mut taken = BTreeMap::<usize, Vec<Times>>::new();
    for &size in &options.sizes {
        for _ in 0..options.count {
            let times = runtime.block_on(async { timeout(NEVER, transfer(options, size)).await? });
            let times = times.attempt(format!("a transfer of {size} bytes"))?;
            taken.entry(size).or_default().push(times);
        }
    }
    print_report(&taken);
    Ok(())
}

async fn transfer(options: &Options, size: usize) -> io::Result<Times> {
    let path = format!("/{size}?close");
    let request = options.route.request("GET", &path, "");
    let mut received = Vec::new();
    let start = Instant::now();
    let mut stream = if let Some(converter) = options.via_convert {
        convert(converter, options.route.to, request.as_bytes()).await?
    } else {
        let mut stream = options.route.open().await?;
        stream.write_all(request.as_bytes()).await?;
        stream
    };
    stream.peek(&mut [0]).await?;
    let first = start.elapsed();
    let body = http::exchange(&mut stream, b"", &mut received).await?;
    let whole = start.elapsed();
    http::check_length(&body, size as u64)?;
    Ok((1e3 * first.as_secs_f64(), 1e3 * whole.as_secs_f64()))
}

/// A connection to `origin` through `converter`, on which `request` is sent already and nothing of its answer read.
async fn convert(converter: SocketAddr, origin: SocketAddr, request: &[u8]) -> io::Result<TcpStream> {
    let mut message = Request::connect(origin).encode().expect("it is short");
    message.extend_from_slice(request);
    let mut stream = sockets::connect_with(converter, &message)?;
    // Asked for nothing else, a converter that has connected answers with a header alone (RFC 8803 section 6.1).
    let mut answer = [0; HEADER_LENGTH];
    stream.read_exact(&mut answer).await?;
    match client::parse(&answer) {
        Ok(Some((Answer::Established(reply), _))) if reply == Reply::default() => Ok(stream),
        _ => Err(http::malformed(&format!("the converter answered {answer:02x?}"))),
    }
}
