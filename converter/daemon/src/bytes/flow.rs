//! One direction of a connection: reads what its writer sent, and writes it to its reader.

use std::sync::atomic::AtomicU64;
use std::task::{Context, Poll, ready};

use tokio::net::TcpStream;

use super::context::RelayContext;
use super::outlet::Outlet;
use super::reading::poll_read;
use crate::kernel::sockets;

/// So often a flow may fill its buffer before others have their turn.
pub const TURNS: usize = 8;

/// Where a flow stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowState {
    /// It waits for bytes.
    Open,
    /// It waits for its reader to take what it has.
    Clogged,
    /// Its writer ended, its reader was given all, and knows of the end.
    Eof,
    /// Its writer broke off.
    WriterBroke,
    /// Its reader broke off.
    ReaderBroke,
}

impl FlowState {
    /// Whether its reader has all that it will get, and the other direction may go on.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Eof | Self::ReaderBroke)
    }
}

/// One direction.
pub struct Flow<'a> {
    from: &'a TcpStream,
    to: &'a TcpStream,
    outlet: Outlet<'a>,
    over: Option<FlowState>,
    writer_is_dead: bool,
    context: &'a RelayContext<'a>,
}

impl<'a> Flow<'a> {
    /// All that comes; `early` came already.
    pub fn new(
        from: &'a TcpStream,
        to: &'a TcpStream,
        context: &'a RelayContext<'a>,
        counter: &'a AtomicU64,
        early: Vec<u8>,
    ) -> Self {
        let mut outlet = Outlet::new(to, context.budget, counter);
        outlet.keep(early);
        Self {
            from,
            to,
            outlet,
            over: None,
            writer_is_dead: false,
            context,
        }
    }

    /// Where the bytes come from.
    pub fn writer(&self) -> &'a TcpStream {
        self.from
    }

    /// A write to the writer failed, which took the error that a read would have told: the end of what it sent is no
    /// end in order.
    pub fn writer_is_dead(&mut self) {
        self.writer_is_dead = true;
    }

    /// Bytes that reached the reader.
    pub fn moved(&self) -> u64 {
        self.outlet.moved()
    }

    /// Moves what can be moved now.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> FlowState {
        if let Some(over) = self.over {
            return over;
        }
        match self.poll_moving(cx) {
            Poll::Ready(over) => {
                self.over = Some(over);
                over
            }
            Poll::Pending if self.outlet.is_flushed() => FlowState::Open,
            Poll::Pending => FlowState::Clogged,
        }
    }

    fn poll_moving(&mut self, cx: &mut Context<'_>) -> Poll<FlowState> {
        for _ in 0..TURNS {
            if ready!(self.outlet.poll_flush(cx)).is_err() {
                return Poll::Ready(FlowState::ReaderBroke);
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

    /// Reads once, and writes what it read as far as the reader takes it at once.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, FlowState>> {
        let (from, outlet) = (self.from, &mut self.outlet);
        let read = poll_read(from, cx, self.context.read_size(), |bytes| {
            outlet.write(bytes).map(|()| bytes.len())
        });
        read.map(|read| match read {
            Ok(passed) => passed.map_err(|_| FlowState::ReaderBroke),
            Err(_) => Err(FlowState::WriterBroke),
        })
    }

    /// The writer ended; the reader shall see it.
    fn end(&self) -> FlowState {
        if self.writer_is_dead {
            FlowState::WriterBroke
        } else if sockets::end_writing(self.to).is_ok() {
            FlowState::Eof
        } else {
            FlowState::ReaderBroke
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

    /// A flow whose reader stalls holds what it has read once, no more, and takes nothing else from its writer.
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
            let mut flow = Flow::new(&near, &far, &context, &counter, b"early ".to_vec());
            writer.set_nonblocking(true).expect("a socket");
            let mut sent = 0;
            while let Ok(count) = writer.write(&vec![7; 1 << 16]) {
                sent += count;
                for _ in 0..3 {
                    poll_fn(|cx| Poll::Ready(flow.poll(cx))).await;
                    tokio::task::yield_now().await;
                }
                assert!(budget.used() <= 64 << 10, "{}", budget.used());
            }
            assert_eq!(
                poll_fn(|cx| Poll::Ready(flow.poll(cx))).await,
                FlowState::Clogged
            );
            writer.shutdown(Shutdown::Write).expect("open");
            let read = std::thread::spawn(move || {
                let mut all = Vec::new();
                reader.read_to_end(&mut all).expect("an end in order");
                all
            });
            let over = poll_fn(|cx| match flow.poll(cx) {
                FlowState::Open | FlowState::Clogged => Poll::Pending,
                over => Poll::Ready(over),
            });
            assert_eq!(over.await, FlowState::Eof);
            let all = read.join().expect("a reader");
            assert!(all.starts_with(b"early \x07"));
            assert_eq!(all.len(), 6 + sent);
            assert_eq!(flow.moved(), all.len() as u64);
        });
        assert_eq!(budget.used(), 0);
    }
}
