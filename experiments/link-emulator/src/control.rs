//! A socket at which the delays of a running link are changed: each datagram has both, such as `10ms,20ms`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tokio::net::UnixDatagram;

use crate::link::Running;
use crate::spec::delays;

/// Longer than any that is accepted.
const MOST: usize = 64;

/// The socket, and its file for as long as this is there.
pub struct Control {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Control {
    /// Raises what bind(2) does.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            socket: UnixDatagram::bind(path)?,
            path: path.to_owned(),
        })
    }

    /// Does what it is told, until the process ends; what it cannot do it says on standard error.
    pub async fn serve(&self, directions: [&Running; 2]) -> io::Result<()> {
        let mut buffer = [0; MOST];
        loop {
            let length = self.socket.recv(&mut buffer).await?;
            let text = String::from_utf8_lossy(&buffer[..length]);
            match delays(&text) {
                Ok(both) => {
                    for (direction, delay) in directions.into_iter().zip(both) {
                        if let Err(error) = direction.set_delay(delay) {
                            eprintln!("link-emulator: {error}");
                        }
                    }
                }
                Err(error) => eprintln!("link-emulator: {error}"),
            }
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // Who took it away before has done no harm.
        let _ = fs::remove_file(&self.path);
    }
}
