//! Measures a switch: the time to install a rule over a front's link, and the time in which each of the eBPF programs
//! rewrites a small frame and a large one. Prints one line of JSON.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use handoff_link::{Identity, Role, Sender, Session};
use handoff_protocol::{Message, Payload, Rule};
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tributary_offload::{Devices, Flow, Translation, Translator};
use tributary_sys::device_number;

/// The largest hop count.
const HOPS: u8 = 255;
/// Repetitions per frame; each takes a hop.
const IN_A_ROW: u32 = 250;
/// The length of an Ethernet header.
const ETHERNET: usize = 14;
/// The endpoints of the rewritten packets.
const CLIENT: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 40_000);
const SERVICE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 2), 80);

#[derive(Debug, Parser)]
struct Arguments {
    /// The switch's address for fronts
    #[arg(long, value_name = "IP:PORT")]
    switch: SocketAddr,
    /// The folder with ca.pem, node.pem and node.key
    #[arg(long, value_name = "FOLDER")]
    identity: PathBuf,
    /// One of its services
    #[arg(long, value_name = "IP:PORT")]
    service: SocketAddrV4,
    /// One of its back ends
    #[arg(long, value_name = "IP:PORT")]
    back_end: SocketAddrV4,
    /// A client that does not exist
    #[arg(long, value_name = "IP:PORT")]
    client: SocketAddrV4,
    /// A device that forwards, with a known next hop to 192.0.2.2: the driver's program needs it
    #[arg(long, value_name = "DEVICE")]
    device: String,
    /// Repetitions of each; the median is printed
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    count: u32,
}

fn main() -> ExitCode {
    match measure(&Arguments::parse()) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("switch-costs: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(arguments: &Arguments) -> io::Result<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let rule = runtime.block_on(rule_time(arguments))?;
    let times = Times::begin(arguments)?;
    let mut named = vec![("rule_us".to_owned(), rule.as_secs_f64() * 1e6)];
    for length in [60, 1514] {
        let packet = packet(length - ETHERNET);
        let times_ns = [("", times.tc(&packet)?), ("xdp_", times.drivers(&packet)?)];
        for (who, time) in times_ns {
            named.push((format!("{who}rewrite_ns_{length}"), time.as_secs_f64() * 1e9));
        }
    }
    let fields: Vec<_> = named
        .iter()
        .map(|(name, value)| format!("\"{name}\": {value:.1}"))
        .collect();
    Ok(format!("{{{}}}", fields.join(", ")))
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// From request to reply.
async fn rule_time(arguments: &Arguments) -> io::Result<Duration> {
    let identity = Identity::read(&arguments.identity, Role::Front).map_err(io::Error::other)?;
    let mut stream = identity.connect(arguments.switch, Role::Switch).await?;
    let (sender, mut session) = Session::new();
    let heard = session.connect(&mut stream, 1).await;
    let heard = heard.map_err(|broken| io::Error::other(broken.to_string()))?;
    let (tell, answers) = mpsc::unbounded_channel();
    let rule = Rule {
        client: arguments.client,
        service: arguments.service,
        back_end: arguments.back_end,
        number: 1,
    };
    let link = session.run(stream, heard, |message| {
        // After the measurement the receiver is gone.
        let _ = tell.send(message.payload);
    });
    tokio::select! {
        times = rule_times(rule, arguments.count, &sender, answers) => times.map(median),
        broken = link => Err(io::Error::other(broken.to_string())),
    }
}

async fn rule_times(
    rule: Rule,
    count: u32,
    switch: &Sender,
    mut answers: UnboundedReceiver<Payload>,
) -> io::Result<Vec<Duration>> {
    let mut times = vec![];
    for _ in 0..count {
        let since = Instant::now();
        done(Payload::Install(rule), switch, &mut answers).await?;
        times.push(since.elapsed());
        done(Payload::Remove(rule), switch, &mut answers).await?;
    }
    Ok(times)
}

/// Installs the rule, and waits for the reply.
async fn done(payload: Payload, switch: &Sender, answers: &mut UnboundedReceiver<Payload>) -> io::Result<()> {
    let message = Message { id: 1, payload };
    if !switch.send(message) {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    loop {
        match answers.recv().await {
            Some(Payload::Done) => return Ok(()),
            Some(Payload::Heartbeat { .. }) => {}
            other => return Err(io::Error::other(format!("the switch says {other:?}"))),
        }
    }
}

/// The times of the eBPF programs, and how often each rewrites a packet.
struct Times {
    translator: Translator,
    count: u32,
}

impl Times {
    fn begin(arguments: &Arguments) -> io::Result<Self> {
        let mut translator = Translator::load()?;
        translator.load_for_drivers()?;
        let device = device_number(&arguments.device)?;
        // It is sent back to where it came from, so that the next run finds it again.
        let there = translation();
        let to_client = Translation {
            from: there.to.reversed(),
            to: there.from.reversed(),
            ..there
        };
        for each in [there, to_client] {
            translator.insert(&each, Devices::to(device))?;
        }
        let count = arguments.count;
        Ok(Self { translator, count })
    }

    fn tc(&self, packet: &[u8]) -> io::Result<Duration> {
        let time = |_| self.translator.time_on(packet, IN_A_ROW);
        (0..self.count).map(time).collect::<io::Result<_>>().map(median)
    }

    fn drivers(&self, packet: &[u8]) -> io::Result<Duration> {
        let time = |_| self.translator.time_drivers_on(packet, IN_A_ROW).transpose();
        let times: Vec<_> = (0..self.count).filter_map(time).collect::<io::Result<_>>()?;
        if times.is_empty() {
            let message = "drivers' program sends nothing out: no next hop is known there";
            return Err(io::Error::other(message));
        }
        Ok(median(times))
    }
}

fn translation() -> Translation {
    let flow = Flow {
        source: CLIENT.into(),
        destination: SERVICE.into(),
    };
    Translation {
        from: flow,
        to: flow,
        sequence: 1,
        acknowledgement: 1,
        tsval: 0,
        tsecr: 0,
        scale_in: 7,
        scale_out: 7,
        sender: None,
    }
}

/// A segment without options. Its checksums are arbitrary: the program updates them, and does not verify them.
fn packet(length: usize) -> Vec<u8> {
    let total = u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes();
    let head = [0x45, 0, total[0], total[1], 0, 0, 0x40, 0, HOPS, 6, 0, 0];
    let mut packet = head.to_vec();
    for end in [CLIENT, SERVICE] {
        packet.extend(end.ip().octets());
    }
    for end in [CLIENT, SERVICE] {
        packet.extend(end.port().to_be_bytes());
    }
    packet.extend([0; 8]); // sequence and acknowledgement
    packet.extend([0x50, 0x10, 0x10, 0]); // five words long, ACK, a window
    packet.resize(length, 0);
    packet
}
