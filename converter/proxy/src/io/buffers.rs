//! Memory for relayed bytes. Each thread has one buffer to move bytes with; what a slow reader does not take is copied to
//! memory of just that size, and counted.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use tokio::net::TcpStream;

use super::outbox::{DeferredWrite, SMALL};
use crate::kernel::sockets;

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Calls `action` with this thread's buffer, of `size` bytes or more. Not to be nested.
pub fn with_scratch<T>(size: usize, action: impl FnOnce(&mut [u8]) -> T) -> T {
    SCRATCH.with_borrow_mut(|buffer| {
        if buffer.len() < size {
            buffer.resize(size, 0);
        }
        action(buffer)
    })
}

/// Bytes that are read at a time for a peer that takes little, and for all while the budget is spent.
pub const LITTLE: usize = 16 << 10;

/// Counts bytes that are kept, and limits them.
#[derive(Debug)]
pub struct Budget {
    used: AtomicUsize,
    most: AtomicUsize,
    /// The budget that this is a share of, where its bytes count, too.
    whole: Option<Arc<Budget>>,
}

impl Budget {
    pub fn new(most: usize) -> Self {
        Self {
            used: AtomicUsize::new(0),
            most: AtomicUsize::new(most),
            whole: None,
        }
    }

    /// A share of `whole`, of at most so many bytes.
    pub fn share(whole: &Arc<Self>, most: usize) -> Self {
        Self {
            whole: Some(Arc::clone(whole)),
            ..Self::new(most)
        }
    }

    /// Sets the limit; bytes that are kept already stay.
    pub fn set(&self, most: usize) {
        self.most.store(most, Ordering::Relaxed);
    }

    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Counts `now` bytes in place of `before`.
    pub fn adjust(&self, before: usize, now: usize) {
        if now > before {
            self.used.fetch_add(now - before, Ordering::Relaxed);
        } else if now < before {
            self.used.fetch_sub(before - now, Ordering::Relaxed);
        }
        if let Some(whole) = &self.whole {
            whole.adjust(before, now);
        }
    }

    /// Whether the limit is reached: new work is refused, and old work reads little at a time.
    pub fn is_exhausted(&self) -> bool {
        let is_own = self.used() >= self.most.load(Ordering::Relaxed);
        is_own || self.whole.as_ref().is_some_and(|whole| whole.is_exhausted())
    }
}

/// What one connection may hold of the budget, and moves at a time.
#[derive(Clone, Copy, Debug)]
pub struct Memory<'a> {
    /// For bytes that a slow reader leaves.
    pub budget: &'a Budget,
    /// Bytes moved at a time.
    pub buffer: usize,
}

impl Memory<'_> {
    /// How much to read at a time for this reader. What it does not take of it is kept for it.
    pub fn read_size(&self, sink: &BufferedWriter<'_>) -> usize {
        if self.budget.is_exhausted() {
            LITTLE.min(self.buffer)
        } else {
            self.buffer.min(sink.room())
        }
    }
}

/// Bytes that the peer has not taken yet.
#[derive(Debug)]
pub struct WriteBacklog<'a> {
    bytes: Vec<u8>,
    taken: usize,
    budget: &'a Budget,
}

impl<'a> WriteBacklog<'a> {
    /// An empty backlog, which takes no memory.
    pub fn new(budget: &'a Budget) -> Self {
        Self {
            bytes: Vec::new(),
            taken: 0,
            budget,
        }
    }

    /// Keeps `bytes`. The backlog must be empty.
    pub fn queue(&mut self, bytes: Vec<u8>) {
        debug_assert!(self.is_empty(), "the earlier bytes come first");
        self.release();
        self.bytes = bytes;
        self.budget.adjust(0, self.bytes.len());
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }

    /// Whether the peer has taken everything.
    pub fn is_empty(&self) -> bool {
        self.taken == self.bytes.len()
    }

    /// Removes `count` bytes that the peer took; frees the memory once it is empty.
    pub fn take(&mut self, count: usize) {
        self.taken += count;
        if self.is_empty() {
            self.release();
        }
    }

    pub fn discard(&mut self) {
        self.release();
    }

    fn release(&mut self) {
        self.budget.adjust(self.bytes.len(), 0);
        self.bytes = Vec::new();
        self.taken = 0;
    }
}

impl Drop for WriteBacklog<'_> {
    fn drop(&mut self) {
        self.release();
    }
}

pub struct BufferedWriter<'a> {
    to: &'a TcpStream,
    backlog: WriteBacklog<'a>,
    deferred: Option<DeferredWrite>,
    moved: u64,
    counter: &'a AtomicU64,
    /// Bytes of frames' headers that the peer has not taken yet: they are nobody's.
    headers: usize,
    room: usize,
}

impl<'a> BufferedWriter<'a> {
    /// Writes to `to`. `counter` counts the bytes that it takes, `budget` those that wait.
    pub fn new(to: &'a TcpStream, budget: &'a Budget, counter: &'a AtomicU64) -> Self {
        Self {
            to,
            backlog: WriteBacklog::new(budget),
            deferred: None,
            moved: 0,
            counter,
            headers: 0,
            room: usize::MAX,
        }
    }

    /// How much to offer next, so that little of it is kept: what the peer took when it last took less than it was offered,
    /// and twice that each time that it takes all.
    pub fn room(&self) -> usize {
        self.room
    }

