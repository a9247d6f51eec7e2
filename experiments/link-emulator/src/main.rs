//! Emulates one network link in user space.
//!
//! It sits in a network namespace of its own, between two veth interfaces without addresses, and carries whole Ethernet
//! frames (IPv4, IPv6, ARP, multicast) from one to the other, each direction with its own rate or trace, delay,
//! jitter, loss and queue:
//!
//! ```text
//!   namespace of host A          namespace of the link             namespace of host B
//!  +-------------------+  +---------------------------------+  +-------------------+
//!  |              eth0 ====== a   loss > rate > delay   b ====== eth0              |
//!  |                   |  |     delay < rate < loss         |  |                   |
//!  +-------------------+  +---------------------------------+  +-------------------+
//! ```
//!
//! Why: some kernels lack `sch_netem`.
//!
//! Offloads of all four interfaces must be off (`ethtool -K IF tso off gso off gro off tx off rx off`): a link carries
//! frames, with checksums. In the link's namespace IPv6 should be off (`disable_ipv6`), or the kernel adds frames of its
//! own. VLAN tags are lost, since the kernel takes them off before a packet socket sees the frame.

#![deny(unsafe_code)]

mod control;
mod forward;
mod link;
#[allow(unsafe_code)]
mod packet;
mod spec;
mod trace;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use nix::errno::Errno;
use nix::sys::prctl::set_timerslack;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::SignalFd;
use rand::SeedableRng;
use rand::rngs::StdRng;
use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy,
    thread_native_id,
};
use tributary_program::{Exit, Failure};

use control::Control;
use forward::{Path, forward};
use link::Direction;
use packet::PacketSocket;
use spec::Spec;

/// Emulates one network link between two interfaces of this network namespace.
///
/// SPEC is for example rate=100mbit,delay=5ms,jitter=0ms,loss=0.5%,queue=100. The rate is mandatory and counts IP
/// bytes, or trace=FILE takes its place: times of delivery, as mm-link(1) of Mahimahi reads them, from when the link
/// comes up. The queue (packets) is in front of either. Prints "ready" once frames are forwarded; SIGTERM or SIGINT
/// ends it, and it prints its counters as one line of JSON.
#[derive(Parser)]
struct Arguments {
    /// First interface
    #[arg(long, value_name = "IFACE")]
    a: String,
    /// Second interface
    #[arg(long, value_name = "IFACE")]
    b: String,
    /// What happens to frames from the first to the second interface
    #[arg(long, value_name = "SPEC")]
    a_to_b: Spec,
    /// What happens to frames from the second to the first interface
    #[arg(long, value_name = "SPEC")]
    b_to_a: Spec,
    /// A file for a Unix datagram socket at which both directions' delays can be changed, as by 10ms,20ms
    #[arg(long, value_name = "FILE")]
    control: Option<PathBuf>,
    /// Seed of losses and jitter
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

fn main() -> ExitCode {
    match arguments().and_then(|arguments| run(&arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("link-emulator: {failure}");
            ExitCode::from(failure.exit as u8)
        }
    }
}

fn arguments() -> Result<Arguments, Failure> {
    let arguments = Arguments::try_parse().map_err(|error| {
        if !error.use_stderr() {
            error.exit(); // --help
        }
        usage(&error.to_string())
    })?;
    if arguments.a == arguments.b {
        return Err(usage(&format!(
            "--a and --b are both {:?}: two interfaces are needed",
            arguments.a
        )));
    }
    Ok(arguments)
}

/// Clap's first paragraph is the error, what follows is help. The testbed wants one line.
fn usage(text: &str) -> Failure {
    let paragraph = text.split("\n\n").next().unwrap_or(text);
    let words: Vec<_> = paragraph.split_whitespace().collect();
    Failure::new(Exit::Usage, words.join(" ").replacen("error: ", "", 1))
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    set_timerslack(1).map_err(Failure::at(Exit::System, "setting the timer slack"))?;
    let signals = end_signals().map_err(Failure::at(Exit::System, "signals"))?;
    let a = open("--a", &arguments.a)?;
    let b = open("--b", &arguments.b)?;
    run_before_other_processes();
    let mut random = StdRng::seed_from_u64(arguments.seed);
    let start = Instant::now();
    let mut path = |spec, from, to| Path {
        from,
        to,
        direction: Direction::new(spec, &mut random, start),
    };
    let mut paths = [path(&arguments.a_to_b, &a, &b), path(&arguments.b_to_a, &b, &a)];
    let control = arguments.control.as_deref().map(Control::open).transpose();
    let control = control.map_err(Failure::at(Exit::System, "making the control socket"))?;
    print_line("ready")?;
    forward(&mut paths, control.as_ref(), &signals).map_err(Failure::at(Exit::System, "forwarding"))?;
    let [a_to_b, b_to_a] = paths;
    let (a_to_b, b_to_a) = (counters_json(&a_to_b)?, counters_json(&b_to_a)?);
    print_line(&format!(r#"{{"a_to_b":{a_to_b},"b_to_a":{b_to_a}}}"#))
}

/// SIGTERM and SIGINT, as something that can be read.
fn end_signals() -> nix::Result<SignalFd> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGTERM);
    signals.add(Signal::SIGINT);
    signals.thread_block()?;
    SignalFd::new(&signals)
}

/// A frame is late when this process does not get its turn. With four busy loops on two CPUs a round trip of 10 ms took
/// 10.36 ms (mean deviation 0.94), and 10.06 ms (0.03) with real-time priority.
fn run_before_other_processes() {
    let policy = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    let result = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, policy);
    if let Err(error) = result {
        eprintln!("link-emulator: warning: no real-time priority, busy CPUs will add to the delay: {error}");
    }
}

fn open(option: &str, interface: &str) -> Result<PacketSocket, Failure> {
    PacketSocket::open(interface).map_err(|errno| {
        let exit = match errno {
            Errno::EPERM | Errno::EACCES => Exit::NoPermission,
            Errno::ENODEV => Exit::Unavailable,
            _ => Exit::System,
        };
        let attempted = format!("{option} {interface}: opening a packet socket");
        Failure::at(exit, attempted)(errno.desc())
    })
}

fn print_line(line: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .map_err(Failure::at(Exit::System, "writing to stdout"))
}

fn counters_json(path: &Path) -> Result<String, Failure> {
    let kernel_dropped = path
        .from
        .take_kernel_drops()
        .map_err(Failure::at(Exit::System, "reading packet statistics"))?;
    let counters = &path.direction.counters;
    let fields = [
        ("received", counters.received),
        ("delivered", counters.delivered),
        ("lost", counters.lost),
        ("queue_dropped", counters.queue_dropped),
        ("bad_size", counters.bad_size),
        ("send_failed", counters.send_failed),
        ("kernel_dropped", kernel_dropped.into()),
    ];
    let fields = fields.map(|(name, value)| format!(r#""{name}":{value}"#));
    Ok(format!("{{{}}}", fields.join(",")))
}
