//! The access log: one JSON object a line, written by a thread of its own, so that a slow disk delays nobody.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;
use tributary_program::Failure;

/// Lines that wait for the disk; more are dropped, and counted.
const WAITING: usize = 16_384;
/// Bytes of lines that are written at a time, if so many wait.
const BATCH: usize = 64 << 10;

/// Where the lines go; nowhere while no file is set.
#[derive(Debug, Default)]
pub struct AccessLog {
    open: AtomicBool,
    writer: Mutex<Option<Writer>>,
    dropped: Arc<AtomicU64>,
}

/// Where lines will go. To drop it closes it, without a line in it.
#[derive(Debug)]
#[must_use]
pub struct OpenedLog(Option<Writer>);

/// The thread that writes lines to one file.
#[derive(Debug)]
struct Writer {
    lines: SyncSender<String>,
    /// Breaks off when the thread ends.
    end: Receiver<()>,
}

impl AccessLog {
    /// Opens `path` (`-`: standard output) again, for lines to go there once it is taken; `None`: nowhere.
    pub fn open(&self, path: Option<&Path>) -> Result<OpenedLog, Failure> {
        let dropped = || Arc::clone(&self.dropped);
        let writer = path.map(|path| start_writer(path, dropped())).transpose()?;
        Ok(OpenedLog(writer))
    }

    /// From now on lines go to what was opened.
    pub fn take(&self, OpenedLog(writer): OpenedLog) {
        self.open.store(writer.is_some(), Ordering::Relaxed);
        *self.writer() = writer;
    }

    /// Waits until all lines are written, `most` at most; from now on they go nowhere. Whether they are.
    pub fn close(&self, most: Duration) -> bool {
        self.open.store(false, Ordering::Relaxed);
        let Some(Writer { lines, end }) = self.writer().take() else {
            return true;
        };
        drop(lines);
        end.recv_timeout(most) == Err(RecvTimeoutError::Disconnected)
    }

