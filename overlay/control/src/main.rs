//! The command `tributary-overlay`: agents and controllers of the overlay.

#![forbid(unsafe_code)]

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use overlay_control::egresses::Egresses;
use overlay_control::embedded::Etcd;
use overlay_control::failure::{Exit, Failure};
use overlay_control::handed::Handed;
use overlay_control::ingress::Ingress;
use overlay_control::members::{Members, endpoint};
use overlay_control::meter::{Peers, Readings, measure};
use overlay_control::name::Name;
use overlay_control::store::{Lease, forever};
use overlay_control::threshold::Threshold;
use overlay_control::{agent, controller, explain, status};
use serde::Serialize;
use tokio::net::UdpSocket;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing::info;

/// The overlay's control plane on etcd: agents measure delays, a controller publishes chains of converters.
#[derive(Debug, Parser)]
#[command(name = "tributary-overlay", version, after_help = AFTER)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const AFTER: &str = "\
Without etcd agents and controllers wait, and go on when it is back. SIGTERM and SIGINT end them in order; SIGHUP has an
agent read its --egresses again.

Exit status:
  0   done
  64  wrong arguments
  65  the file of --egresses is refused: which line
  66  it, or a file of --identity, cannot be read
  69  etcd does not answer, or is not installed
  71  the system refused an operation, or etcd ended
  75  a port is in use
  77  not permitted";

#[derive(Debug, Subcommand)]
enum Command {
    /// Say that a node is alive, and publish the round-trip times to its peers
    Agent(Agent),
    /// Compute the tables of all ingresses and publish them, when elected
    Controller(Controller),
    /// Which way an ingress's connections to a server go, as JSON
    Explain(Explain),
    /// What is so now, as JSON
    Status(Reached),
}

const HERE: &str = "http://127.0.0.1:2379";

/// How etcd is reached.
#[derive(Debug, Args)]
struct Reached {
    /// etcd's members: https, or http on this machine
    #[arg(long, value_name = "URL,...", value_delimiter = ',', default_value = HERE, value_parser = endpoint)]
    endpoints: Vec<String>,
    /// The folder that `scripts/overlay enrol` made: ca.pem, node.pem, node.key; with https
    #[arg(long, value_name = "FOLDER")]
    identity: Option<PathBuf>,
    /// Ask etcd over http on other machines, too: in a network that nobody else reaches
    #[arg(long)]
    insecure_transport: bool,
}

impl Reached {
    fn members(&self) -> Result<Members, Failure> {
        let identity = self.identity.as_deref();
        Members::new(self.endpoints.clone(), identity, self.insecure_transport)
    }
}

#[derive(Debug, Args)]
struct Agent {
    /// The node's name: 1 to 64 of A-Z a-z 0-9 . _ , + -
    name: Name,
    /// Where it answers its peers' pings (UDP); they learn this address
    #[arg(long, value_name = "IP:PORT", value_parser = own_address)]
    address: SocketAddr,
    #[command(flatten)]
    reached: Reached,
    /// Milliseconds from one ping of a peer to the next; a slower answer counts as lost
    #[arg(long, default_value = "1000", value_parser = clap::value_parser!(u64).range(10..=60_000))]
    interval_ms: u64,
    /// A delay is published again when it is so many percent away from what was published ...
    #[arg(long, default_value = "10", value_parser = clap::value_parser!(u32).range(0..=1000))]
    change_percent: u32,
    /// ... and so many milliseconds
    #[arg(long, default_value = "2", value_parser = clap::value_parser!(u32).range(0..=1000))]
    change_ms: u32,
    /// Where the node's converter listens (kind "convert"); without one, chains do not pass this node
    #[arg(long, value_name = "IP:PORT", value_parser = own_address)]
    converter: Option<SocketAddr>,
    /// The routes file of the node's converter, which is written by the node's table from now on
    #[arg(long, value_name = "FILE", requires = "egresses")]
    routes: Option<PathBuf>,
    /// Which node is next to which servers, a line each: PREFIX NODE [ROUNDS], or default NODE [ROUNDS]
    #[arg(long, value_name = "FILE", requires = "routes")]
    egresses: Option<PathBuf>,
    /// What has the converter read its routes anew, for the shell
    #[arg(
        long,
        value_name = "COMMAND",
        default_value = "systemctl reload tributary-converter"
    )]
    reload: String,
}

#[derive(Debug, Args)]
struct Explain {
    /// The node where clients come in
    ingress: Name,
    /// The server's address
    server: IpAddr,
    /// The size of a transfer; without, as many rounds as the ingress has the server in
    #[arg(long)]
    bytes: Option<u64>,
    #[command(flatten)]
    reached: Reached,
}

#[derive(Debug, Args)]
struct Controller {
    /// The controller's name
    name: Name,
    /// etcd's members; without, an etcd of its own on this machine
    #[arg(long, value_name = "URL,...", value_delimiter = ',', value_parser = endpoint)]
    endpoints: Vec<String>,
    /// The folder that `scripts/overlay enrol` made; with https
    #[arg(long, value_name = "FOLDER", requires = "endpoints")]
    identity: Option<PathBuf>,
    /// Ask etcd over http on other machines, too: in a network that nobody else reaches
    #[arg(long)]
    insecure_transport: bool,
    /// The data of its own etcd
    #[arg(
        long,
        default_value = "/var/lib/tributary-overlay",
        conflicts_with = "endpoints"
    )]
    data: PathBuf,
    /// The port of its own etcd on 127.0.0.1; 0 takes a free one
    #[arg(long, default_value = "2379", conflicts_with = "endpoints")]
    port: u16,
    /// Tables are refused if, of the pairs that a node is no end of, more percent have no way but through it
    #[arg(long, default_value = "90", value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(1..=100))]
    most_through: u32,
}

