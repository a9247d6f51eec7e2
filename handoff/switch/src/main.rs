//! The program `tributary-switch`.
#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;
use std::str::FromStr;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use handoff_link::{Identity, Role, accepted};
use handoff_program::{CapabilitySet, EndSignals, Exit, Failure, need, say_ready};
use handoff_switch::{Configured, Limits, Rules, Switch, guard, serve};
use rustix::net::netdevice::name_to_index;
use tokio::net::{TcpListener, UnixListener};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::interval;

/// Between two looks for rules that have no use any more.
const LOOK: Duration = Duration::from_millis(500);

/// Leads the packets of connections that a front has handed over to their back ends, and the answers back, by eBPF.
#[derive(Debug, Parser)]
#[command(name = "tributary-switch", version)]
struct Arguments {
    /// Where fronts come in: a file (a Unix socket, for root alone), or IP:PORT by mTLS
    #[arg(long, value_name = "FILE|IP:PORT")]
    fronts: Place,
    /// With IP:PORT, the folder with ca.pem, node.pem and node.key
    #[arg(long, value_name = "FOLDER")]
    identity: Option<PathBuf>,
    /// The device by which clients are reached
    #[arg(long, value_name = "DEVICE")]
    clients: String,
    /// An address that clients connect to
    #[arg(long = "service", value_name = "IP:PORT", required = true)]
    services: Vec<SocketAddrV4>,
    /// A back end's hand-off address, and the device by which it is reached
    #[arg(long = "back-end", value_name = "IP:PORT=DEVICE", required = true)]
    back_ends: Vec<BackEnd>,
    /// Rules at the same time, at most 32768
    #[arg(long, value_name = "N", default_value_t = 16384, value_parser = clap::value_parser!(u32).range(1..=32768))]
    most: u32,
    /// Where packets are rewritten: in the devices' drivers and what those leave in tc, in tc alone, or as the drivers allow
    #[arg(long, value_name = "WAY", value_enum, default_value_t)]
    attach: Attach,
    /// A rule without a packet for so many seconds ends
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    idle: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Attach {
    #[default]
    Auto,
    Tc,
    Xdp,
}

#[derive(Clone, Debug)]
enum Place {
    File(PathBuf),
    Address(SocketAddr),
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with('/') {
            return Ok(Self::File(text.into()));
        }
        let address = text.parse().map(Self::Address);
        address.map_err(|_| "accepted: an absolute path, or IP:PORT".to_owned())
    }
}

#[derive(Clone, Debug)]
struct BackEnd {
    address: SocketAddrV4,
    device: String,
}

impl FromStr for BackEnd {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let accepted = "accepted: IP:PORT=DEVICE, such as 10.0.2.1:7400=eth1";
        let (address, device) = text.split_once('=').ok_or(accepted)?;
        let address = address.parse().map_err(|_| accepted)?;
        Ok(Self {
            address,
            device: device.to_owned(),
        })
    }
}

fn main() -> ExitCode {
    handoff_program::main(run)
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    need(CapabilitySet::NET_ADMIN | CapabilitySet::BPF | CapabilitySet::PERFMON)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::at(Exit::System, "event loop"))?;
    let identity = match &arguments.identity {
        Some(folder) => Some(
            Identity::read(folder, Role::Switch)
                .map_err(Failure::at(Exit::NoInput, "--identity"))?,
        ),
        None => None,
    };
    let switch = Rc::new(RefCell::new(started(arguments)?));
    LocalSet::new().block_on(&runtime, async {
        listen(arguments, identity, &switch).await?;
        say_ready();
        spawn_local(look_again_and_again(Rc::clone(&switch)));
        EndSignals::listen()?.next().await;
        Ok(())
    })
}