    /// Bytes that the peer has taken.
    pub fn moved(&self) -> u64 {
        self.moved + self.deferred.as_ref().map_or(0, DeferredWrite::sent) as u64
    }

    /// Whether the peer has taken everything.
    pub fn is_flushed(&self) -> bool {
        self.backlog.is_empty() && self.deferred.as_ref().is_none_or(DeferredWrite::is_sent)
    }

    /// Writes as much as the peer takes now, and keeps the rest. The backlog must be empty.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        debug_assert!(
            self.deferred.is_none() && self.is_flushed(),
            "the earlier bytes come first"
        );
        let mut rest = bytes;
        while !rest.is_empty() {
            match sockets::write(self.to, rest) {
                Ok(count) => {
                    self.count(count);
                    rest = &rest[count..];
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        if rest.is_empty() {
            self.room = self.room.saturating_mul(2);
        } else {
            self.room = LITTLE.max(bytes.len() - rest.len());
            self.backlog.queue(rest.to_vec());
        }
        Ok(())
    }

    /// The same, but few bytes leave together with those of others, by [`super::outbox`]. `to` is the same connection.
    /// `wakes`: who waits in [`Self::poll_flush`] is woken also when the peer took everything.
    pub fn write_soon(&mut self, to: &Rc<TcpStream>, bytes: &[u8], wakes: bool) -> io::Result<()> {
        if (1..=SMALL).contains(&bytes.len()) {
            self.deferred = DeferredWrite::of(to, bytes, wakes);
            if self.deferred.is_some() {
                return Ok(());
            }
        }
        self.write(bytes)
    }

    /// What is written next begins with a frame's header of so many bytes, which do not count.
    pub fn begin_frame(&mut self, header: usize) {
        self.headers += header;
    }

    /// Keeps `bytes` for the next flush. The backlog must be empty.
    pub fn queue(&mut self, bytes: Vec<u8>) {
        self.backlog.queue(bytes);
    }

    /// Ready when the peer has taken everything.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(deferred) = &self.deferred {
            let Some((result, mut bytes)) = deferred.done(cx.waker()) else {
                return Poll::Pending;
            };
            self.deferred = None;
            match result {
                Ok(count) => {
                    self.count(count);
                    bytes.drain(..count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
            if !bytes.is_empty() {
                self.backlog.queue(bytes);
            }
        }
        while !self.backlog.is_empty() {
            ready!(self.to.poll_write_ready(cx))?;
            match sockets::write(self.to, self.backlog.bytes()) {
                Ok(count) => {
                    self.backlog.take(count);
                    self.count(count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(()))
    }

    pub fn discard(&mut self) {
        self.deferred = None;
        self.backlog.discard();
    }

    fn count(&mut self, count: usize) {
        self.moved += count as u64;
        let of_headers = count.min(self.headers);
        self.headers -= of_headers;
        let content = (count - of_headers) as u64;
        self.counter.fetch_add(content, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsFd;

    use super::*;
    use crate::io::loopback;

    #[test]
    fn a_peer_is_offered_what_it_took_and_then_twice_that() {
        loopback::block_on(async {
            let (mut peer, near) = loopback::pair();
            let (budget, counter) = (Budget::new(1 << 30), AtomicU64::new(0));
            let near = near.into_tokio();
            rustix::net::sockopt::set_socket_send_buffer_size(near.as_fd(), 1 << 16).expect("set");
            let mut writer = BufferedWriter::new(&near, &budget, &counter);
            assert_eq!(writer.room(), usize::MAX);
            near.writable().await.expect("room");
            writer.write(&vec![1; 64 << 20]).expect("a part of it");
            let taken = usize::try_from(writer.moved()).expect("little");
            assert!(LITTLE < taken && taken < 64 << 20);
            assert_eq!(writer.room(), taken);
            writer.discard();
            peer.read_exact(&mut vec![0; taken]).expect("all of that");
            near.writable().await.expect("room again");
            writer.write(&[1]).expect("all of it");
            assert_eq!(writer.room(), 2 * taken);
        });
    }

    #[test]
    fn a_share_is_spent_by_itself_and_with_the_whole() {
        let whole = Arc::new(Budget::new(10));
        let (one, other) = (Budget::share(&whole, 4), Budget::share(&whole, 8));
        let spent = || [&whole, &one, &other].map(|budget: &Budget| budget.is_exhausted());
        one.adjust(0, 4);
        assert_eq!(spent(), [false, true, false]);
        other.adjust(0, 6);
        assert_eq!(spent(), [true, true, true]);
        one.adjust(4, 0);
        assert_eq!((spent(), whole.used()), ([false, false, false], 6));
    }

    #[test]
    fn what_is_kept_is_counted_until_it_was_taken() {
        let budget = Budget::new(10);
        let mut backlog = WriteBacklog::new(&budget);
        backlog.queue(vec![1; 10]);
        assert!(budget.is_exhausted());
        backlog.take(4);
        assert_eq!((backlog.bytes().len(), budget.used()), (6, 10));
        backlog.take(6);
        assert_eq!(budget.used(), 0);
        backlog.queue(vec![2; 3]);
        drop(backlog);
        assert_eq!(budget.used(), 0);
    }
}
