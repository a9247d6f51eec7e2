//! One direction of the link: loss, then the queue and the rate, then the delay, each a cell of rattan-core. Only the
//! queue in front of a trace is our own: rattan-core's BwReplayCell replays rates, and divides by them when they change,
//! but between two deliveries of a trace the rate is zero.
//!
//! The cells pass on, with each frame, the time at which it should have left them. So neither a late wake-up nor the
//! hand-over between tasks adds up: only the last one, in front of the send, shows.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::errno::Errno;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rattan_core::cells::bandwidth::queue::{DropTailQueue, DropTailQueueConfig, PacketQueue};
use rattan_core::cells::bandwidth::{BwCell, BwType};
use rattan_core::cells::delay::{DelayCell, DelayCellConfig, DelayCellControlInterface};
use rattan_core::cells::loss::LossCell;
use rattan_core::cells::per_packet::delay::DelayPerPacketCell;
use rattan_core::cells::{Cell, CellState, ControlInterface, Egress, Ingress, Packet, StdPacket};
use rattan_core::error::Error;
use rattan_core::netem_trace::Bandwidth;
use rattan_core::netem_trace::model::UniformDelayPerPacketConfig;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::packet::{PacketSocket, ReceiveBuffer, Received, receive};
use crate::spec::{Capacity, Spec};
use crate::trace::{Trace, TracedQueue};

/// Frames read before other tasks get their turn, lest a flood keeps the senders waiting.
const READ_BATCH: usize = 32;
const ETHERNET_HEADER_BYTES: usize = 14;

/// What became of the frames. Those in none of the counters after `received` are still under way.
#[derive(Default)]
pub struct Counters {
    pub received: AtomicU64,
    pub delivered: AtomicU64,
    /// By the loss model.
    pub lost: AtomicU64,
    pub queue_dropped: AtomicU64,
    /// Longer than a frame can be, or shorter than its header.
    pub bad_size: AtomicU64,
    /// The kernel would not take them, for example because the interface is down.
    pub send_failed: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

/// A cell as seen from outside: where frames enter, and where they leave.
struct Stage {
    input: Arc<dyn Ingress<StdPacket>>,
    output: Box<dyn Egress<StdPacket>>,
}

impl Stage {
    fn new<C>(cell: C) -> Self
    where
        C: Cell<StdPacket>,
    {
        let input = cell.sender();
        let output = cell.into_receiver();
        // Cells drop everything until they are told otherwise.
        output.change_state(CellState::Normal);
        Self {
            input,
            output: Box::new(output),
        }
    }
}

/// A drop-tail queue that says how much it dropped.
struct CountedQueue {
    queue: DropTailQueue<StdPacket>,
    counters: Arc<Counters>,
}

impl PacketQueue<StdPacket> for CountedQueue {
    type Config = DropTailQueueConfig;

    fn configure(&mut self, config: Self::Config) {
        self.queue.configure(config);
    }

    fn enqueue(&mut self, packet: StdPacket) {
        let before = self.queue.length();
        self.queue.enqueue(packet);
        if self.queue.length() == before {
            count(&self.counters.queue_dropped);
        }
    }

    fn dequeue(&mut self) -> Option<StdPacket> {
        self.queue.dequeue()
    }

    fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    fn get_front_size(&self) -> Option<usize> {
        self.queue.get_front_size()
    }

    fn length(&self) -> usize {
        self.queue.length()
    }
}

/// The queue in front of a trace, as a stage: it passes frames on at once, with the time at which each has left it.
struct TracedStage {
    queue: Mutex<TracedQueue>,
    next: Arc<dyn Ingress<StdPacket>>,
    counters: Arc<Counters>,
}

impl Ingress<StdPacket> for TracedStage {
    fn enqueue(&self, mut packet: StdPacket) -> Result<(), Error> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        match queue.pass(packet.get_timestamp(), packet.l3_length()) {
            Some(left) => {
                packet.delay_until(left);
                self.next.enqueue(packet)
            }
            None => {
                count(&self.counters.queue_dropped);
                Ok(())
            }
        }
    }
}

/// A direction at work.
pub struct Running {
    pub counters: Arc<Counters>,
    /// Changes the delay; without jitter alone.
    delay: Control,
}

impl Running {
    /// Gives frames another delay from now on; those that wait for theirs have the shorter of both. With jitter it is
    /// refused.
    pub fn set_delay(&self, delay: Duration) -> Result<(), Error> {
        let set = self.delay.as_ref().ok_or_else(|| {
            Error::ConfigError("the delay of a link with jitter stays as it is".to_owned())
        })?;
        set.set_config(DelayCellConfig::new(delay))
    }
}

