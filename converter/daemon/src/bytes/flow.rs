//! One direction of a connection: reads what its writer sent, and writes it to its reader.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use tokio::net::TcpStream;
use tributary_wire::http::BodyReader;

use crate::bytes::buffers::{Unsent, with_scratch};
use crate::bytes::context::RelayContext;
use crate::kernel::sockets;

/// So often a flow may fill its buffer before others have their turn.
const TURNS: usize = 8;
/// Bytes taken at a time while the budget for slow readers is spent.
const LITTLE: usize = 16 << 10;

/// Where a flow stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowState {
    /// It waits for bytes.
    Open,
    /// It waits for its reader to take what it has.
    Clogged,
    /// Its writer ended, its reader was given all, and knows of the end.
    Ended,
    /// Its writer broke off.
    WriterBroke,
    /// Its reader broke off.
    ReaderBroke,
    /// What its writer sent is no content as the message's head announced it.
    Malformed,
    /// Nothing moved for too long.
    Silent,
}

impl FlowState {
    /// Whether its reader has all that it will get, and the other direction may go on.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Ended | Self::ReaderBroke)
    }
}

/// The content of one message among others on a connection.
pub struct MessageBody<'a> {
    /// Knows where it ends.
    pub reader: &'a mut BodyReader,
    /// Gets what follows its end.
    pub rest: &'a mut Vec<u8>,
    /// Whether its reader knows no chunks, and gets what is in them.
    pub decode: bool,
}

/// One direction.
pub struct Flow<'a> {
    from: &'a TcpStream,
    to: &'a TcpStream,
    unsent: Unsent<'a>,
    /// All until the end of the connection, without one.
    body: Option<MessageBody<'a>>,
    over: Option<FlowState>,
    writer_is_dead: bool,
    moved: u64,
    counter: &'a AtomicU64,
    context: &'a RelayContext<'a>,
}

impl<'a> Flow<'a> {
    /// All that comes; `early` came already.
    pub fn new(
        from: &'a TcpStream,
        to: &'a TcpStream,
        context: &'a RelayContext<'a>,
        counter: &'a AtomicU64,
        early: &[u8],
    ) -> Self {
        let mut unsent = Unsent::none(context.budget);
        unsent.keep(early);
        Self {
            from,
            to,
            unsent,
            body: None,
            over: None,
            writer_is_dead: false,
            moved: 0,
            counter,
            context,
        }
    }

    /// One message's body. What is whole with its early part, or malformed, is over at once only when that was passed.
    pub fn of_message(
        from: &'a TcpStream,
        to: &'a TcpStream,
        early: &[u8],
        body: MessageBody<'a>,
        context: &'a RelayContext<'a>,
        counter: &'a AtomicU64,
    ) -> Result<Self, FlowState> {
        let mut flow = Self::new(from, to, context, counter, &[]);
        flow.body = Some(body);
        match flow.pass(early) {
            Ok(()) => Ok(flow),
            Err(over) => Err(over),
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
        self.moved
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
            Poll::Pending if self.unsent.is_empty() => FlowState::Open,
            Poll::Pending => FlowState::Clogged,
        }
    }

    fn poll_moving(&mut self, cx: &mut Context<'_>) -> Poll<FlowState> {
        for _ in 0..TURNS {
            if ready!(self.poll_flush(cx)).is_err() {
                return Poll::Ready(FlowState::ReaderBroke);
            }
            if self
                .body
                .as_ref()
                .is_some_and(|body| body.reader.has_ended())
            {
                return Poll::Ready(FlowState::Ended);
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

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.unsent.is_empty() {
            ready!(self.to.poll_write_ready(cx))?;
            match self.to.try_write(self.unsent.bytes()) {
                Ok(count) => {
                    self.unsent.take(count);
                    self.count(count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Reads once, and writes what it read as far as the reader takes it at once.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, FlowState>> {
        let size = if self.context.budget.is_spent() {
            LITTLE.min(self.context.buffer)
        } else {
            self.context.buffer
        };
        loop {
            ready!(self.from.poll_read_ready(cx)).map_err(|_| FlowState::WriterBroke)?;
            let read: io::Result<_> = with_scratch(size, |scratch| {
                let count = sockets::read(self.from, &mut scratch[..size])?;
                Ok(self.pass(&scratch[..count]).map(|()| count))
            });
            match read {
                Ok(passed) => return Poll::Ready(passed),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return Poll::Ready(Err(FlowState::WriterBroke)),
            }
        }
    }

    fn pass(&mut self, bytes: &[u8]) -> Result<(), FlowState> {
        match &mut self.body {
            None => self.write(bytes),
            Some(body) if body.decode => {
                let data = decoded(body, bytes)?;
                self.write(&data)
            }
            Some(body) => {
                let used = body
                    .reader
                    .advance(bytes)
                    .map_err(|_| FlowState::Malformed)?;
                body.rest.extend_from_slice(&bytes[used..]);
                self.write(&bytes[..used])
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), FlowState> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.to.try_write(rest) {
                Ok(count) => {
                    self.count(count);
                    rest = &rest[count..];
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => return Err(FlowState::ReaderBroke),
            }
        }
        if !rest.is_empty() {
            self.unsent.keep(rest);
        }
        Ok(())
    }

    fn count(&mut self, count: usize) {
        self.moved += count as u64;
        self.counter.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// The writer ended. Where that is the end of what it says, the reader shall see it; a message's content is either
    /// whole now, and the connection lives on, or was cut short.
    fn end(&self) -> FlowState {
        match &self.body {
            _ if self.writer_is_dead => FlowState::WriterBroke,
            None if sockets::end_writing(self.to).is_ok() => FlowState::Ended,
            None => FlowState::ReaderBroke,
            Some(body) if body.reader.ends_with_the_connection() => FlowState::Ended,
            Some(_) => FlowState::WriterBroke,
        }
    }
}

/// The content without its chunks.
fn decoded(body: &mut MessageBody<'_>, bytes: &[u8]) -> Result<Vec<u8>, FlowState> {
    let mut data = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() && !body.reader.has_ended() {
        let step = body
            .reader
            .step(&bytes[at..])
            .map_err(|_| FlowState::Malformed)?;
        data.extend_from_slice(&bytes[at + step.data.start..at + step.data.end]);
        at += step.used;
    }
    body.rest.extend_from_slice(&bytes[at..]);
    Ok(data)
}
