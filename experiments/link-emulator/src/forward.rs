//! Carries frames from one socket to the other, both ways, in one thread: with two a frame cost 1.2 to 1.7 times as much
//! processor time, and the delay was no better kept.

use std::io;
use std::os::fd::AsFd;
use std::time::Instant;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::signalfd::SignalFd;
use nix::sys::time::TimeSpec;

use crate::control::Control;
use crate::link::Direction;
use crate::packet::{PacketSocket, ReceiveBuffer};

/// Frames read before others are sent that have to leave, lest a flood keeps these waiting.
const READ_BATCH: usize = 32;

/// One direction, and where its frames come from and go to.
pub struct Path<'a> {
    pub from: &'a PacketSocket,
    pub to: &'a PacketSocket,
    pub direction: Direction,
}

/// Forwards until one of the signals comes.
pub fn forward(paths: &mut [Path; 2], control: Option<&Control>, signals: &SignalFd) -> io::Result<()> {
    let mut buffer = ReceiveBuffer::new();
    loop {
        let [here, there, control_ready, ended] = wait(paths, control, signals)?;
        if ended {
            return Ok(());
        }
        for (path, ready) in paths.iter_mut().zip([here, there]) {
            path.send_what_is_due();
            if ready {
                path.read(&mut buffer)?;
            }
        }
        if let Some(control) = control.filter(|_| control_ready) {
            change_delays(paths, control);
        }
    }
}

/// Waits until a frame has to leave or something can be read: at either end, at the control socket, a signal.
fn wait(paths: &[Path; 2], control: Option<&Control>, signals: &SignalFd) -> io::Result<[bool; 4]> {
    let next = paths.iter().filter_map(|path| path.direction.next()).min();
    let left = next.map(|next| next.saturating_duration_since(Instant::now()));
    let readable = |fd| PollFd::new(fd, PollFlags::POLLIN);
    let mut all = [
        readable(paths[0].from.as_fd()),
        readable(paths[1].from.as_fd()),
        readable(signals.as_fd()),
        readable(control.map_or(signals.as_fd(), |control| control.socket.as_fd())),
    ];
    match ppoll(&mut all, left.map(TimeSpec::from_duration), None) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(error) => return Err(error.into()),
    }
    let [here, there, ended, control_ready] = all.map(|fd| fd.any().unwrap_or(true));
    Ok([here, there, control_ready, ended])
}

impl Path<'_> {
    fn send_what_is_due(&mut self) {
        let now = Instant::now();
        while let Some(frame) = self.direction.leave(now) {
            let counters = &mut self.direction.counters;
            match self.to.send(&frame) {
                Ok(()) => counters.delivered += 1,
                Err(_) => counters.send_failed += 1,
            }
        }
    }

    fn read(&mut self, buffer: &mut ReceiveBuffer) -> io::Result<()> {
        for _ in 0..READ_BATCH {
            match self.from.receive(buffer) {
                Ok(received) => self.direction.take(received.frame, received.arrival),
                Err(Errno::EAGAIN) => break,
                // The interface went down. Frames come again once it is up.
                Err(Errno::ENETDOWN) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// What cannot be done is said on standard error.
fn change_delays(paths: &mut [Path; 2], control: &Control) {
    let complain = |error| eprintln!("link-emulator: {error}");
    match control.receive() {
        Ok(both) => {
            for (path, delay) in paths.iter_mut().zip(both) {
                path.direction.set_delay(delay).unwrap_or_else(complain);
            }
        }
        Err(error) => complain(error),
    }
}
