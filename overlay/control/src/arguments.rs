//! The arguments of the command.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZero;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use ipnet::IpNet;
use overlay_control::members::{Members, endpoint};
use overlay_control::name::Name;
use overlay_control::permissions::{ADMINISTRATOR, MEMBER, Role};
use tributary_program::Failure;

/// The overlay's control plane on etcd: agents measure delays, a controller publishes chains of converters.
#[derive(Debug, Parser)]
#[command(name = "tributary-overlay", version, after_help = AFTER)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

const AFTER: &str = "\
Without etcd agents and controllers wait, and go on when it is back. SIGTERM and SIGINT end them in order; SIGHUP has an
agent read its --egresses again.

Exit status:
  0   done
  64  wrong arguments, or a name that etcd does not know
  65  the file of --egresses is refused: which line
  66  it, or a file of --identity, cannot be read
  69  etcd does not answer, or is not installed
  71  the system refused an operation, or etcd ended
  75  a port is in use, or a name is allowed something else
  77  not permitted, or etcd refuses us";

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Register a node, and publish the round-trip times to its peers
    Agent(Agent),
    /// When elected, compute and publish the tables of all ingresses
    Controller(Controller),
    /// Print the path from an ingress to a server, as JSON
    Explain(Explain),
    /// Print the state of the overlay, as JSON
    Status(EtcdArguments),
    /// Create a user in etcd for each name, and turn authentication on; prints the changes as JSON
    Authorize(Authorize),
    /// Delete the users of names, and the keys that they wrote; prints the changes as JSON
    Revoke(Revoke),
}

const LOCAL_ETCD: &str = "http://127.0.0.1:2379";

/// A converter that was stopped stays so. One that has failed too often of late is started only after `reset-failed`
/// (`StartLimitBurst=`, systemd.unit(5)).
const RELOAD: &str = "if systemctl --quiet is-failed tributary-converter; then \
    systemctl reset-failed tributary-converter; systemctl start tributary-converter; \
    else systemctl try-reload-or-restart tributary-converter; fi";

/// How to reach etcd.
#[derive(Debug, Args)]
pub struct EtcdArguments {
    /// etcd's members: https, or http on this machine
    #[arg(long, value_name = "URL,...", value_delimiter = ',', default_value = LOCAL_ETCD, value_parser = endpoint)]
    pub endpoints: Vec<String>,
    /// The folder that `scripts/overlay enrol` made: ca.pem, node.pem, node.key; with https
    #[arg(long, value_name = "FOLDER")]
    pub identity: Option<PathBuf>,
    /// Allow http to etcd on other machines: only in a network that nobody else can reach
    #[arg(long)]
    pub insecure_transport: bool,
}

impl EtcdArguments {
    /// etcd's members, if the arguments fit together.
    pub fn members(&self) -> Result<Members, Failure> {
        let identity = self.identity.as_deref();
        Members::new(self.endpoints.clone(), identity, self.insecure_transport)
    }
}

#[derive(Debug, Args)]
pub struct Agent {
    /// The node's name: 1 to 64 of A-Z a-z 0-9 . _ , + -
    pub name: Name,
    /// The address at which it answers its peers' pings (UDP), published to them
    #[arg(long, value_name = "IP:PORT", value_parser = own_address)]
    pub address: SocketAddr,
    #[command(flatten)]
    pub etcd: EtcdArguments,
    /// Milliseconds between two pings of a peer; a slower reply counts as lost
    #[arg(long, default_value = "1000", value_parser = clap::value_parser!(u64).range(10..=60_000))]
    pub interval_ms: u64,
    /// Ping only so many peers, half of them the nearest, half at random; other delays are estimated (default: all)
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(4..=1000))]
    pub peers: Option<u16>,
    /// Publish a delay again when it has changed by so many percent ...
    #[arg(long, default_value = "10", value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub change_percent: u32,
    /// ... and so many milliseconds
    #[arg(long, default_value = "2", value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub change_ms: u32,
    /// The address of the node's converter (kind "convert"); chains avoid a node without one, or whose does not answer
    #[arg(long, value_name = "IP:PORT", value_parser = own_address)]
    pub converter: Option<SocketAddr>,
    /// The processor pressure (PSI) that counts as the node's load: the machine's, or a control group's
    #[arg(long, value_name = "FILE", default_value = "/proc/pressure/cpu")]
    pub pressure: PathBuf,
    /// The routes file of the node's converter, which the agent writes
    #[arg(long, value_name = "FILE", requires = "egresses")]
    pub routes: Option<PathBuf>,
    /// The egress of each server network, one per line: PREFIX [port N] NODE[|NODE...] [ROUNDS] [probe IP:PORT]; PREFIX may
    /// be default
    #[arg(long, value_name = "FILE", requires = "routes")]
    pub egresses: Option<PathBuf>,
    /// Private networks in which the servers named in egresses may be probed, as the converter's targets.allow
    #[arg(long, value_name = "NETWORK,...", value_delimiter = ',')]
    pub allow: Vec<IpNet>,
    /// The shell command that makes the converter reload its routes, and starts one that has failed, as without its routes
    #[arg(long, value_name = "COMMAND", default_value = RELOAD)]
    pub reload: String,
}

