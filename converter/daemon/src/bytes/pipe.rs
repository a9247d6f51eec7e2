//! One direction of a connection: reads from its source and writes to its sink.

use std::sync::atomic::AtomicU64;
use std::task::{Context, Poll, ready};

use tokio::net::TcpStream;

use super::buffered_writer::BufferedWriter;
use super::context::RelayContext;
use super::reading::poll_read;
use crate::kernel::sockets;

/// How often a pipe may fill its buffer before others have their turn.
pub const TURNS: usize = 8;

/// The state of a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PipeState {
    /// It waits for bytes.
    Open,
    /// Its sink has not taken everything yet.
    Blocked,
    /// Its source ended, and its sink has been given all data and the end.
    Eof,
    /// Its source was reset.
    SourceReset,
    /// Its sink was reset.
    SinkReset,
}

impl PipeState {
    /// Whether its sink gets nothing more, while the other direction may go on.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Eof | Self::SinkReset)
    }
}

/// One direction.
pub struct Pipe<'a> {
    from: &'a TcpStream,
    to: &'a TcpStream,
    sink: BufferedWriter<'a>,
    over: Option<PipeState>,
    source_is_dead: bool,
    context: &'a RelayContext<'a>,
}

impl<'a> Pipe<'a> {
    /// Makes a pipe; `early` was read from the source before.
    pub fn new(
        from: &'a TcpStream,
        to: &'a TcpStream,
        context: &'a RelayContext<'a>,
        counter: &'a AtomicU64,
        early: Vec<u8>,
    ) -> Self {
        let mut sink = BufferedWriter::new(to, context.budget, counter);
        sink.queue(early);
        Self {
            from,
            to,
            sink,
            over: None,
            source_is_dead: false,
            context,
        }
    }

    /// The socket that bytes are read from.
    pub fn source(&self) -> &'a TcpStream {
        self.from
    }

    /// A write to the source failed and consumed the error that a read would have returned: the end of its data is no
    /// orderly end.
    pub fn mark_source_dead(&mut self) {
        self.source_is_dead = true;
    }

    /// Bytes that reached the sink.
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
            match ready!(self.poll_read(cx)) {
                Ok(0) => return Poll::Ready(self.end()),
                Ok(_) => {}
                Err(over) => return Poll::Ready(over),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Reads once, and writes as much as the sink takes at once.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, PipeState>> {
        let (from, sink) = (self.from, &mut self.sink);
        let read = poll_read(from, cx, self.context.read_size(), |bytes| {
            sink.write(bytes).map(|()| bytes.len())
        });
        read.map(|read| match read {
            Ok(passed) => passed.map_err(|_| PipeState::SinkReset),
            Err(_) => Err(PipeState::SourceReset),
        })
    }

    /// The source ended: ends the sink, too.
    fn end(&self) -> PipeState {
        if self.source_is_dead {
            PipeState::SourceReset
        } else if sockets::end_writing(self.to).is_ok() {
            PipeState::Eof
        } else {
            PipeState::SinkReset
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::{Read, Write};
    use std::net::Shutdown;
    use std::time::Duration;

    use super::*;
    use crate::bytes::buffers::Budget;
    use crate::bytes::loopback;

    /// A pipe whose sink stalls holds no more than it has read once.
    #[test]
    fn a_stalled_reader_stops_its_writer() {
        let (budget, counter, other) = (
            Budget::new(1 << 30),
            AtomicU64::default(),
            AtomicU64::default(),
        );
        loopback::block_on(async {
            let (mut writer, near) = loopback::pair();
            let (mut reader, far) = loopback::pair();
            let (near, far) = (near.into_tokio(), far.into_tokio());
            let context = RelayContext {
                budget: &budget,
                buffer: 64 << 10,
                idle: Duration::MAX,
                half_closed: Duration::MAX,
                up: &counter,
                down: &other,
            };
            let mut pipe = Pipe::new(&near, &far, &context, &counter, b"early ".to_vec());
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
            assert_eq!(
                poll_fn(|cx| Poll::Ready(pipe.poll(cx))).await,
                PipeState::Blocked
            );
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
}
