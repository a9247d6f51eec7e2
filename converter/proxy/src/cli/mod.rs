//! The command line, and how a running converter's status is shown.

pub mod report;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use clap::{Parser, Subcommand};
use tributary_program::Failure;

use crate::server::ask;

/// What a user can ask for.
#[derive(Debug, Parser)]
#[command(name = "tributary-converter", version, about = ABOUT, long_about = LONG_ABOUT, after_long_help = AFTER)]
pub struct Arguments {
    /// The configuration (TOML). Without one: an HTTP proxy on 127.0.0.1:3128 for this machine alone
    #[arg(long, short, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Check the configuration, bind nothing, and end: 0 if it is right, 64 with one line if not
    #[arg(long)]
    pub check: bool,

    /// Instead of running a converter, ask one
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What a running converter can be asked.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show what a running converter does
    Status(Ask),
    /// Show the same every second, with rates, until Ctrl-C
    Top(Target),
}

/// The converter to ask, and the form of the answer.
#[derive(Debug, clap::Args)]
pub struct Ask {
    /// The converter to ask.
    #[command(flatten)]
    pub target: Target,

    /// One JSON object on standard output
    #[arg(long)]
    pub json: bool,
}

/// The converter to ask.
#[derive(Debug, clap::Args)]
pub struct Target {
    /// The converter's control socket (control.socket in its configuration)
    #[arg(long, value_name = "FILE", default_value = "/run/tributary-converter/control.sock")]
    pub socket: PathBuf,
}

const ABOUT: &str = "A Multipath TCP converter for any TCP application";

const LONG_ABOUT: &str = "\
Ends Multipath TCP (RFC 8684) on the clients' side and speaks plain TCP to servers, so that clients use all of their
links with servers that know nothing of it. Clients speak HTTP to a proxy, SOCKS5, 0-RTT TCP Convert (RFC 8803), or
nothing at all: netfilter brings their connections here (TPROXY, REDIRECT).

Without client networks in its configuration it serves this machine alone; it is never an open proxy.";

const AFTER: &str = "\
Prints `ready` once it accepts connections.

Signals:
  SIGHUP            reads the configuration again; connections go on, listeners that stay are not closed; a wrong
                    configuration changes nothing
  SIGTERM, SIGINT   accepts nobody any more, waits for connections up to timeouts.drain, resets the rest; a second one
                    resets them at once
  SIGUSR2           hands over to the program that is installed now: it is started beside this one with the same
                    sockets, and once it serves this one accepts nobody any more and waits up to timeouts.hand_over

Exit codes:
  0 ended, everybody was served     1 connections had to be reset at the end     64 wrong arguments or configuration
  66 no such file                   69 no converter answers                      71 the system refused
  75 an address is in use           77 a privilege is missing

Privileges: CAP_NET_ADMIN for TPROXY and SO_MARK, CAP_NET_BIND_SERVICE for ports below 1024, CAP_NET_RAW for Convert's
Extended Connect.

docs/converter-reference.md describes the configuration.";

const INTERVAL: Duration = Duration::from_secs(1);
/// Back to the first line, clearing to the end of the screen after it was written (ECMA-48).
const HOME: &str = "\x1b[H";
const CLEAR_LINE: &str = "\x1b[K\n";
const CLEAR_REST: &str = "\x1b[J";
/// Without a terminal to ask.
const LINES: usize = 24;
/// Above the connections.
const ABOVE: usize = 6;

/// Shows until the converter ends, or Ctrl-C.
pub fn top(socket: &Path) -> Result<(), Failure> {
    let mut before = ask(socket)?;
    print!("\x1b[2J");
    loop {
        sleep(INTERVAL);
        let now = ask(socket)?;
        let rates = report::rates(&before, &now);
        let room = lines().saturating_sub(ABOVE + now.listeners.len()).max(1);
        let text = report::text(&now, Some(&rates), room);
        let screen = format!("{HOME}{}{CLEAR_REST}", text.replace('\n', CLEAR_LINE));
        let shown = io::stdout()
            .write_all(screen.as_bytes())
            .and_then(|()| io::stdout().flush());
        if shown.is_err() {
            return Ok(());
        }
        before = now;
    }
}

fn lines() -> usize {
    rustix::termios::tcgetwinsize(io::stdout()).map_or(LINES, |size| usize::from(size.ws_row))
}
