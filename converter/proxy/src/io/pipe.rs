//! One direction of a relay.

use std::io;
use std::sync::atomic::AtomicU64;
use std::task::{Context, Poll, ready};

use tokio::net::TcpStream;
use tributary_proto::convert::{BadFrame, END, FRAME_HEADER, FrameReader, MAX_FRAME, READY, frame_header};

use super::buffers::{BufferedWriter, Memory};
use super::stream::poll_read_behind;
use crate::kernel::sockets;

/// How often a pipe may fill its buffer before others have their turn.
pub const TURNS: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PipeState {
    /// It waits for bytes.
    Open,
    /// Its sink has not taken everything yet.
    Blocked,
    /// Its source ended, and its sink has been given all data and the end.
    Eof,
    SourceReset,
    SinkReset,
}

impl PipeState {
    /// Whether its sink gets nothing more, while the other direction may go on.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Eof | Self::SinkReset)
    }
}

/// What came from one peer of a relay before it.
#[derive(Debug, Default)]
pub struct Early {
    /// Content that is not passed on yet.
    pub bytes: Vec<u8>,
    /// Where the peer's frames are, if both directions carry frames.
    pub frames: Option<FrameReader>,
    /// What came behind the peer's last frame.
    pub trailer: Vec<u8>,
}

impl From<Vec<u8>> for Early {
    fn from(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            ..Self::default()
        }
    }
}

impl Early {
    /// Of frames that came with a message, and of a trailer of so many bytes at most.
    pub fn in_frames(mut bytes: Vec<u8>, most_trailer: usize) -> Result<Self, BadFrame> {
        let mut frames = FrameReader::default();
        let (content, end) = frames.unwrap(&mut bytes)?;
        let trailer = bytes.split_off(end);
        if trailer.len() > most_trailer {
            return Err(BadFrame);
        }
        bytes.truncate(content);
        Ok(Self {
            bytes,
            frames: Some(frames),
            trailer,
        })
    }
}

pub struct Side<'a> {
    pub stream: &'a TcpStream,
    /// What came from it before.
    pub early: Early,
}

pub struct Pipe<'a> {
    from: &'a TcpStream,
    to: &'a TcpStream,
    sink: BufferedWriter<'a>,
    /// The source's frames, if it sends frames; what came behind the last one, and how much of that may come.
    frames: Option<FrameReader>,
    trailer: Vec<u8>,
    most_trailer: usize,
    /// Whether the sink is to get frames.
    to_frames: bool,
    /// Whether the sink has been given the last frame.
    is_ending: bool,
    over: Option<PipeState>,
    /// What the pipe in the other direction has come to.
    other: PipeState,
    memory: Memory<'a>,
}

/// The two pipes between a client and a server: up and down. `up` and `down` count bytes.
pub fn pipes<'a>(
    client: Side<'a>,
    server: Side<'a>,
    memory: Memory<'a>,
    [up, down]: [&'a AtomicU64; 2],
) -> [Pipe<'a>; 2] {
    let ends = [&client, &server].map(|side| (side.stream, side.early.frames.is_some()));
    [
        // A client waits for our READY before it says more.
        Pipe::new(client, ends[1], memory, up, 0),
        Pipe::new(server, ends[0], memory, down, READY.len()),
    ]
}

impl<'a> Pipe<'a> {
    fn new(
        from: Side<'a>,
        (to, to_frames): (&'a TcpStream, bool),
        memory: Memory<'a>,
        counter: &'a AtomicU64,
        most_trailer: usize,
    ) -> Self {
        let mut sink = BufferedWriter::new(to, memory.budget, counter);
        let Early { bytes, frames, trailer } = from.early;
        if to_frames && !bytes.is_empty() {
            sink.begin_frame(FRAME_HEADER);
            sink.queue([&frame_header(bytes.len())[..], &bytes].concat());
        } else {
            sink.queue(bytes);
        }
        Self {
            from: from.stream,
            to,
            sink,
            frames,
            trailer,
            most_trailer,
            to_frames,
            is_ending: false,
            over: None,
            other: PipeState::Open,
            memory,
        }
    }

    pub fn source(&self) -> &'a TcpStream {
        self.from
    }