/// One that peers can send to.
fn own_address(text: &str) -> Result<SocketAddr, String> {
    let address: Option<SocketAddr> = text.parse().ok();
    address
        .filter(|address| !address.ip().is_unspecified() && address.port() != 0)
        .ok_or_else(|| "accepted: an address of this machine and a port: 192.0.2.1:5460".into())
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let code = if error.use_stderr() {
                Exit::Usage as u8
            } else {
                0
            };
            error.print().ok();
            return ExitCode::from(code);
        }
    };
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_target(false)
        .with_ansi(false)
        .init();
    match run(arguments.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("tributary-overlay: {}", failure.line);
            ExitCode::from(failure.exit as u8)
        }
    }
}

/// On one thread: it does not end before the process does, so that an etcd of ours ends with us alone.
fn run(command: Command) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::from_io("tokio", &error))?;
    runtime.block_on(async {
        match command {
            Command::Agent(arguments) => Box::pin(run_agent(arguments)).await,
            Command::Controller(arguments) => run_controller(arguments).await,
            Command::Explain(asked) => print(
                &explain::ask(
                    &asked.reached.members()?,
                    &asked.ingress,
                    asked.server,
                    asked.bytes,
                )
                .await?,
            ),
            Command::Status(reached) => show(&reached.members()?).await,
        }
    })
}

async fn run_agent(given: Agent) -> Result<(), Failure> {
    let members = given.reached.members()?;
    let mut ingress = ingress(&given, &members)?;
    let attempted = format!("{}, where pings are answered", given.address);
    let socket = UdpSocket::bind(given.address)
        .await
        .map_err(|error| Failure::from_io(&attempted, &error))?;
    let (peers, told) = watch::channel(Peers::new());
    let (telling, mut readings) = watch::channel(Readings::new());
    tokio::spawn(measure(
        socket,
        Duration::from_millis(given.interval_ms),
        told,
        telling,
    ));
    let settings = agent::Settings {
        name: given.name,
        address: given.address,
        converter: given.converter,
        members,
        threshold: Threshold {
            percent: given.change_percent,
            least_us: given.change_ms * 1000,
        },
    };
    let (mut held, mut held_by_ingress) = (None, None);
    let end = tokio::select! {
        never = forever(async || Box::pin(agent::session(&settings, &mut held, &peers, &mut readings)).await) => match never {},
        never = follow(ingress.as_mut(), &mut held_by_ingress) => match never {},
        end = asked_to_end() => end,
    };
    for lease in held.into_iter().chain(held_by_ingress) {
        lease.give_back().await;
    }
    end
}

/// What the agent of an ingress is told beyond others; the file of its egresses is read, or refused.
fn ingress(given: &Agent, members: &Members) -> Result<Option<Ingress>, Failure> {
    let hangup =
        signal(SignalKind::hangup()).map_err(|error| Failure::from_io("signals", &error))?;
    let (Some(routes), Some(file)) = (&given.routes, &given.egresses) else {
        return Ok(None);
    };
    let egresses = Egresses::load(file)?;
    Ok(Some(Ingress::new(
        given.name.clone(),
        members.clone(),
        (file.clone(), egresses),
        Handed::new(routes.clone(), given.reload.clone()),
        hangup,
    )))
}

async fn follow(ingress: Option<&mut Ingress>, held: &mut Option<Lease>) -> Infallible {
    match ingress {
        Some(ingress) => forever(async || Box::pin(ingress.session(held)).await).await,
        None => std::future::pending().await,
    }
}

async fn run_controller(given: Controller) -> Result<(), Failure> {
    if !given.endpoints.is_empty() {
        let identity = given.identity.as_deref();
        let members = Members::new(given.endpoints.clone(), identity, given.insecure_transport)?;
        return control(&settings(&given, members), std::future::pending()).await;
    }
    let mut etcd = tokio::select! {
        etcd = Etcd::start(&given.data, given.port) => etcd?,
        end = asked_to_end() => return end,
    };
    info!("etcd answers at {}", etcd.endpoint);
    let settings = settings(&given, Members::here(etcd.endpoint.clone()));
    let end = control(&settings, etcd.ended()).await;
    etcd.stop().await;
    end
}

fn settings(given: &Controller, members: Members) -> controller::Settings {
    controller::Settings {
        name: given.name.clone(),
        members,
        most_through: given.most_through,
    }
}

async fn control(
    settings: &controller::Settings,
    failed: impl Future<Output = Failure>,
) -> Result<(), Failure> {
    let mut held = None;
    let end = tokio::select! {
        never = forever(async || Box::pin(controller::session(settings, &mut held)).await) => match never {},
        failure = failed => return Err(failure),
        end = asked_to_end() => end,
    };
    if let Some(lease) = held {
        lease.give_back().await;
    }
    end
}

async fn asked_to_end() -> Result<(), Failure> {
    let failed = |error| Failure::from_io("signals", &error);
    let mut term = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    tokio::select! {
        _ = term.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

async fn show(members: &Members) -> Result<(), Failure> {
    let where_asked = members.endpoints().join(", ");
    let status = status::ask(members)
        .await
        .map_err(|lost| Failure::new(Exit::Unavailable, format!("{where_asked}: {lost}")))?;
    print(&status)
}

fn print(answer: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(answer)
        .map_err(|error| Failure::new(Exit::System, error.to_string()))?;
    println!("{text}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_are_none_are_refused() {
        assert!(own_address("[2001:db8::1]:5460").is_ok());
        for text in [
            "0.0.0.0:5460",
            "[::]:5460",
            "192.0.2.1",
            "192.0.2.1:0",
            "london:5460",
        ] {
            assert!(own_address(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_arguments_are_as_clap_wants_them() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }
}
