//! Translations in the kernel: its part is `offload.bpf.c`, a program for tc(8), and one for XDP in its way where drivers
//! have that (`driver.bpf.h`).
//!
//! It looks at what comes in by the devices that it is attached to, which must be Ethernet's, and leaves alone what there
//! is no translation for. What is rewritten goes out by the device that its translation names, to the next hop that the
//! kernel's routes there name; forwarding need not be switched on. What cannot be rewritten is dropped and counted.

mod connection;
mod driver;
mod table;

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use aya::programs::{ProgramError, SchedClassifier, TcAttachType, Xdp, XdpFlags, tc};
use aya::{Ebpf, include_bytes_aligned};
use tributary_sys::bpf::{self, Run};
use tributary_sys::{array, device_number};

use crate::leg::Flow;
use crate::translation::{Action, Translation};

pub use connection::{Connection, Limits};
pub use table::{Devices, Seen};
use table::{Table, key};

static OBJECT: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/offload.bpf.o"));

// The compiled programs.
const PACKETS: &str = "offload_packet";
const FRAMES: &str = "offload_frame";
const LAST_TIMESTAMP: &str = "last_timestamp";
const LEAD: &str = "lead";

/// Bytes of an Ethernet header before a packet, and its type for each version of IP.
const ETHERNET: usize = 14;
const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];

/// The program in the kernel, and its table. Both end with this, and what is attached is detached.
pub struct Translator {
    ebpf: Ebpf,
    table: Arc<Table>,
}

impl Translator {
    /// Loads it. Raises what the kernel says: it needs `CAP_BPF`, `CAP_NET_ADMIN` and `CAP_PERFMON`, and the kernel its
    /// types (`/sys/kernel/btf/vmlinux`).
    pub fn load() -> io::Result<Self> {
        let mut ebpf = Ebpf::load(OBJECT).map_err(io::Error::other)?;
        for name in [PACKETS, LAST_TIMESTAMP, LEAD] {
            let program = ebpf.program_mut(name).ok_or_else(missing)?;
            let program: &mut SchedClassifier = program.try_into().map_err(io::Error::other)?;
            program.load().map_err(io::Error::other)?;
        }
        let table = Arc::new(Table::of(&mut ebpf)?);
        Ok(Self { ebpf, table })
    }

    /// Looks at what comes in by a device. A queueing discipline `clsact`, which does nothing by itself, stays there.
    pub fn attach(&mut self, device: &str) -> io::Result<()> {
        match tc::qdisc_add_clsact(device) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let program = self.ebpf.program_mut(PACKETS).ok_or_else(missing)?;
        let program: &mut SchedClassifier = program.try_into().map_err(io::Error::other)?;
        program
            .attach(device, TcAttachType::Ingress)
            .map_err(io::Error::other)?;
        Ok(())
    }

    /// Has the drivers of these devices rewrite what they can before the kernel makes packets of it (XDP): IPv4 without
    /// options, in whole frames with a checksum, to a next hop that is known. All else is left to tc's program, so that they
    /// are to be attached to as well ([`Self::attach`]). Raises why the driver of one cannot; then none does.
    pub fn attach_to_drivers(&mut self, devices: &BTreeSet<String>) -> io::Result<()> {
        self.load_for_drivers()?;
        let program = frames(&mut self.ebpf)?;
        let mut links = vec![];
        let mut attached = devices.iter().try_for_each(|device| {
            let link = program.attach(device, XdpFlags::DRV_MODE);
            links.push(link.map_err(|error| named(device, &refused(error)))?);
            Ok(())
        });
        // Some drivers send frames once they have a program themselves.
        if attached.is_ok() {
            attached = devices.iter().try_for_each(|device| check_driver(device));
        }
        if attached.is_err() {
            for link in links {
                program.detach(link).map_err(io::Error::other)?;
            }
        }
        attached
    }

