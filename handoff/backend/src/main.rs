//! The program `tributary-backend`: a back end that serves a folder, or forwards to an HTTP server on the same machine.

use std::net::{SocketAddr, SocketAddrV4};
use std::path::PathBuf;
use std::process;
use std::sync::Arc;
use std::time::Duration;

use clap::{ArgGroup, Parser};
use handoff_backend::{Acceptor, Objects, Port, Relay, Server, Settings, serve_plain};
use handoff_link::{Identity, Role};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::timeout;
use tributary_program::{CapabilitySet, EndSignals, Exit, Failure, print_ready, require};

/// Takes over clients' connections from fronts, answers their requests itself, and returns them.
#[derive(Debug, Parser)]
#[command(name = "tributary-backend", version)]
#[command(group(ArgGroup::new("server").required(true)))]
struct Arguments {
    /// The address for fronts, by mutual TLS
    #[arg(long, value_name = "IP:PORT")]
    fronts: SocketAddr,
    /// The address at which handed-over connections continue
    #[arg(long, value_name = "IP:PORT")]
    hand_off: SocketAddrV4,
    /// The folder with ca.pem, node.pem and node.key; its certificate names the address of --fronts
    #[arg(long, value_name = "FOLDER")]
    identity: PathBuf,
    /// Serve the files below a folder: GET and HEAD
    #[arg(long, value_name = "FOLDER", group = "server")]
    objects: Option<PathBuf>,
    /// Let every client write files there, by PUT, each of at most so many megabytes
    #[arg(long, value_name = "MB", requires = "objects", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    uploads: Option<u64>,
    /// Forward to this HTTP server
    #[arg(long, value_name = "IP:PORT", group = "server")]
    relay: Option<SocketAddr>,
    /// Tell that server each client's address, by a PROXY protocol line before the first request
    #[arg(long, requires = "relay")]
    proxy_protocol: bool,
    /// The address for plain HTTP: requests that a front relays
    #[arg(long, value_name = "IP:PORT")]
    http: Option<SocketAddr>,
    /// The most connections at the same time
    #[arg(long, value_name = "N", default_value_t = 16384, value_parser = clap::value_parser!(u32).range(1..))]
    max_connections: u32,
    /// Give up a client that takes nothing of its answer, or sends nothing of its request, for so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=86400))]
    idle: u64,
    /// On SIGTERM, give connections so many seconds to end
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(0..=86400))]
    drain: u64,
}

fn main() -> process::ExitCode {
    tributary_program::main(|arguments| run(&arguments))
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    require(CapabilitySet::NET_ADMIN)?;
    match (&arguments.objects, arguments.relay) {
        (Some(folder), _) => {
            let largest_upload = arguments.uploads.map(|megabytes| megabytes * 1_000_000);
            let objects =
                Objects::below(folder, largest_upload).map_err(Failure::at(Exit::NoInput, folder.display()))?;
            serve(arguments, objects)
        }
        (None, Some(server)) => serve(arguments, Relay::to(server, arguments.proxy_protocol)),
        (None, None) => Err(Failure::new(Exit::Usage, "nothing to serve".to_owned())),
    }
}

fn serve(arguments: &Arguments, server: impl Server) -> Result<(), Failure> {
    let identity =
        Identity::read(&arguments.identity, Role::BackEnd).map_err(|failure| failure.during("--identity"))?;
    let runtime = tokio::runtime::Runtime::new().map_err(Failure::at(Exit::System, "threads"))?;
    runtime.block_on(async {
        let port = Port::open(arguments.hand_off).map_err(Failure::at(Exit::System, arguments.hand_off))?;
        let fronts = TcpListener::bind(arguments.fronts).await;
        let fronts = fronts.map_err(Failure::at(Exit::System, arguments.fronts))?;
        let server = Arc::new(server);
        let (max_connections, idle) = (arguments.max_connections, Duration::from_secs(arguments.idle));
        let (draining, drain_signal) = watch::channel(false);
        let mut plain = None;
        if let Some(http) = arguments.http {
            let listener = TcpListener::bind(http).await.map_err(Failure::at(Exit::System, http))?;
            let serving = serve_plain(listener, Arc::clone(&server), max_connections, idle, drain_signal);
            plain = Some(tokio::spawn(serving));
        }
        let settings = Settings {
            identity,
            port,
            max_connections,
            idle,
        };
        let acceptor = Acceptor::new(settings, server);
        tokio::spawn(Arc::clone(&acceptor).accept_fronts(fronts));
        let mut signals = EndSignals::listen()?;
        print_ready();
        signals.next().await;
        tracing::info!("asked to stop: no more connections are taken");
        let ended = async {
            acceptor.drain().await;
            // Until then, requests that no other back end can serve are relayed here.
            draining.send_replace(true);
            if let Some(plain) = plain {
                let _ = plain.await;
            }
        };
        let drain = Duration::from_secs(arguments.drain);
        tokio::select! {
            ended = timeout(drain, ended) => if ended.is_err() {
                tracing::warn!("connections that have not ended within --drain, {} s, are reset", arguments.drain);
            },
            () = signals.next() => tracing::warn!("asked to stop again: connections that are left are reset"),
        }
        Ok(())
    })
}
