//! The program `tributary-switch`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::process;
use std::rc::Rc;
use std::str::FromStr;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use handoff_link::{Identity, Role, accept_retrying};
use handoff_switch::{Guard, Rules, RulesConfig, Switch, serve};
use tokio::net::{TcpListener, UnixListener};
use tokio::task::{spawn_blocking, spawn_local};
use tokio::time::{interval, sleep};
use tributary_offload::Limits;
use tributary_program::{CapabilitySet, EndSignals, Exit, Failure, event_loop, print_ready, require};
use tributary_sys::device_number;

/// Between two checks for expired rules.
const EXPIRY_INTERVAL: Duration = Duration::from_millis(500);
/// Between two checks whether somebody else has removed the table of strays.
const GUARD_INTERVAL: Duration = Duration::from_secs(3);

/// Between two checks whether a device has become another one.
const DEVICE_INTERVAL: Duration = Duration::from_secs(1);

/// Forwards the packets of handed-over connections to their back ends, and the answers to the clients, by eBPF.
#[derive(Debug, Parser)]
#[command(name = "tributary-switch", version)]
struct Arguments {
    /// The address for fronts: a path (a Unix socket, for root only), or IP:PORT by mutual TLS
    #[arg(long, value_name = "FILE|IP:PORT")]
    fronts: FrontsAddress,
    /// With IP:PORT, the folder with ca.pem, node.pem and node.key
    #[arg(long, value_name = "FOLDER")]
    identity: Option<PathBuf>,
    /// The device towards clients
    #[arg(long, value_name = "DEVICE")]
    clients: String,
    /// An address that clients connect to
    #[arg(long = "service", value_name = "IP:PORT", required = true)]
    services: Vec<SocketAddrV4>,
    /// A back end's hand-off address, and the device towards it
    #[arg(long = "back-end", value_name = "IP:PORT=DEVICE", required = true)]
    back_ends: Vec<BackEnd>,
    /// The most rules at the same time, up to 32768
    #[arg(long, value_name = "N", default_value_t = 16384, value_parser = clap::value_parser!(u32).range(1..=32768))]
    max_rules: u32,
    /// Where packets are rewritten: auto and xdp prefer the devices' drivers and leave the rest to tc; tc uses no driver
    #[arg(long, value_name = "MODE", value_enum, default_value_t)]
    attach: Attach,
    /// Remove a rule after so many seconds without a packet
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
enum FrontsAddress {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

impl FromStr for FrontsAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with('/') {
            return Ok(Self::Unix(text.into()));
        }
        let address = text.parse().map(Self::Tcp);
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

fn main() -> process::ExitCode {
    tributary_program::main(|arguments| run(&arguments))
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    require(CapabilitySet::NET_ADMIN | CapabilitySet::BPF | CapabilitySet::PERFMON)?;
    let runtime = event_loop()?;
    let identity = match &arguments.identity {
        Some(folder) => Some(Identity::read(folder, Role::Switch).map_err(|failure| failure.during("--identity"))?),
        None => None,
    };
    let guard = guard(arguments);
    let devices = devices(arguments)?;
    let switch = Rc::new(RefCell::new(start_switch(arguments, &devices, &guard)?));
    runtime.block_on(async {
        listen(arguments, identity, &switch).await?;
        print_ready();
        spawn_local(expire_periodically(Rc::clone(&switch)));
        spawn_local(renew_periodically(guard));
        let mut signals = EndSignals::listen()?;
        tokio::select! {
            () = signals.next() => Ok(()),
            failure = changed_device(&devices) => Err(failure),
        }
    })
}

fn guard(arguments: &Arguments) -> Guard {
    let addresses = arguments.back_ends.iter().map(|each| each.address);
    Guard::new(&addresses.collect::<Vec<_>>(), &arguments.services)
}

/// Indexes by name.
type Devices = BTreeMap<String, u32>;

/// Fails if one is not there.
fn devices(arguments: &Arguments) -> Result<Devices, Failure> {
    let names = arguments.back_ends.iter().map(|each| &each.device);
    names
        .chain([&arguments.clients])
        .map(|name| Ok((name.clone(), interface_index(name)?)))
        .collect()
}

fn start_switch(arguments: &Arguments, devices: &Devices, guard: &Guard) -> Result<Switch, Failure> {
    let back_ends = arguments.back_ends.iter();
    let back_ends = back_ends.map(|each| (each.address, devices[&each.device]));
    let rules = Rules::new(RulesConfig {
        services: arguments.services.clone(),
        back_ends: back_ends.collect(),
        clients: devices[&arguments.clients],
        max_rules: arguments.max_rules as usize,
    });
    let limits = Limits {
        closed: Duration::from_secs(5),
        idle: Duration::from_secs(arguments.idle),
    };
    guard.install().map_err(Failure::at(Exit::System, "nft"))?;
    let names = devices.keys().cloned().collect();
    let mut switch = Switch::start(rules, limits, &names).map_err(Failure::at(Exit::System, "tc"))?;
    if arguments.attach != Attach::Tc {
        let attached = switch.attach_to_drivers(&names);
        log_attachment(attached, arguments.attach == Attach::Xdp)?;
    }
    Ok(switch)
}

fn log_attachment(attached: io::Result<()>, must_be_drivers: bool) -> Result<(), Failure> {
    match attached {
        Ok(()) => tracing::info!("drivers rewrite packets (XDP), and tc what they leave"),
        Err(error) if must_be_drivers => {
            let message = format!("--attach xdp: {error}: accepted: auto, tc");
            return Err(Failure::new(Exit::System, message));
        }
        Err(error) => tracing::info!("tc rewrites packets, not drivers (XDP): {error}"),
    }
    Ok(())
}

fn interface_index(device: &str) -> Result<u32, Failure> {
    device_number(device).map_err(Failure::at(Exit::System, format!("device {device:?}")))
}

async fn listen(
    arguments: &Arguments,
    identity: Option<Identity>,
    switch: &Rc<RefCell<Switch>>,
) -> Result<(), Failure> {
    match (&arguments.fronts, identity) {
        (FrontsAddress::Unix(file), _) => {
            let listener = bind_file(file).map_err(Failure::at(Exit::System, file.display()))?;
            spawn_local(accept_local_fronts(listener, Rc::clone(switch)));
        }
        (FrontsAddress::Tcp(address), Some(identity)) => {
            let listener = TcpListener::bind(address).await;
            let listener = listener.map_err(Failure::at(Exit::System, address))?;
            spawn_local(accept_fronts(listener, identity, Rc::clone(switch)));
        }
        (FrontsAddress::Tcp(_), None) => {
            let message = "--fronts with IP:PORT: accepted: only with --identity".to_owned();
            return Err(Failure::new(Exit::Usage, message));
        }
    }
    Ok(())
}

/// For root only. Removes the socket of a killed switch.
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

async fn accept_local_fronts(listener: UnixListener, switch: Rc<RefCell<Switch>>) {
    loop {
        let (stream, _) = accept_retrying(|| listener.accept()).await;
        let switch = Rc::clone(&switch);
        spawn_local(async move {
            if let Err(error) = serve(switch, stream).await {
                tracing::warn!("a front is refused: {error}");
            }
        });
    }
}

async fn accept_fronts(listener: TcpListener, identity: Identity, switch: Rc<RefCell<Switch>>) {
    loop {
        let (stream, front) = accept_retrying(|| listener.accept()).await;
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

async fn expire_periodically(switch: Rc<RefCell<Switch>>) {
    let mut look = interval(EXPIRY_INTERVAL);
    loop {
        look.tick().await;
        switch.borrow_mut().expire();
    }
}

async fn renew_periodically(guard: Guard) {
    loop {
        sleep(GUARD_INTERVAL).await;
        let guard = guard.clone();
        // Where others have large tables, nft(8) takes long.
        let _ = spawn_blocking(move || guard.renew()).await;
    }
}

/// Waits until a device is another one than at the start, where rules and programs are.
async fn changed_device(devices: &Devices) -> Failure {
    loop {
        sleep(DEVICE_INTERVAL).await;
        if let Some(name) = changed(devices) {
            let line = format!("device {name:?} was replaced by another one of its name");
            return Failure::new(Exit::System, line);
        }
    }
}

/// The first device that has another index now. One that is gone may be back before anybody misses it.
fn changed(devices: &Devices) -> Option<&str> {
    let is_another = |(name, index): &(&String, &u32)| device_number(name).is_ok_and(|now| now != **index);
    devices.iter().find(is_another).map(|(name, _)| name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_another_one_if_its_index_has_changed() {
        let lo = device_number("lo").expect("there");
        for (name, index, expected) in [("lo", lo, None), ("lo", lo + 1, Some("lo")), ("not-there", lo, None)] {
            let devices = Devices::from([(name.to_owned(), index)]);
            assert_eq!(changed(&devices), expected, "{name} {index}");
        }
    }
}