    /// Has the kernel check the program for drivers, which is to be attached or run.
    pub fn load_for_drivers(&mut self) -> io::Result<()> {
        match frames(&mut self.ebpf)?.load() {
            Ok(()) | Err(ProgramError::AlreadyLoaded) => Ok(()),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    /// Rewrites what comes in by `translation.from`.
    pub fn insert(&self, translation: &Translation, devices: Devices) -> io::Result<()> {
        self.table.insert(translation, devices)
    }

    /// Leaves what comes in by `flow` to others again.
    pub fn remove(&self, flow: Flow) -> io::Result<()> {
        self.table.remove(flow)
    }

    /// What was seen of `flow`; `None` if there is no translation for it.
    pub fn seen(&self, flow: Flow) -> io::Result<Option<Seen>> {
        self.table.seen(flow)
    }

    /// From now on what comes in by `flow` goes out by the device with this number. Raises [`io::ErrorKind::NotFound`] if
    /// there is no translation for it.
    pub fn lead(&self, flow: Flow, goes_by: u32) -> io::Result<()> {
        let order = [&key(flow)[..], &goes_by.to_ne_bytes()].concat();
        match self.run(LEAD, &mut frame(&order), 1)?.answer {
            0 => Ok(()),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// The last timestamp that the other end of a connection sent, in its own ticks, out of the kernel's socket in this
    /// network namespace: repair mode does not tell it. `incoming` is what comes from there. Raises
    /// [`io::ErrorKind::NotFound`] if there is no such connection.
    pub fn last_timestamp(&self, incoming: Flow) -> io::Result<u32> {
        let mut frame = frame(&key(incoming));
        match self.run(LAST_TIMESTAMP, &mut frame, 1)?.answer {
            0 => Ok(u32::from_ne_bytes(array(&frame, ETHERNET))),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Runs the program on `packet`, which begins with its IP header and goes nowhere (`BPF_PROG_TEST_RUN`).
    pub fn try_on(&self, packet: &mut [u8]) -> io::Result<Action> {
        self.try_program(PACKETS, packet).and_then(action)
    }

    /// The same for the drivers' program, once it is loaded. It leaves to tc's what it cannot do, and of each translation one
    /// packet in a second, but not the first.
    pub fn try_drivers_on(&self, packet: &mut [u8]) -> io::Result<Action> {
        self.try_program(FRAMES, packet).and_then(drivers_action)
    }

    fn try_program(&self, name: &str, packet: &mut [u8]) -> io::Result<i32> {
        let mut framed = frame(packet);
        let run = self.run(name, &mut framed, 1)?;
        packet.copy_from_slice(&framed[ETHERNET..]);
        Ok(run.answer)
    }

    /// What the program takes for a packet that it sends out elsewhere: the mean of so many times in a row, each with what
    /// the one before has made of it. So its translation has to lead to where it comes from, and its time to live to be
    /// larger than `times`. Raises also that the last one was not sent out.
    pub fn time_on(&self, packet: &[u8], times: u32) -> io::Result<Duration> {
        let run = self.run(PACKETS, &mut frame(packet), times)?;
        match action(run.answer)? {
            Action::Redirect => Ok(run.time),
            other => Err(io::Error::other(format!("{other:?}"))),
        }
    }

    /// The same for the drivers' program, once it is loaded; `None` if the last one was tc's turn.
    pub fn time_drivers_on(&self, packet: &[u8], times: u32) -> io::Result<Option<Duration>> {
        let run = self.run(FRAMES, &mut frame(packet), times)?;
        let is_sent = drivers_action(run.answer)? == Action::Redirect;
        Ok(is_sent.then_some(run.time))
    }

    fn run(&self, name: &str, frame: &mut [u8], times: u32) -> io::Result<Run> {
        let program = self.ebpf.program(name).ok_or_else(missing)?;
        let program = program.fd().map_err(io::Error::other)?;
        bpf::run(program.as_fd(), frame, times)
    }
}

fn action(answer: i32) -> io::Result<Action> {
    // linux/pkt_cls.h
    match answer {
        -1 => Ok(Action::Unspecified),
        2 => Ok(Action::Drop),
        7 => Ok(Action::Redirect),
        other => Err(io::Error::other(format!("action {other}"))),
    }
}

fn drivers_action(answer: i32) -> io::Result<Action> {
    // linux/bpf.h, enum xdp_action
    match answer {
        2 => Ok(Action::Unspecified),
        4 => Ok(Action::Redirect),
        other => Err(io::Error::other(format!("action {other} of XDP"))),
    }
}

/// The program for drivers.
fn frames(ebpf: &mut Ebpf) -> io::Result<&mut Xdp> {
    let program = ebpf.program_mut(FRAMES).ok_or_else(missing)?;
    program.try_into().map_err(io::Error::other)
}

/// Raises that a device does not send out what the program of another one has rewritten.
fn check_driver(device: &str) -> io::Result<()> {
    let number = device_number(device).map_err(|error| named(device, &error))?;
    match driver::sends_frames(number) {
        Ok(true) => Ok(()),
        Ok(false) => Err(named(device, &"it sends out no frames of other devices (XDP)")),
        Err(error) => Err(named(device, &error)),
    }
}

/// Why a driver does not take the program.
fn refused(error: ProgramError) -> io::Error {
    match error {
        ProgramError::SyscallError(error) => match error.io_error.raw_os_error() {
            Some(libc::EOPNOTSUPP) => io::Error::other("its driver has no XDP"),
            Some(libc::EBUSY) => io::Error::other("it has another program of XDP"),
            Some(libc::ERANGE) => io::Error::other("its MTU is too large for XDP"),
            _ => error.io_error,
        },
        other => io::Error::other(other),
    }
}

fn named(device: &str, error: &dyn fmt::Display) -> io::Error {
    io::Error::other(format!("device {device:?}: {error}"))
}

fn missing() -> io::Error {
    io::Error::other("the compiled program lacks a part")
}

fn frame(packet: &[u8]) -> Vec<u8> {
    let version = packet.first().map(|byte| byte >> 4);
    let kind = if version == Some(6) { IPV6 } else { IPV4 };
    [&[0; ETHERNET - 2][..], &kind, packet].concat()
}
