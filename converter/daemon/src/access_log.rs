//! The access log: one JSON object a line, written by a thread of its own, so that a slow disk delays nobody.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread;

use serde::Serialize;

use crate::failure::Failure;

/// Lines that wait for the disk; more are dropped, and counted.
const WAITING: usize = 16_384;

/// Where the lines go; nowhere while no file is set.
#[derive(Debug, Default)]
pub struct AccessLog {
    sender: Mutex<Option<SyncSender<String>>>,
    dropped: AtomicU64,
}

impl AccessLog {
    /// From now on lines go to `path` (`-`: standard output), which is opened anew; to nowhere with `None`.
    pub fn open(&self, path: Option<&Path>) -> Result<(), Failure> {
        let sender = path.map(start_writer).transpose()?;
        *self.sender.lock().unwrap_or_else(PoisonError::into_inner) = sender;
        Ok(())
    }

    /// Writes one line, or counts it as dropped.
    pub fn write(&self, line: &impl Serialize) {
        let Some(sender) = self
            .sender
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
        else {
            return;
        };
        let sent = serde_json::to_string(line).is_ok_and(|text| sender.try_send(text).is_ok());
        if !sent {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Lines that the disk was too slow, or too full, for.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

fn start_writer(path: &Path) -> Result<SyncSender<String>, Failure> {
    let attempted = format!("access log {}", path.display());
    let out: Box<dyn Write + Send> = if path == Path::new("-") {
        Box::new(io::stdout())
    } else {
        let file = File::options().append(true).create(true).open(path);
        Box::new(file.map_err(|error| Failure::from_io(&attempted, &error))?)
    };
    let (sender, receiver) = sync_channel(WAITING);
    let path = path.to_owned();
    let writer = thread::Builder::new().name("access-log".into());
    writer
        .spawn(move || write_lines(BufWriter::new(out), &receiver, &path))
        .map_err(|error| Failure::from_io(&attempted, &error))?;
    Ok(sender)
}

/// Ends when the last sender is gone; what is written is flushed whenever nothing waits.
fn write_lines(mut out: BufWriter<Box<dyn Write + Send>>, lines: &Receiver<String>, path: &Path) {
    let mut failed = false;
    while let Ok(line) = lines.recv() {
        let written = write_waiting(&mut out, line, lines);
        match &written {
            Err(error) if !failed => {
                tracing::error!("access log {}: {error}; lines are lost", path.display());
            }
            _ => {}
        }
        failed = written.is_err();
    }
}

fn write_waiting(out: &mut impl Write, first: String, lines: &Receiver<String>) -> io::Result<()> {
    let mut next = Ok(first);
    while let Ok(line) = next {
        writeln!(out, "{line}")?;
        next = lines.try_recv();
        if next == Err(TryRecvError::Empty) {
            break;
        }
    }
    out.flush()
}
