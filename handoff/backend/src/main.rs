//! The program `tributary-backend`: a back end whose server is a folder, or any HTTP server on the same machine.
#![forbid(unsafe_code)]

use std::net::{SocketAddr, SocketAddrV4};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{ArgGroup, Parser};
use handoff_backend::{Host, Objects, Port, Relay, Server, Settings, serve_plain};
use handoff_link::{Identity, Role};
use handoff_program::{CapabilitySet, EndSignals, Exit, Failure, need, say_ready};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::timeout;

/// Takes clients' connections over from fronts in mid-way, answers their requests itself, and gives them back.
#[derive(Debug, Parser)]
#[command(name = "tributary-backend", version)]
#[command(group(ArgGroup::new("server").required(true)))]
struct Arguments {
    /// Where fronts come in, by mTLS
    #[arg(long, value_name = "IP:PORT")]
    fronts: SocketAddr,
    /// Where clients' connections go on
    #[arg(long, value_name = "IP:PORT")]
    hand_off: SocketAddrV4,
    /// The folder with ca.pem, node.pem and node.key; its certificate names the address of --fronts
    #[arg(long, value_name = "FOLDER")]
    identity: PathBuf,
    /// Serve the files below a folder: GET, HEAD and PUT
    #[arg(long, value_name = "FOLDER", group = "server")]
    objects: Option<PathBuf>,
    /// Ask this HTTP server
    #[arg(long, value_name = "IP:PORT", group = "server")]
    relay: Option<SocketAddr>,
    /// Tell that server each client's address, by a line of the PROXY protocol before the first request
    #[arg(long, requires = "relay")]
    proxy_protocol: bool,
    /// Serve plain HTTP there as well: what a front relays
    #[arg(long, value_name = "IP:PORT")]
    http: Option<SocketAddr>,
    /// Connections at the same time, at most
    #[arg(long, value_name = "N", default_value_t = 16384, value_parser = clap::value_parser!(u32).range(1..))]
    most: u32,
    /// A client that takes nothing of its answer, or sends nothing of its request, for so many seconds is given up
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=86400))]
    idle: u64,
    /// Told to end, it takes no more connections, and gives those that it has so many seconds to end
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(0..=86400))]
    drain: u64,
}

fn main() -> ExitCode {
    handoff_program::main(run)
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    need(CapabilitySet::NET_ADMIN)?;
    match (&arguments.objects, arguments.relay) {
        (Some(folder), _) => {
            let objects =
                Objects::below(folder).map_err(Failure::at(Exit::NoInput, folder.display()))?;
            serve(arguments, objects)
        }
        (None, Some(server)) => {
            let relay = Relay::to(server).telling_client(arguments.proxy_protocol);
            serve(arguments, relay)
        }
        (None, None) => Err(Failure(Exit::Usage, "nothing to serve".to_owned())),
    }
}

fn serve(arguments: &Arguments, server: impl Server) -> Result<(), Failure> {
    let identity = Identity::read(&arguments.identity, Role::BackEnd)
        .map_err(Failure::at(Exit::NoInput, "--identity"))?;
    let runtime = tokio::runtime::Runtime::new().map_err(Failure::at(Exit::System, "threads"))?;
    runtime.block_on(async {
        let port = Port::open(arguments.hand_off)
            .map_err(Failure::at(Exit::System, arguments.hand_off))?;
        let fronts = TcpListener::bind(arguments.fronts).await;
        let fronts = fronts.map_err(Failure::at(Exit::System, arguments.fronts))?;
        let server = Arc::new(server);
        let (most, idle) = (arguments.most, Duration::from_secs(arguments.idle));
        let (leaving, told) = watch::channel(false);
        let mut plain = None;
        if let Some(http) = arguments.http {
            let listener = TcpListener::bind(http)
                .await
                .map_err(Failure::at(Exit::System, http))?;
            let serving = serve_plain(listener, Arc::clone(&server), most, idle, told);
            plain = Some(tokio::spawn(serving));
        }
        let settings = Settings {
            identity,
            port,
            most,
            idle,
        };
        let host = Host::new(settings, server);
        tokio::spawn(Arc::clone(&host).welcome(fronts));
        let mut signals = EndSignals::listen()?;
        say_ready();
        signals.next().await;
        tracing::info!("told to end: no more connections are taken");
        let ended = async {
            host.leave().await;
            // Until then, requests that have nowhere else to go are relayed.
            leaving.send_replace(true);
            if let Some(plain) = plain {
                let _ = plain.await;
            }
        };
        let drain = Duration::from_secs(arguments.drain);
        tokio::select! {
            ended = timeout(drain, ended) => if ended.is_err() {
                tracing::warn!("connections that have not ended within --drain, {} s, are reset", arguments.drain);
            },
            () = signals.next() => tracing::warn!("told to end again: connections that are left are reset"),
        }
        Ok(())
    })
}
