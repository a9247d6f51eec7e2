//! The command `tributary-overlay`: agents and controllers of the overlay.

mod arguments;

use std::convert::Infallible;
use std::process;
use std::time::{Duration, Instant};

use arguments::{Agent, Arguments, Authorize, Command, Controller, Revoke};
use overlay_control::egresses::Egresses;
use overlay_control::embedded::Etcd;
use overlay_control::explain::{self, Transfer};
use overlay_control::ingress::Ingress;
use overlay_control::members::Members;
use overlay_control::meter::{Peers, Readings, measure};
use overlay_control::peer_sample::PeerSample;
use overlay_control::routes_file::RoutesFile;
use overlay_control::servers::ServerTargets;
use overlay_control::store::{Lease, retry_forever};
use overlay_control::threshold::Threshold;
use overlay_control::write_budget::WriteBudget;
use overlay_control::{agent, controller, converter_check, servers, status, users};
use serde::Serialize;
use tokio::net::UdpSocket;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing::{info, warn};
use tributary_program::{Exit, Failure, end_signal, event_loop};

fn main() -> process::ExitCode {
    tributary_program::main(|arguments: Arguments| run(arguments.command))
}

/// On one thread, which lives as long as the process, so that the kernel ends an etcd of its own with it (prctl(2),
/// `PR_SET_PDEATHSIG`).
fn run(command: Command) -> Result<(), Failure> {
    event_loop()?.block_on(async {
        match command {
            Command::Agent(arguments) => Box::pin(run_agent(arguments)).await,
            Command::Controller(arguments) => run_controller(arguments).await,
            Command::Explain(asked) => {
                let transfer = Transfer {
                    server: asked.server,
                    port: asked.port,
                    bytes: asked.bytes,
                };
                print(&explain::ask(&asked.etcd.members()?, &asked.ingress, &transfer).await?)
            }
            Command::Status(etcd) => show(&etcd.members()?).await,
            Command::Authorize(Authorize { names, role, etcd }) => {
                let members = etcd.members()?;
                print(&users::authorize(&members, role, &names, etcd.dry_run).await?)
            }
            Command::Revoke(Revoke { names, etcd }) => {
                print(&users::revoke(&etcd.members()?, &names, etcd.dry_run).await?)
            }
        }
    })
}

async fn run_agent(given: Agent) -> Result<(), Failure> {
    let members = given.etcd.members()?;
    let mut ingress = ingress(&given, &members)?;
    let attempted = format!("{}, where pings are answered", given.address);
    let socket = UdpSocket::bind(given.address)
        .await
        .map_err(|error| Failure::from_io(&attempted, &error))?;
    let every = Duration::from_millis(given.interval_ms);
    let (peers, peers_changed) = watch::channel(Peers::new());
    let (readings_sender, readings) = watch::channel(Readings::new());
    let sample = given.peers.map(|count| PeerSample {
        own: given.name.clone(),
        count: count.into(),
    });
    let only_some = sample.is_some();
    tokio::spawn(measure(socket, every, sample, peers_changed, readings_sender));
    let (targets, targets_changed) = watch::channel(ServerTargets::default());
    let (servers_sender, servers) = watch::channel(servers::Readings::new());
    let listening = given.converter.map(|converter| converter.port());
    tokio::spawn(servers::measure(every, listening, targets_changed, servers_sender));
    let (answers_sender, answers) = watch::channel(false);
    if let Some(converter) = given.converter {
        answers_sender.send_replace(converter_check::answers(converter).await);
        tokio::spawn(converter_check::watch(converter, answers_sender.clone()));
    }
    if let Err(what) = agent::pressure(&given.pressure) {
        warn!("{what}; until there is one, this node counts as idle");
    }
    let settings = agent::Settings {
        name: given.name,
        address: given.address,
        converter: given.converter,
        pressure: given.pressure,
        allow: given.allow,
        only_some,
        members,
        threshold: Threshold {
            percent: given.change_percent,
            least_us: given.change_ms * 1000,
        },
    };
    let mut measured = agent::Measurements {
        peers,
        readings,
        targets,
        servers,
        answers,
    };
    let (mut held, mut held_by_ingress) = (None, None);
    let end = tokio::select! {
        never = retry_forever(&settings.members, async || Box::pin(agent::session(&settings, &mut held, &mut measured)).await) => match never {},
        never = follow(&settings.members, ingress.as_mut(), &mut held_by_ingress) => match never {},
        end = end_signal() => end,
    };
    for lease in held.into_iter().chain(held_by_ingress) {
        lease.revoke().await;
    }
    end
}

/// What an ingress needs; reads its egresses.
fn ingress(given: &Agent, members: &Members) -> Result<Option<Ingress>, Failure> {
    let hangup = signal(SignalKind::hangup()).map_err(|error| Failure::from_io("signals", &error))?;
    let (Some(routes), Some(file)) = (&given.routes, &given.egresses) else {
        return Ok(None);
    };
    let egresses = Egresses::load(file)?;
    Ok(Some(Ingress::new(
        (given.name.clone(), given.converter),
        members.clone(),
        (file.clone(), egresses),
        RoutesFile::new(routes.clone(), given.reload.clone()),
        hangup,
    )))
}

async fn follow(members: &Members, ingress: Option<&mut Ingress>, held: &mut Option<Lease>) -> Infallible {
    match ingress {
        Some(ingress) => {
            let session = async || {
                ingress.begin().await;
                Box::pin(ingress.session(held)).await
            };
            retry_forever(members, session).await
        }
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
        end = end_signal() => return end,
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
        max_through: given.max_through,
    }
}

async fn control(settings: &controller::Settings, failed: impl Future<Output = Failure>) -> Result<(), Failure> {
    let (mut held, mut budget) = (None, WriteBudget::new(Instant::now()));
    let end = tokio::select! {
        never = retry_forever(&settings.members, async || Box::pin(controller::session(settings, &mut held, &mut budget)).await) => match never {},
        failure = failed => return Err(failure),
        end = end_signal() => end,
    };
    if let Some(lease) = held {
        lease.revoke().await;
    }
    end
}

async fn show(members: &Members) -> Result<(), Failure> {
    let status = status::ask(members).await;
    print(&status.map_err(|error| error.failure(members))?)
}

fn print(answer: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(answer).map_err(|error| Failure::new(Exit::System, error.to_string()))?;
    println!("{text}");
    Ok(())
}
