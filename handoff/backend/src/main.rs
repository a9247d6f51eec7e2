//! The program `tributary-backend`: a back end whose server is a folder, or any HTTP server on the same machine.
#![forbid(unsafe_code)]

use std::fmt::Display;
use std::io::{self, Write as _};
use std::net::{SocketAddr, SocketAddrV4};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::error::ErrorKind;
use clap::{ArgGroup, Parser};
use handoff_backend::{Host, Objects, Port, Relay, Server, Settings, serve_plain};
use handoff_link::Identity;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

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
    /// Serve plain HTTP there as well: what a front relays
    #[arg(long, value_name = "IP:PORT")]
    http: Option<SocketAddr>,
    /// Connections at the same time, at most
    #[arg(long, value_name = "N", default_value_t = 16384)]
    most: usize,
}

/// sysexits(3), as every Tributary command has them.
enum Exit {
    Usage = 64,
    NoInput = 66,
    System = 71,
}

struct Failure(Exit, String);

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return said_by_clap(&error),
    };
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_target(false)
        .with_ansi(false)
        .init();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure(exit, message)) => {
            eprintln!("tributary-backend: {message}");
            ExitCode::from(exit as u8)
        }
    }
}

/// Help and version are no errors.
fn said_by_clap(error: &clap::Error) -> ExitCode {
    // Whoever closed the pipe does not want to read it.
    let _ = error.print();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
        _ => ExitCode::from(Exit::Usage as u8),
    }
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    let number = number();
    match (&arguments.objects, arguments.relay) {
        (Some(folder), _) => {
            let objects = Objects::below(folder).map_err(|error| {
                Failure(Exit::NoInput, format!("{}: {error}", folder.display()))
            })?;
            serve(arguments, objects, number)
        }
        (None, Some(server)) => serve(arguments, Relay::to(server, number), number),
        (None, None) => Err(Failure(Exit::Usage, "nothing to serve".to_owned())),
    }
}

fn serve(arguments: &Arguments, server: impl Server, number: u64) -> Result<(), Failure> {
    let identity = Identity::read(&arguments.identity)
        .map_err(|error| Failure(Exit::NoInput, error.to_string()))?;
    let system = |what: &dyn Display| {
        let what = what.to_string();
        move |error: io::Error| Failure(Exit::System, format!("{what}: {error}"))
    };
    let runtime = tokio::runtime::Runtime::new().map_err(system(&"threads"))?;
    runtime.block_on(async {
        let port = Port::open(arguments.hand_off).map_err(system(&arguments.hand_off))?;
        let fronts = TcpListener::bind(arguments.fronts).await;
        let fronts = fronts.map_err(system(&arguments.fronts))?;
        let server = Arc::new(server);
        if let Some(http) = arguments.http {
            let listener = TcpListener::bind(http).await.map_err(system(&http))?;
            tokio::spawn(serve_plain(listener, Arc::clone(&server), arguments.most));
        }
        let settings = Settings {
            identity,
            port,
            most: arguments.most,
            number,
        };
        tokio::spawn(Host::new(settings, server).welcome(fronts));
        say_ready();
        ended().await.map_err(system(&"signals"))
    })
}

/// One that no other process has.
fn number() -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    RandomState::new().hash_one(std::process::id())
}

/// Whoever closed our standard output does not wait for this.
fn say_ready() {
    let _ = writeln!(io::stdout(), "ready");
}

async fn ended() -> io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}
