//! What one end says, on its way to the other one.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};

const MOST: usize = 256 << 10;
/// So often it is read at a time. Two ends that are faster than the relay would keep it from all else until they are done.
const READS: u32 = 8;

/// Bytes that were read from one socket, and those of them that the other one has not taken yet.
pub struct Direction {
    buffer: Vec<u8>,
    from: usize,
    to: usize,
    /// Bytes that were written in all.
    pub passed: u64,
    /// Whether its writer has said all.
    pub ended: bool,
}

impl Direction {
    pub fn new() -> Self {
        Self {
            buffer: vec![0; MOST],
            from: 0,
            to: 0,
            passed: 0,
            ended: false,
        }
    }

    /// Whether nothing waits here to be written.
    pub fn is_empty(&self) -> bool {
        self.from == self.to
    }

    /// Bytes that wait here to be written.
    pub fn waiting(&self) -> u32 {
        u32::try_from(self.to - self.from).unwrap_or(u32::MAX)
    }

    /// Moves what can be moved without waiting, as far as some reads go.
    pub fn pump(&mut self, mut reader: &TcpStream, mut writer: &TcpStream) -> io::Result<()> {
        for _ in 0..READS {
            while !self.is_empty() {
                match writer.write(&self.buffer[self.from..self.to]) {
                    Ok(count) => {
                        self.from += count;
                        self.passed += count as u64;
                    }
                    other => return if_not_now(other),
                }
            }
            if self.ended {
                return Ok(());
            }
            match reader.read(&mut self.buffer) {
                Ok(0) => {
                    self.ended = true;
                    return writer.shutdown(Shutdown::Write);
                }
                Ok(count) => (self.from, self.to) = (0, count),
                other => return if_not_now(other),
            }
        }
        Ok(())
    }
}

fn if_not_now(result: io::Result<usize>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
        _ => Ok(()),
    }
}
