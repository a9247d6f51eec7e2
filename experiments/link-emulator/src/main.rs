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
//! Why: some kernels lack `sch_netem`. The link model is rattan-core's; its own packet drivers are not used, as its
//! environment cannot sit between namespaces that it did not make, rewrites MAC addresses and drops multicast.
//!
//! Offloads of all four interfaces must be off (`ethtool -K IF tso off gso off gro off tx off rx off`): a link carries
//! frames, with checksums. In the link's namespace IPv6 should be off (`disable_ipv6`), or the kernel adds frames of its
//! own. VLAN tags are lost, since the kernel takes them off before a packet socket sees the frame.

#![deny(unsafe_code)]

mod control;
mod link;
#[allow(unsafe_code)]
mod packet;
mod spec;
mod trace;

use std::future::pending;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use clap::Parser;
use nix::errno::Errno;
use nix::sys::prctl::set_timerslack;
use rand::SeedableRng;
use rand::rngs::StdRng;
use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};
use tokio::task::{JoinError, JoinSet};
use tributary_program::{EndSignals, Exit, Failure};

use control::Control;
use link::Counters;
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

// One thread: with two workers a frame cost 1.2 to 1.7 times as much CPU time, and the delay was no better kept.
#[tokio::main(flavor = "current_thread")]
async fn run(arguments: &Arguments) -> Result<(), Failure> {
    set_timerslack(1).map_err(Failure::at(Exit::System, "setting the timer slack"))?;
    let mut signals = EndSignals::listen()?;
    let a = open("--a", &arguments.a)?;
    let b = open("--b", &arguments.b)?;
    run_before_other_processes();
    let mut random = StdRng::seed_from_u64(arguments.seed);
    let mut tasks = JoinSet::new();
    let mut start = |spec, from: &Arc<_>, to: &Arc<_>| {
        link::start(
            spec,
            &mut random,
            Arc::clone(from),
            Arc::clone(to),
            &mut tasks,
        )
        .map_err(Failure::at(Exit::System, "starting the link model"))
    };
    let a_to_b = start(&arguments.a_to_b, &a, &b)?;
    let b_to_a = start(&arguments.b_to_a, &b, &a)?;
    let control = arguments.control.as_deref().map(Control::open).transpose();
    let control = control.map_err(Failure::at(Exit::System, "making the control socket"))?;
    let changes = async {
        match &control {
            Some(control) => control.serve([&a_to_b, &b_to_a]).await,
            None => pending().await,
        }
    };
    print_line("ready")?;
    tokio::select! {
        () = signals.next() => {}
        ended = changes => return Err(ended_early("reading the control socket", Ok(ended))),
        Some(ended) = tasks.join_next() => return Err(ended_early("forwarding", ended)),
    }
    let a_to_b = counters_json(&a_to_b.counters, &a)?;
    let b_to_a = counters_json(&b_to_a.counters, &b)?;
    print_line(&format!(r#"{{"a_to_b":{a_to_b},"b_to_a":{b_to_a}}}"#))
}

/// A frame is late when this process does not get its turn. With four busy loops on two CPUs a round trip of 10 ms took
/// 10.36 ms (mean deviation 0.94), and 10.06 ms (0.03) with real-time priority.
fn run_before_other_processes() {
    let policy = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    let result = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, policy);
    if let Err(error) = result {
        eprintln!(
            "link-emulator: warning: no real-time priority, busy CPUs will add to the delay: {error}"
        );
    }
}

fn open(option: &str, interface: &str) -> Result<Arc<PacketSocket>, Failure> {
    let socket = PacketSocket::open(interface).map_err(|errno| {
        let exit = match errno {
            Errno::EPERM | Errno::EACCES => Exit::NoPermission,
            Errno::ENODEV => Exit::Unavailable,
            _ => Exit::System,
        };
        let attempted = format!("{option} {interface}: opening a packet socket");
        Failure::at(exit, attempted)(errno.desc())
    })?;
    Ok(Arc::new(socket))
}

fn ended_early(what: &str, ended: Result<io::Result<()>, JoinError>) -> Failure {
    let how = match ended {
        Ok(Ok(())) => "a task ended".to_owned(),
        Ok(Err(error)) => error.to_string(),
        Err(panic) => panic.to_string(),
    };
    Failure::at(Exit::System, what)(how)
}

fn print_line(line: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .map_err(Failure::at(Exit::System, "writing to stdout"))
}

fn counters_json(counters: &Counters, from: &PacketSocket) -> Result<String, Failure> {
    let kernel_dropped = from
        .take_kernel_drops()
        .map_err(Failure::at(Exit::System, "reading packet statistics"))?;
    let fields = [
        ("received", counters.received.load(Relaxed)),
        ("delivered", counters.delivered.load(Relaxed)),
        ("lost", counters.lost.load(Relaxed)),
        ("queue_dropped", counters.queue_dropped.load(Relaxed)),
        ("bad_size", counters.bad_size.load(Relaxed)),
        ("send_failed", counters.send_failed.load(Relaxed)),
        ("kernel_dropped", kernel_dropped.into()),
    ];
    let fields = fields.map(|(name, value)| format!(r#""{name}":{value}"#));
    Ok(format!("{{{}}}", fields.join(",")))
}
