//! The command `overlay-dns`: a name server that sends clients to their ingress of the overlay.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process;
use std::time::Duration;

use clap::Parser;
use hickory_server::ServerFuture;
use overlay_control::members::{Members, endpoint};
use overlay_control::store::retry_forever;
use overlay_dns::alive;
use overlay_dns::server::Answers;
use overlay_dns::settings::Settings;
use tokio::net::{TcpListener, UdpSocket};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tracing::{info, warn};
use tributary_program::{Exit, Failure, end_signal, event_loop, read_text};

/// Idle TCP connections are closed after this time.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);

/// A name server for a few names of one zone: it sends each client to the ingress of its network.
#[derive(Debug, Parser)]
#[command(name = "overlay-dns", version, after_help = AFTER)]
struct Arguments {
    /// The zone, its names and the ingresses (TOML): see below
    file: PathBuf,
    /// The address to listen on, for UDP and TCP
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:53")]
    listen: SocketAddr,
    /// etcd's members: ingresses whose agent is gone, or whose converter is silent, are skipped. Default: all count as
    /// alive
    #[arg(long, value_name = "URL,...", value_delimiter = ',', value_parser = endpoint)]
    endpoints: Vec<String>,
    /// The folder that `scripts/overlay enrol` made: ca.pem, node.pem, node.key; with https
    #[arg(long, value_name = "FOLDER", requires = "endpoints")]
    identity: Option<PathBuf>,
    /// Allow http to etcd on other machines: only in a network that nobody else can reach
    #[arg(long)]
    insecure_transport: bool,
    /// Check the file, and exit
    #[arg(long)]
    check: bool,
}

const AFTER: &str = "\
The file:
  zone = \"fast.example\"
  server = \"ns1.example\"           # this server's name, for NS and SOA
  ttl = 20                         # seconds that answers may be kept
  names = [\"www\", \"@\"]             # in the zone; @ is the zone itself

  [[ingress]]
  node = \"london\"                  # its name in the overlay
  addresses = [\"192.0.2.1\", \"2001:db8::1\"]
  clients = [\"198.51.100.0/24\"]    # whose ingress it is; the longest prefix counts

Clients of no network are led to the first ingress that is alive. A client is its resolver, or the network that the
resolver names (RFC 7871). SIGHUP has it read the file again,
SIGTERM and SIGINT end it in order.

Exit status:
  0   done
  64  wrong arguments
  65  the file is refused: its line, and what is wrong with it
  66  the file cannot be read
  71  the system refused an operation
  75  the port is in use
  77  not permitted";

fn main() -> process::ExitCode {
    tributary_program::main(run)
}

fn run(arguments: Arguments) -> Result<(), Failure> {
    let settings = load(&arguments.file)?;
    let members = Members::new(
        arguments.endpoints,
        arguments.identity.as_deref(),
        arguments.insecure_transport,
    )?;
    if arguments.check {
        return Ok(());
    }
    event_loop()?.block_on(serve(&arguments.file, settings, arguments.listen, members))
}

fn load(file: &Path) -> Result<Settings, Failure> {
    Settings::parse(&read_text(file)?).map_err(Failure::at(Exit::BadData, file.display()))
}

/// Reads the file again at each SIGHUP; a refused one changes nothing.
async fn reload_on_hangup(file: &Path, mut hangup: Signal, settings: watch::Sender<Settings>) -> Infallible {
    loop {
        if hangup.recv().await.is_none() {
            return std::future::pending().await;
        }
        match load(file) {
            Ok(settings_read) => {
                settings.send_replace(settings_read);
                info!("{} reloaded", file.display());
            }
            Err(failure) => warn!("the previous one stays in use: {failure}"),
        }
    }
}

async fn serve(file: &Path, settings: Settings, listen: SocketAddr, members: Members) -> Result<(), Failure> {
    let system = |what: &str, error: &io::Error| Failure::from_io(&format!("{listen}, {what}"), error);
    let datagrams = UdpSocket::bind(listen).await.map_err(|error| system("UDP", &error))?;
    let connections = TcpListener::bind(listen).await.map_err(|error| system("TCP", &error))?;
    let (alive_sender, alive) = watch::channel(None);
    let hangup = signal(SignalKind::hangup()).map_err(|error| Failure::from_io("signals", &error))?;
    let zone = settings.zone.clone();
    let (settings_sender, settings) = watch::channel(settings);
    let mut server = ServerFuture::new(Answers::new(settings, alive));
    server.register_socket(datagrams);
    server.register_listener(connections, IDLE_TIMEOUT);
    info!("answering for {zone} at {listen}");
    let node_watch = async {
        if members.endpoints().is_empty() {
            std::future::pending().await
        } else {
            retry_forever(&members, async || alive::session(&members, &alive_sender).await).await
        }
    };
    tokio::select! {
        never = node_watch => match never {},
        never = reload_on_hangup(file, hangup, settings_sender) => match never {},
        ended = server.block_until_done() => {
            return Err(Failure::new(Exit::System, format!("the server ended: {ended:?}")));
        }
        end = end_signal() => end?,
    }
    // Pending answers are still sent; nothing else is lost.
    let _ = server.shutdown_gracefully().await;
    Ok(())
}
