//! The side of a soak that says what is to happen.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::ends::play;
use super::origin::REPORT;
use super::plan::{Limits, Plan};
use super::stats::Stats;
use crate::bulk::print_report;
use crate::failure::{self, Attempt as _, Failure};
use crate::random::Random;
use crate::route::Route;
use crate::seconds::seconds;
use crate::sockets;

const BETWEEN: Duration = Duration::from_millis(30);
const OPEN_WITHIN: Duration = Duration::from_secs(30);

/// Each of --connections slots opens one connection after the other through a tunnel (--via-connect) or directly. On each
/// both ends send up to 4 MiB, in pieces and with pauses at random, and check every byte that comes; they half-close in
/// either order, or one of them resets the connection in the middle. The same --seed gives the same plans. At the end
/// prints both ends' counts; exit 1 if a byte was wrong or missing, a connection broke though nobody reset it, or one was
/// not at its end within 30 s. A reset that a proxy made an orderly end of is counted (`resets_as_ends`) and no failure;
/// one that was not heard of within 30 s (`resets_unheard`) is a failure by TCP: by MPTCP the kernel itself loses a few.
/// Each of --resting slots does the same with connections on which nothing moves for a while, before the first byte or when
/// one end is through: for up to half of the proxy's time-out (--idle, --half-closed), or for longer than that; then the
/// proxy has to reset the connection (`reaped`), and not before.
#[derive(Args, Debug)]
pub struct Options {
    #[command(flatten)]
    route: Route,
    /// How long new connections are opened; those that are open then are played to their end.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    seconds: Duration,
    /// How many are open at a time.
    #[arg(long, default_value_t = 64, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    connections: u64,
    /// How many more are open at a time that rest.
    #[arg(
        long,
        default_value_t = 0,
        value_name = "COUNT",
        requires = "idle",
        requires = "half_closed"
    )]
    resting: u64,
    #[command(flatten)]
    limits: Limits,
    /// Of all that is random.
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    seed: u64,
}

pub async fn run(options: Options) -> Result<(), Failure> {
    let count = options.connections + options.resting;
    sockets::need_descriptors(count + 100)?;
    let options = Arc::new(options);
    let start = Instant::now();
    let until = start + options.seconds;
    let mut slots: JoinSet<Stats> = (0..count)
        .map(|number| slot(Arc::clone(&options), number, until))
        .collect();
    let mut client = Stats::default();
    while let Some(stats) = slots.join_next().await {
        client.add(&stats.expect("a slot does not panic"));
    }
    let origin = ask_origin(&options.route)
        .await
        .attempt("asking the origin for its counts")?;
    let mptcp = options.route.mptcp;
    let right = client.is_right(mptcp) && origin.is_right(mptcp);
    let seconds = start.elapsed().as_secs_f64();
    print_report(&json!({"seconds": seconds, "client": client, "origin": origin}));
    if right {
        return Ok(());
    }
    Err(failure::wrong("not every byte and every end was as planned"))
}

async fn slot(options: Arc<Options>, number: u64, until: Instant) -> Stats {
    let mut random = Random::new(options.seed.wrapping_mul(1 << 20).wrapping_add(number));
    let mut stats = Stats::default();
    while Instant::now() < until {
        let plan = if number < options.connections {
            Plan::random(&mut random)
        } else {
            Plan::resting(&mut random, &options.limits)
        };
        stats.add(&one(&options.route, &plan).await);
        if let Some(pause) = random.pause(2, BETWEEN) {
            sleep(pause).await;
        }
    }
    stats
}

async fn one(route: &Route, plan: &Plan) -> Stats {
    let opened = timeout(OPEN_WITHIN, async {
        let mut stream = route.open().await?;
        stream.write_all((plan.to_line() + "\n").as_bytes()).await?;
        Ok::<_, io::Error>(stream)
    });
    match opened.await {
        Ok(Ok(stream)) => {
            let mut stats = play(stream, &plan.parts().0, &[]).await;
            if !stats.is_right(false) {
                stats.name(plan);
            }
            stats
        }
        Ok(Err(error)) => Stats::broken(&error),
        Err(_) => Stats::broken(&"it could not be opened in time"),
    }
}

/// The origin's counts, when its last connections had time to end.
async fn ask_origin(route: &Route) -> io::Result<Stats> {
    sleep(Duration::from_secs(1)).await;
    let mut stream = route.open().await?;
    stream.write_all(format!("{REPORT}\n").as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(serde_json::from_slice(&answer)?)
}
