//! A socket at which the delays of a running link are changed: each datagram has both, such as `10ms,20ms`.

use std::fs;
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::spec::delays;

/// Longer than any that is accepted.
const MOST: usize = 64;

/// The socket, and its file for as long as this is there.
pub struct Control {
    pub socket: UnixDatagram,
    path: PathBuf,
}

impl Control {
    /// Raises what bind(2) does.
    pub fn open(path: &Path) -> io::Result<Self> {
        let control = Self {
            socket: UnixDatagram::bind(path)?,
            path: path.to_owned(),
        };
        control.socket.set_nonblocking(true)?;
        Ok(control)
    }

    /// The delays that one datagram asks for, of both directions.
    pub fn receive(&self) -> Result<[Duration; 2], String> {
        let mut buffer = [0; MOST];
        let length = self.socket.recv(&mut buffer);
        let length = length.map_err(|error| format!("reading the control socket: {error}"))?;
        delays(&String::from_utf8_lossy(&buffer[..length]))
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // Who took it away before has done no harm.
        let _ = fs::remove_file(&self.path);
    }
}