/// Starts the tasks that carry frames from one socket to the other. They end only with an error.
pub fn start(
    spec: &Spec,
    random: &mut StdRng,
    from: Arc<PacketSocket>,
    to: Arc<PacketSocket>,
    tasks: &mut JoinSet<io::Result<()>>,
) -> Result<Running, Error> {
    let counters = Arc::new(Counters::default());
    let loss = Stage::new(LossCell::new([spec.loss], StdRng::from_rng(random))?);
    let (delay, control) = delay_stage(spec, random)?;
    let queue = match &spec.capacity {
        Capacity::Rate(rate_bps) => {
            let rate = rate_stage(*rate_bps, spec, &counters)?;
            tasks.spawn(pass(rate.output, delay.input));
            rate.input
        }
        Capacity::Trace(trace) => traced_stage(trace, spec, delay.input, &counters),
    };
    tasks.spawn(read(from, loss, queue, Arc::clone(&counters)));
    tasks.spawn(write(delay.output, to, Arc::clone(&counters)));
    Ok(Running {
        counters,
        delay: control,
    })
}

fn rate_stage(rate_bps: u64, spec: &Spec, counters: &Arc<Counters>) -> Result<Stage, Error> {
    let limit = DropTailQueueConfig::new(spec.queue_packets, None, BwType::NetworkLayer);
    let queue = CountedQueue {
        queue: limit.into(),
        counters: Arc::clone(counters),
    };
    let rate = Bandwidth::from_bps(rate_bps);
    Ok(Stage::new(BwCell::new(rate, queue, BwType::NetworkLayer)?))
}

fn traced_stage(
    trace: &Trace,
    spec: &Spec,
    next: Arc<dyn Ingress<StdPacket>>,
    counters: &Arc<Counters>,
) -> Arc<dyn Ingress<StdPacket>> {
    let queue = TracedQueue::new(trace.clone(), spec.queue_packets, Instant::now());
    Arc::new(TracedStage {
        queue: Mutex::new(queue),
        next,
        counters: Arc::clone(counters),
    })
}

type Control = Option<Arc<DelayCellControlInterface>>;

fn delay_stage(spec: &Spec, random: &mut StdRng) -> Result<(Stage, Control), Error> {
    if spec.jitter.is_zero() {
        let cell = DelayCell::new(spec.delay)?;
        let control = cell.control_interface();
        return Ok((Stage::new(cell), Some(control)));
    }
    let trace = UniformDelayPerPacketConfig::new()
        .lower_bound(spec.delay - spec.jitter)
        .upper_bound(spec.delay + spec.jitter)
        .seed(random.random());
    Ok((Stage::new(DelayPerPacketCell::new(trace.build())?), None))
}

async fn read(
    from: Arc<PacketSocket>,
    mut loss: Stage,
    next: Arc<dyn Ingress<StdPacket>>,
    counters: Arc<Counters>,
) -> io::Result<()> {
    let mut buffer = ReceiveBuffer::new();
    let mut last_arrival = Instant::now();
    loop {
        let mut guard = from.readable().await?;
        for _ in 0..READ_BATCH {
            let packet = match guard.try_io(|fd| receive(fd.get_ref(), &mut buffer)) {
                Ok(Ok(received)) => to_packet(received, &mut last_arrival, &counters),
                // The interface went down. Frames come again once it is up.
                Ok(Err(e)) if e.raw_os_error() == Some(Errno::ENETDOWN as i32) => None,
                Ok(Err(e)) => return Err(e),
                Err(_would_block) => break,
            };
            if let Some(packet) = packet {
                // The loss cell decides on the spot, so it needs no task of its own.
                enqueue(&*loss.input, packet)?;
                match loss.output.dequeue().await {
                    Some(packet) => enqueue(&*next, packet)?,
                    None => count(&counters.lost),
                }
            }
        }
        tokio::task::yield_now().await;
    }
}

/// Copies a frame. The rate cell needs arrival times that do not go back, whatever the wall clock does.
fn to_packet(
    received: Received<'_>,
    last_arrival: &mut Instant,
    counters: &Counters,
) -> Option<StdPacket> {
    count(&counters.received);
    let frame = received
        .frame
        .filter(|frame| frame.len() >= ETHERNET_HEADER_BYTES);
    let Some(frame) = frame else {
        count(&counters.bad_size);
        return None;
    };
    *last_arrival = received.arrival.max(*last_arrival);
    let mut packet = StdPacket::from_raw_buffer(frame);
    packet.delay_until(*last_arrival);
    Some(packet)
}

/// A cell's `dequeue` also returns `None` when it only wants to be called again; its input stays open as long as the
/// reading task lives.
async fn pass(
    mut output: Box<dyn Egress<StdPacket>>,
    next: Arc<dyn Ingress<StdPacket>>,
) -> io::Result<()> {
    loop {
        if let Some(packet) = output.dequeue().await {
            enqueue(&*next, packet)?;
        }
    }
}

async fn write(
    mut output: Box<dyn Egress<StdPacket>>,
    to: Arc<PacketSocket>,
    counters: Arc<Counters>,
) -> io::Result<()> {
    loop {
        if let Some(packet) = output.dequeue().await {
            match to.send(packet.as_slice()).await {
                Ok(()) => count(&counters.delivered),
                Err(_) => count(&counters.send_failed),
            }
        }
    }
}

fn enqueue(next: &dyn Ingress<StdPacket>, packet: StdPacket) -> io::Result<()> {
    next.enqueue(packet).map_err(io::Error::other)
}