#[derive(Debug, Args)]
pub struct Explain {
    /// The node that clients connect to
    pub ingress: Name,
    /// The server's address
    pub server: IpAddr,
    /// The server's port
    #[arg(long)]
    pub port: Option<NonZero<u16>>,
    /// The size of the transfer; default: the rounds of the ingress's line for the server
    #[arg(long)]
    pub bytes: Option<u64>,
    #[command(flatten)]
    pub etcd: EtcdArguments,
}

#[derive(Debug, Args)]
pub struct Controller {
    /// The controller's name
    pub name: Name,
    /// etcd's members; default: an etcd of the controller's own on this machine
    #[arg(long, value_name = "URL,...", value_delimiter = ',', value_parser = endpoint)]
    pub endpoints: Vec<String>,
    /// The folder that `scripts/overlay enrol` made; with https
    #[arg(long, value_name = "FOLDER", requires = "endpoints")]
    pub identity: Option<PathBuf>,
    /// Allow http to etcd on other machines: only in a network that nobody else can reach
    #[arg(long)]
    pub insecure_transport: bool,
    /// The data folder of its own etcd
    #[arg(long, default_value = "/var/lib/tributary-overlay", conflicts_with = "endpoints")]
    pub data: PathBuf,
    /// The port of its own etcd on 127.0.0.1; 0 takes a free one
    #[arg(long, default_value = "2379", conflicts_with = "endpoints")]
    pub port: u16,
    /// Refuse new tables if more than so many percent of the pairs between other nodes could only go through one node
    #[arg(long, default_value = "90", value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub max_through: u32,
}

#[derive(Debug, Args)]
pub struct Authorize {
    /// The names in the certificates of nodes, controllers or readers
    #[arg(required = true, value_parser = user)]
    pub names: Vec<Name>,
    /// Their role
    #[arg(long = "as", value_enum, value_name = "ROLE", default_value_t = Role::Node)]
    pub role: Role,
    #[command(flatten)]
    pub etcd: UserArguments,
}

#[derive(Debug, Args)]
pub struct Revoke {
    /// The names in the certificates
    #[arg(required = true, value_parser = user)]
    pub names: Vec<Name>,
    #[command(flatten)]
    pub etcd: UserArguments,
}

/// How to reach etcd as its user root.
#[derive(Debug, Args)]
pub struct UserArguments {
    /// etcd's members
    #[arg(long, value_name = "URL,...", value_delimiter = ',', required = true, value_parser = endpoint)]
    endpoints: Vec<String>,
    /// The folder of etcd's user root
    #[arg(long, value_name = "FOLDER", required = true)]
    identity: PathBuf,
    /// Print the changes, and make none
    #[arg(long)]
    pub dry_run: bool,
}

impl UserArguments {
    /// etcd's members, if the arguments fit together.
    pub fn members(&self) -> Result<Members, Failure> {
        Members::new(self.endpoints.clone(), Some(&self.identity), false)
    }
}

/// Refuses the names that etcd itself uses.
fn user(text: &str) -> Result<Name, String> {
    if [ADMINISTRATOR, MEMBER].contains(&text) {
        return Err("accepted: a name that etcd does not use itself".into());
    }
    text.parse()
}

/// An address that peers can reach.
fn own_address(text: &str) -> Result<SocketAddr, String> {
    let address: Option<SocketAddr> = text.parse().ok();
    address
        .filter(|address| !address.ip().is_unspecified() && address.port() != 0)
        .ok_or_else(|| "accepted: an address of this machine and a port: 192.0.2.1:5460".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_are_none_are_refused() {
        assert!(own_address("[2001:db8::1]:5460").is_ok());
        let refused = "0.0.0.0:5460 [::]:5460 192.0.2.1 192.0.2.1:0 london:5460";
        for text in refused.split(' ') {
            assert!(own_address(text).is_err(), "{text}");
        }
    }

    /// `systemctl` in its place answers `is-failed`, and prints everything else.
    #[test]
    fn a_converter_that_has_failed_is_started_and_one_that_was_stopped_is_not() {
        for (code, expected) in [
            (0, "reset-failed tributary-converter\nstart tributary-converter\n"),
            (1, "try-reload-or-restart tributary-converter\n"),
        ] {
            let fake =
                format!("systemctl() {{ case \"$*\" in *is-failed*) return {code} ;; *) echo \"$*\" ;; esac; }}");
            let mut shell = std::process::Command::new("sh");
            let output = shell.args(["-c", &format!("{fake}\n{RELOAD}")]).output().unwrap();
            assert!(output.status.success());
            assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
        }
    }

    #[test]
    fn the_arguments_are_as_clap_wants_them() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }
}
