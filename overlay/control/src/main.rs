//! The command `tributary-overlay`: agents and controllers of the overlay.

#![forbid(unsafe_code)]

mod arguments;

use std::convert::Infallible;
use std::process::ExitCode;
use std::time::Duration;

use arguments::{Agent, Arguments, Authorize, Command, Controller, Revoke};
use overlay_control::egresses::Egresses;
use overlay_control::embedded::Etcd;
use overlay_control::explain::{self, Transfer};
use overlay_control::failure::{Exit, Failure};
use overlay_control::few::Few;
use overlay_control::handed::Handed;
use overlay_control::ingress::Ingress;
use overlay_control::members::Members;
use overlay_control::meter::{Peers, Readings, measure};
use overlay_control::program::{self, asked_to_end};
use overlay_control::servers::Wanted;
use overlay_control::store::{Lease, forever};
use overlay_control::threshold::Threshold;
use overlay_control::{agent, answering, controller, servers, status, users};
use serde::Serialize;
use tokio::net::UdpSocket;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing::{info, warn};

fn main() -> ExitCode {
    program::main(|arguments: Arguments| run(arguments.command))
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
            Command::Explain(asked) => {
                let transfer = Transfer {
                    server: asked.server,
                    port: asked.port,
                    bytes: asked.bytes,
                };
                print(&explain::ask(&asked.reached.members()?, &asked.ingress, &transfer).await?)
            }
            Command::Status(reached) => show(&reached.members()?).await,
            Command::Authorize(Authorize {
                names,
                part,
                changed,
            }) => {
                let members = changed.members()?;
                print(&users::authorize(&members, part, &names, changed.dry_run).await?)
            }
            Command::Revoke(Revoke { names, changed }) => {
                print(&users::revoke(&changed.members()?, &names, changed.dry_run).await?)
            }
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
    let every = Duration::from_millis(given.interval_ms);
    let (peers, told) = watch::channel(Peers::new());
    let (telling, readings) = watch::channel(Readings::new());
    let few = given.peers.map(|count| Few {
        own: given.name.clone(),
        count: count.into(),
    });
    let only_some = few.is_some();
    tokio::spawn(measure(socket, every, few, told, telling));
    let (wanted, told) = watch::channel(Wanted::default());
    let (telling, servers) = watch::channel(servers::Readings::new());
    let listening = given.converter.map(|converter| converter.port());
    tokio::spawn(servers::measure(every, listening, told, telling));
    let (telling_answers, answers) = watch::channel(false);
    if let Some(converter) = given.converter {
        telling_answers.send_replace(answering::answers(converter).await);
        tokio::spawn(answering::watch(converter, telling_answers.clone()));
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
    let mut measured = agent::Measured {
        peers,
        readings,
        wanted,
        servers,
        answers,
    };
    let (mut held, mut held_by_ingress) = (None, None);
    let end = tokio::select! {
        never = forever(&settings.members, async || Box::pin(agent::session(&settings, &mut held, &mut measured)).await) => match never {},
        never = follow(&settings.members, ingress.as_mut(), &mut held_by_ingress) => match never {},
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

async fn follow(
    members: &Members,
    ingress: Option<&mut Ingress>,
    held: &mut Option<Lease>,
) -> Infallible {
    match ingress {
        Some(ingress) => forever(members, async || Box::pin(ingress.session(held)).await).await,
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
        never = forever(&settings.members, async || Box::pin(controller::session(settings, &mut held)).await) => match never {},
        failure = failed => return Err(failure),
        end = asked_to_end() => end,
    };
    if let Some(lease) = held {
        lease.give_back().await;
    }
    end
}

async fn show(members: &Members) -> Result<(), Failure> {
    let status = status::ask(members).await;
    print(&status.map_err(|lost| lost.failure(members))?)
}

fn print(answer: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(answer)
        .map_err(|error| Failure::new(Exit::System, error.to_string()))?;
    println!("{text}");
    Ok(())
}
