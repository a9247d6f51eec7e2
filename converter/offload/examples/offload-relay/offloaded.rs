//! Connections that were offloaded.

use std::io;
use std::net::TcpStream;
use std::os::fd::AsFd as _;
use std::sync::{Mutex, MutexGuard};
use std::thread::sleep;
use std::time::Duration;

use serde_json::json;
use tributary_offload::{Checkpoint, Connection, Limits, OffloadError, Translator};

const LIMITS: Limits = Limits {
    closed: Duration::from_secs(5),
    idle: Duration::from_secs(300),
};
const LOOK: Duration = Duration::from_millis(100);

/// All of them, and the kernel's part.
pub struct OffloadedConnections {
    devices: [u32; 2],
    state: Mutex<State>,
}

struct State {
    translator: Translator,
    connections: Vec<Offloaded>,
}

struct Offloaded {
    connection: Connection,
    relayed: u64,
    /// In repair mode. As long as they exist, no other connection has their addresses and ports.
    _sockets: [TcpStream; 2],
}

impl OffloadedConnections {
    /// None yet, between these two devices, which have these `numbers`.
    pub fn new(devices: [&str; 2], numbers: [u32; 2]) -> io::Result<Self> {
        let mut translator = Translator::load()?;
        for device in devices {
            translator.attach(device)?;
        }
        Ok(Self {
            devices: numbers,
            state: Mutex::new(State {
                translator,
                connections: vec![],
            }),
        })
    }

    /// One more, with its sockets in repair mode, which has passed so many bytes so far. If it cannot be, it gives the sockets
    /// back, and they go on.
    pub fn add(
        &self,
        sockets: [TcpStream; 2],
        checkpoints: &[Checkpoint; 2],
        relayed: u64,
    ) -> Result<(), (OffloadError, [TcpStream; 2])> {
        let mut state = self.lock();
        let both = sockets.each_ref().map(TcpStream::as_fd);
        match Connection::take_over(&state.translator, both, checkpoints, self.devices) {
            Ok(connection) => {
                state.connections.push(Offloaded {
                    connection,
                    relayed,
                    _sockets: sockets,
                });
                Ok(())
            }
            Err(error) => {
                for (checkpoint, socket) in checkpoints.iter().zip(&sockets) {
                    // One that cannot go on is seen by who reads it.
                    let _ = checkpoint.release(socket);
                }
                Err((error, sockets))
            }
        }
    }

    /// Takes those out that are over, until the process ends.
    pub fn watch(&self) {
        loop {
            sleep(LOOK);
            let connections = &mut self.lock().connections;
            connections.retain(|offloaded| goes_on(offloaded).unwrap_or(false));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics")
    }
}

/// Whether it is not over; if it is, tells what it was.
fn goes_on(offloaded: &Offloaded) -> io::Result<bool> {
    let Some(seen) = offloaded.connection.over(&LIMITS)? else {
        return Ok(true);
    };
    let [translated, refused] = [
        seen[0].bytes + seen[1].bytes,
        u64::from(seen[0].refused + seen[1].refused),
    ];
    println!(
        "{}",
        json!({"relayed": offloaded.relayed, "translated": translated, "refused": refused})
    );
    Ok(false)
}