    fn writer(&self) -> MutexGuard<'_, Option<Writer>> {
        self.writer.lock()
    }

    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }

    /// Writes one line, or counts it as dropped.
    pub fn write(&self, line: &impl Serialize) {
        let Some(sender) = self.writer().as_ref().map(|writer| writer.lines.clone()) else {
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

fn start_writer(path: &Path, dropped: Arc<AtomicU64>) -> Result<Writer, Failure> {
    let attempted = format!("access log {}", path.display());
    let out: Box<dyn Write + Send> = if path == Path::new("-") {
        Box::new(io::stdout())
    } else {
        let file = File::options().append(true).create(true).open(path);
        Box::new(file.map_err(|error| Failure::from_io(&attempted, &error))?)
    };
    let (sender, receiver) = sync_channel(WAITING);
    let (ends, end) = sync_channel(0);
    let path = path.to_owned();
    let writer = thread::Builder::new().name("access-log".into());
    writer
        .spawn(move || {
            write_lines(Lines::to(out), &receiver, &path, &dropped);
            drop(ends);
        })
        .map_err(|error| Failure::from_io(&attempted, &error))?;
    Ok(Writer { lines: sender, end })
}

/// Ends when the last sender is gone.
fn write_lines(mut out: Lines, lines: &Receiver<String>, path: &Path, dropped: &AtomicU64) {
    let mut failed = false;
    while let Ok(first) = lines.recv() {
        match out.write(&batch(first, lines)) {
            Ok(()) => failed = false,
            Err((error, lost)) => {
                dropped.fetch_add(lost, Ordering::Relaxed);
                if !failed {
                    tracing::error!("access log {}: {error}; lines are lost", path.display());
                }
                failed = true;
            }
        }
    }
}

/// What waits to be written, each line with its end.
fn batch(first: String, lines: &Receiver<String>) -> Vec<u8> {
    let mut batch = (first + "\n").into_bytes();
    while batch.len() < BATCH {
        let Ok(line) = lines.try_recv() else { break };
        batch.extend_from_slice(line.as_bytes());
        batch.push(b'\n');
    }
    batch
}

/// Whole lines, even on a disk that is full now and then: the rest of a line that was cut off is written before any other.
struct Lines {
    out: Box<dyn Write + Send>,
    rest: Vec<u8>,
}

impl Lines {
    fn to(out: Box<dyn Write + Send>) -> Self {
        Self { out, rest: Vec::new() }
    }

    /// Writes `batch`; on an error also says how many of its lines are lost.
    fn write(&mut self, batch: &[u8]) -> Result<(), (io::Error, u64)> {
        let is_cut = !self.rest.is_empty();
        let mut waiting = std::mem::take(&mut self.rest);
        waiting.extend_from_slice(batch);
        let (written, result) = write_most(&mut self.out, &waiting);
        let Err(error) = result else { return Ok(()) };
        let cut = match written {
            0 => is_cut,
            _ => waiting[written - 1] != b'\n',
        };
        let (begun, lost) = if cut {
            waiting[written..].split_at(line_length(&waiting[written..]))
        } else {
            (&[][..], &waiting[written..])
        };
        self.rest = begun.to_vec();
        Err((error, lost.split_inclusive(|&byte| byte == b'\n').count() as u64))
    }
}

fn line_length(bytes: &[u8]) -> usize {
    let end = bytes.iter().position(|&byte| byte == b'\n');
    end.map_or(bytes.len(), |end| end + 1)
}

/// Writes as much as it can; returns how much that was.
fn write_most(out: &mut impl Write, bytes: &[u8]) -> (usize, io::Result<()>) {
    let mut written = 0;
    while written < bytes.len() {
        match out.write(&bytes[written..]) {
            Ok(0) => return (written, Err(ErrorKind::WriteZero.into())),
            Ok(count) => written += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return (written, Err(error)),
        }
    }
    (written, out.flush())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk with so much room left, and what is on it.
    #[derive(Clone, Default)]
    struct Disk(Arc<Mutex<(usize, Vec<u8>)>>);

    impl Disk {
        fn has_room_for(&self, more: usize) {
            self.0.lock().0 = more;
        }

        fn text(&self) -> String {
            String::from_utf8(self.0.lock().1.clone()).expect("text")
        }
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut disk = self.0.lock();
            let count = bytes.len().min(disk.0);
            if count == 0 {
                return Err(ErrorKind::StorageFull.into());
            }
            disk.0 -= count;
            disk.1.extend_from_slice(&bytes[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_go_where_they_went_until_what_was_opened_is_taken() {
        let directory = std::env::temp_dir().join(format!("access-log-{}", std::process::id()));
        std::fs::create_dir(&directory).expect("a folder");
        let [one, other] = ["one", "other"].map(|name| directory.join(name));
        let log = AccessLog::default();
        log.take(log.open(Some(&one)).expect("a file"));
        drop(log.open(Some(&other)).expect("a file"));
        log.write(&1);
        assert!(log.close(Duration::from_secs(10)));
        let text = |path| std::fs::read_to_string(path).expect("a file");
        assert_eq!((text(one), text(other)), ("1\n".into(), String::new()));
        std::fs::remove_dir_all(directory).expect("ours");
    }

    #[test]
    fn lines_that_a_full_disk_has_no_room_for_are_counted_and_none_is_left_cut_off() {
        for room in 0..12 {
            let disk = Disk::default();
            let mut lines = Lines::to(Box::new(disk.clone()));
            disk.has_room_for(room);
            let mut lost = lines.write(b"one\ntwo\nsix\n").expect_err("full").1;
            lost += lines.write(b"ten\n").expect_err("full").1;
            disk.has_room_for(100);
            lines.write(b"last\n").expect("room");
            let text = disk.text();
            let whole = &["one", "two", "six"][..3.min(text.lines().count() - 1)];
            assert_eq!(text.lines().collect::<Vec<_>>(), [whole, &["last"]].concat());
            assert_eq!(whole.len() as u64 + lost, 4, "{room}");
        }
    }
}