fn started(arguments: &Arguments) -> Result<Switch, Failure> {
    let back_ends: HashMap<_, _> = arguments
        .back_ends
        .iter()
        .map(|each| Ok((each.address, number_of(&each.device)?)))
        .collect::<Result<_, Failure>>()?;
    let devices: BTreeSet<_> = arguments
        .back_ends
        .iter()
        .map(|each| &each.device)
        .chain([&arguments.clients])
        .cloned()
        .collect();
    let addresses: Vec<_> = back_ends.keys().copied().collect();
    let rules = Rules::new(Configured {
        services: arguments.services.clone(),
        back_ends,
        clients: number_of(&arguments.clients)?,
        most: arguments.most as usize,
    });
    let limits = Limits {
        closed: Duration::from_secs(5),
        idle: Duration::from_secs(arguments.idle),
    };
    guard(&addresses, &arguments.services).map_err(Failure::at(Exit::System, "nft"))?;
    let mut switch =
        Switch::start(rules, limits, &devices).map_err(Failure::at(Exit::System, "tc"))?;
    if arguments.attach != Attach::Tc {
        let attached = switch.attach_to_drivers(&devices);
        say_who_rewrites(attached, arguments.attach == Attach::Xdp)?;
    }
    Ok(switch)
}

fn say_who_rewrites(attached: io::Result<()>, must_be_drivers: bool) -> Result<(), Failure> {
    match attached {
        Ok(()) => tracing::info!("drivers rewrite packets (XDP), and tc what they leave"),
        Err(error) if must_be_drivers => {
            let message = format!("--attach xdp: {error}: accepted: auto, tc");
            return Err(Failure(Exit::System, message));
        }
        Err(error) => tracing::info!("tc rewrites packets, not drivers (XDP): {error}"),
    }
    Ok(())
}

/// Of a device.
fn number_of(device: &str) -> Result<u32, Failure> {
    let asked = std::net::UdpSocket::bind("127.0.0.1:0")
        .and_then(|socket| Ok(name_to_index(socket.as_fd(), device)?));
    asked.map_err(Failure::at(Exit::System, format!("device {device:?}")))
}

async fn listen(
    arguments: &Arguments,
    identity: Option<Identity>,
    switch: &Rc<RefCell<Switch>>,
) -> Result<(), Failure> {
    match (&arguments.fronts, identity) {
        (Place::File(file), _) => {
            let listener = bind_file(file).map_err(Failure::at(Exit::System, file.display()))?;
            spawn_local(welcome_files(listener, Rc::clone(switch)));
        }
        (Place::Address(address), Some(identity)) => {
            let listener = TcpListener::bind(address).await;
            let listener = listener.map_err(Failure::at(Exit::System, address))?;
            spawn_local(welcome(listener, identity, Rc::clone(switch)));
        }
        (Place::Address(_), None) => {
            let message = "--fronts with IP:PORT: accepted: only with --identity".to_owned();
            return Err(Failure(Exit::Usage, message));
        }
    }
    Ok(())
}

/// For root alone. What a switch that was killed left there goes.
fn bind_file(file: &Path) -> io::Result<UnixListener> {
    use std::os::unix::fs::PermissionsExt as _;
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(file)?;
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

async fn welcome_files(listener: UnixListener, switch: Rc<RefCell<Switch>>) {
    loop {
        let (stream, _) = accepted(|| listener.accept()).await;
        let switch = Rc::clone(&switch);
        spawn_local(async move {
            if let Err(error) = serve(switch, stream).await {
                tracing::warn!("a front is refused: {error}");
            }
        });
    }
}

async fn welcome(listener: TcpListener, identity: Identity, switch: Rc<RefCell<Switch>>) {
    loop {
        let (stream, front) = accepted(|| listener.accept()).await;
        let (identity, switch) = (identity.clone(), Rc::clone(&switch));
        spawn_local(async move {
            let served = match identity.accept(stream).await {
                Ok(stream) => serve(switch, stream).await,
                Err(error) => Err(error),
            };
            if let Err(error) = served {
                tracing::warn!("{front} is refused as a front: {error}");
            }
        });
    }
}

/// For rules that have no use any more.
async fn look_again_and_again(switch: Rc<RefCell<Switch>>) {
    let mut look = interval(LOOK);
    loop {
        look.tick().await;
        switch.borrow_mut().expire();
    }
}