    pub fn sink(&self) -> &'a TcpStream {
        self.to
    }

    /// Whether the sink has taken all that was read.
    pub fn is_flushed(&self) -> bool {
        self.sink.is_flushed()
    }

    /// What came behind the source's last frame.
    pub fn into_trailer(self) -> Vec<u8> {
        self.trailer
    }

    /// The pipe in the other direction has come to this.
    pub fn take_note(&mut self, other: PipeState) {
        self.other = other;
    }

    pub fn moved(&self) -> u64 {
        self.sink.moved()
    }

    /// Moves what can be moved now.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> PipeState {
        if let Some(over) = self.over {
            return over;
        }
        match self.poll_moving(cx) {
            Poll::Ready(over) => {
                self.over = Some(over);
                over
            }
            Poll::Pending if self.sink.is_flushed() => PipeState::Open,
            Poll::Pending => PipeState::Blocked,
        }
    }

    fn poll_moving(&mut self, cx: &mut Context<'_>) -> Poll<PipeState> {
        for _ in 0..TURNS {
            if ready!(self.sink.poll_flush(cx)).is_err() {
                return Poll::Ready(PipeState::SinkReset);
            }
            if self.is_ending {
                return Poll::Ready(PipeState::Eof);
            }
            if !self.frames.as_ref().is_some_and(FrameReader::has_ended) {
                match ready!(self.poll_read(cx)) {
                    Ok(0) if self.frames.is_some() => return Poll::Ready(PipeState::SourceReset),
                    Ok(0) => {}
                    Ok(_) => continue,
                    Err(over) => return Poll::Ready(over),
                }
            }
            if let Some(over) = self.end() {
                return Poll::Ready(over);
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Reads once, and writes as much as the sink takes at once. Returns how many bytes came.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, PipeState>> {
        let (from, sink) = (self.from, &mut self.sink);
        let (frames, trailer) = (&mut self.frames, &mut self.trailer);
        let most_trailer = self.most_trailer;
        let size = self.memory.read_size(sink).min(MAX_FRAME);
        let room = if self.to_frames { FRAME_HEADER } else { 0 };
        let read = poll_read_behind(from, cx, room, size, |bytes| {
            let came = bytes.len() - room;
            let mut content = came;
            if let Some(frames) = frames {
                let read = frames.unwrap(&mut bytes[room..]);
                let (length, end) = read.map_err(|BadFrame| PipeState::SourceReset)?;
                let behind = &bytes[room + end..];
                if trailer.len() + behind.len() > most_trailer {
                    return Err(PipeState::SourceReset);
                }
                trailer.extend_from_slice(behind);
                content = length;
            }
            if content > 0 {
                if room > 0 {
                    bytes[..room].copy_from_slice(&frame_header(content));
                    sink.begin_frame(room);
                }
                sink.write(&bytes[..room + content])
                    .map_err(|_: io::Error| PipeState::SinkReset)?;
            }
            Ok(came)
        });
        read.map(|read| read.unwrap_or(Err(PipeState::SourceReset)))
    }

    /// The source ended: ends the sink, too. `None`: the last frame is on its way.
    fn end(&mut self) -> Option<PipeState> {
        // That write to our source consumed the error that a read would have returned: the end of its data is no orderly end.
        if self.other == PipeState::SinkReset {
            return Some(PipeState::SourceReset);
        }
        if self.to_frames {
            self.sink.begin_frame(FRAME_HEADER);
            self.is_ending = true;
            return self.sink.write(&END).err().map(|_| PipeState::SinkReset);
        }
        // Where the other direction has ended as well both connections are closed now, which tells the sink.
        let is_told = self.other == PipeState::Eof && !sockets::is_broken(self.to);
        let ended = is_told || sockets::end_writing(self.to).is_ok();
        Some(if ended { PipeState::Eof } else { PipeState::SinkReset })
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::{Read, Write};
    use std::net::Shutdown;
    use std::time::Duration;

    use super::*;
    use crate::io::buffers::Budget;
    use crate::io::loopback;

    /// A pipe whose sink stalls holds no more than it has read once.
    #[test]
    fn a_stalled_reader_stops_its_writer() {
        let (budget, counter) = (Budget::new(1 << 30), AtomicU64::default());
        loopback::block_on(async {
            let (mut writer, near) = loopback::pair();
            let (mut reader, far) = loopback::pair();
            let (near, far) = (near.into_tokio(), far.into_tokio());
            let memory = Memory {
                budget: &budget,
                buffer: 64 << 10,
            };
            let writer_side = Side {
                stream: &near,
                early: b"early ".to_vec().into(),
            };
            let mut pipe = Pipe::new(writer_side, (&far, false), memory, &counter, 0);
            writer.set_nonblocking(true).expect("a socket");
            let mut sent = 0;
            while let Ok(count) = writer.write(&vec![7; 1 << 16]) {
                sent += count;
                for _ in 0..3 {
                    poll_fn(|cx| Poll::Ready(pipe.poll(cx))).await;
                    tokio::task::yield_now().await;
                }
                assert!(budget.used() <= 64 << 10, "{}", budget.used());
            }
            assert_eq!(poll_fn(|cx| Poll::Ready(pipe.poll(cx))).await, PipeState::Blocked);
            writer.shutdown(Shutdown::Write).expect("open");
            let read = std::thread::spawn(move || {
                let mut all = Vec::new();
                reader.read_to_end(&mut all).expect("an end in order");
                all
            });
            let over = poll_fn(|cx| match pipe.poll(cx) {
                PipeState::Open | PipeState::Blocked => Poll::Pending,
                over => Poll::Ready(over),
            });
            assert_eq!(over.await, PipeState::Eof);
            let all = read.join().expect("a reader");
            assert!(all.starts_with(b"early \x07"));
            assert_eq!(all.len(), 6 + sent);
            assert_eq!(pipe.moved(), all.len() as u64);
        });
        assert_eq!(budget.used(), 0);
    }
    #[test]
    fn the_last_way_leaves_the_end_of_its_sink_to_the_close_unless_that_was_reset() {
        let (budget, counter) = (Budget::new(1 << 30), AtomicU64::default());
        let memory = Memory {
            budget: &budget,
            buffer: 64 << 10,
        };
        for is_reset in [false, true] {
            loopback::block_on(async {
                let ((client, near), (mut server, far)) = (loopback::pair(), loopback::pair());
                let (near, far) = (near.into_tokio(), far.into_tokio());
                let source = Side {
                    stream: &near,
                    early: Early::default(),
                };
                let mut pipe = Pipe::new(source, (&far, false), memory, &counter, 0);
                pipe.take_note(PipeState::Eof);
                server.set_nonblocking(true).expect("a socket");
                if is_reset {
                    sockets::reset_on_close(&server);
                    server = loopback::pair().0;
                }
                client.shutdown(Shutdown::Write).expect("open");
                tokio::time::sleep(Duration::from_millis(20)).await;
                let over = poll_fn(|cx| match pipe.poll(cx) {
                    PipeState::Open | PipeState::Blocked => Poll::Pending,
                    over => Poll::Ready(over),
                });
                let over = over.await;
                if is_reset {
                    assert_eq!(over, PipeState::SinkReset);
                } else {
                    assert_eq!(over, PipeState::Eof);
                    let read = server.read(&mut [0]).expect_err("no end yet");
                    assert_eq!(read.kind(), io::ErrorKind::WouldBlock);
                }
            });
        }
    }
}
