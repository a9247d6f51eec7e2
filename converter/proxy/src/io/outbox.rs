//! Small writes that leave one behind the other, once all tasks of the thread that were ready have had their turn. Each finds
//! the kernel's code in the caches, and a peer on another processor is woken once for many of them: with many clients a
//! request takes less processor time, the peers' included.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Poll, Waker};

use tokio::net::TcpStream;
use tokio::task::spawn_local;

use crate::kernel::sockets;

/// More bytes do not wait: to copy them takes longer than that saves.
pub const SMALL: usize = 4 << 10;

thread_local! {
    static OUTBOX: RefCell<Outbox> = const { RefCell::new(Outbox::new()) };
}

struct Outbox {
    writes: Vec<Rc<Write>>,
    /// Whether a task has written since [`send_all`] last ran.
    is_used: bool,
    /// Of [`send_all`].
    sender: Option<Waker>,
}

impl Outbox {
    const fn new() -> Self {
        Self {
            writes: Vec::new(),
            is_used: false,
            sender: None,
        }
    }
}

/// A write that waits, or has been done. Once this is dropped, nothing is written.
pub struct DeferredWrite(Rc<Write>);

struct Write {
    to: Rc<TcpStream>,
    bytes: RefCell<Vec<u8>>,
    result: RefCell<Option<io::Result<usize>>>,
    /// Whether to wake who waits also when all bytes were sent.
    wakes: bool,
    waker: Cell<Option<Waker>>,
}

impl DeferredWrite {
    /// Defers a write. `None` for the first one since the last were sent, which need not wait for others: a client that is
    /// alone loses no time. `wakes`: who waits for the result is woken also when all bytes were sent.
    pub fn of(to: &Rc<TcpStream>, bytes: &[u8], wakes: bool) -> Option<Self> {
        OUTBOX.with_borrow_mut(|outbox| {
            if !outbox.is_used {
                outbox.is_used = true;
                match &outbox.sender {
                    Some(sender) => sender.wake_by_ref(),
                    None => drop(spawn_local(send_all())),
                }
                return None;
            }
            let write = Rc::new(Write {
                to: Rc::clone(to),
                bytes: RefCell::new(bytes.to_vec()),
                result: RefCell::default(),
                wakes,
                waker: Cell::new(None),
            });
            outbox.writes.push(Rc::clone(&write));
            Some(Self(write))
        })
    }

    /// How many bytes were sent.
    pub fn sent(&self) -> usize {
        self.0.sent()
    }

    /// Whether all bytes were sent.
    pub fn is_sent(&self) -> bool {
        self.0.is_sent()
    }

    /// The result and the bytes, once it was done; until then `waker` is kept, to be woken.
    pub fn done(&self, waker: &Waker) -> Option<(io::Result<usize>, Vec<u8>)> {
        let result = self.0.result.take();
        if result.is_none() {
            self.0.waker.set(Some(waker.clone()));
        }
        Some((result?, self.0.bytes.take()))
    }
}

impl Drop for DeferredWrite {
    fn drop(&mut self) {
        self.0.bytes.take();
    }
}

impl Write {
    fn sent(&self) -> usize {
        self.result
            .borrow()
            .as_ref()
            .map_or(0, |result| *result.as_ref().unwrap_or(&0))
    }

    fn is_sent(&self) -> bool {
        self.sent() == self.bytes.borrow().len()
    }

    fn send(&self) {
        if self.bytes.borrow().is_empty() {
            return;
        }
        self.result
            .replace(Some(sockets::write(&self.to, &self.bytes.borrow())));
        if let Some(waker) = self.waker.take()
            && (self.wakes || !self.is_sent())
        {
            waker.wake();
        }
    }
}

/// Sends what was deferred, each time that it is woken: behind all tasks that were ready by then.
async fn send_all() {
    let _forget = Forget;
    poll_fn(|cx| {
        OUTBOX.with_borrow_mut(|outbox| {
            outbox.is_used = false;
            outbox.sender.get_or_insert_with(|| cx.waker().clone());
            outbox.writes.drain(..).for_each(|write| write.send());
        });
        Poll::<()>::Pending
    })
    .await;
}

/// Empties the outbox with its event loop: the thread's next one, as in tests, begins with a task of its own.
struct Forget;

impl Drop for Forget {
    fn drop(&mut self) {
        OUTBOX.set(Outbox::new());
    }
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read};
    use std::net::TcpStream as Peer;
    use std::sync::atomic::AtomicU64;

    use super::super::buffers::{Budget, BufferedWriter};
    use super::super::loopback;
    use super::*;

    /// Bytes that have come to `peer`; `None` if none have.
    fn came(peer: &mut Peer) -> Option<Vec<u8>> {
        peer.set_nonblocking(true).expect("a socket");
        let mut bytes = [0; 16];
        match peer.read(&mut bytes) {
            Ok(count) => Some(bytes[..count].to_vec()),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                None
            }
        }
    }

    #[test]
    fn the_first_of_a_turn_leaves_at_once_and_the_others_behind_the_tasks_that_are_ready() {
        let (budget, counter) = (Budget::new(1 << 30), AtomicU64::new(0));
        loopback::block_on(async {
            for turn in 0..2 {
                let [(mut first, one), (mut second, two), (mut third, three)] = [(); 3].map(|()| loopback::pair());
                let near = [one, two, three].map(|near| Rc::new(near.into_tokio()));
                let mut writers = near.each_ref().map(|to| BufferedWriter::new(to, &budget, &counter));
                for to in &near {
                    to.writable().await.expect("room");
                }
                for (writer, to) in writers.iter_mut().zip(&near) {
                    writer.write_soon(to, b"few bytes", true).expect("open");
                }
                let [ahead, mut behind, dropped] = writers;
                assert_eq!(
                    (ahead.is_flushed(), came(&mut first)),
                    (true, Some(b"few bytes".to_vec())),
                    "turn {turn}"
                );
                assert_eq!((behind.is_flushed(), came(&mut second)), (false, None), "turn {turn}");
                drop(dropped);
                tokio::task::yield_now().await;
                // Also before it is asked to flush: a server that is silent is not waited for longer.
                assert_eq!((behind.moved(), behind.is_flushed()), (9, true), "turn {turn}");
                poll_fn(|cx| behind.poll_flush(cx)).await.expect("open");
                assert_eq!(
                    (behind.moved(), came(&mut second)),
                    (9, Some(b"few bytes".to_vec())),
                    "turn {turn}"
                );
                assert_eq!(came(&mut third), None, "turn {turn}");
            }
        });
    }

    #[test]
    fn what_a_full_peer_leaves_follows_and_a_peer_that_has_reset_is_an_error() {
        let (budget, counter) = (Budget::new(1 << 30), AtomicU64::new(0));
        loopback::block_on(async {
            let (_first, one) = loopback::pair();
            let (mut slow, two) = loopback::pair();
            let (gone, three) = loopback::pair();
            let near = [one, two, three].map(|near| Rc::new(near.into_tokio()));
            near[1].writable().await.expect("room");
            let mut filled = 0;
            while let Ok(count) = sockets::write(&near[1], &[1; 1 << 14]) {
                filled += count;
            }
            near[2].writable().await.expect("room");
            sockets::reset_on_close(&gone);
            drop(gone);
            let mut writers = near.each_ref().map(|to| BufferedWriter::new(to, &budget, &counter));
            for (writer, to) in writers.iter_mut().zip(&near) {
                writer.write_soon(to, b"few bytes", false).expect("open");
            }
            let [_, mut to_slow, mut to_gone] = writers;
            poll_fn(|cx| to_gone.poll_flush(cx)).await.expect_err("a reset");
            assert_eq!((to_gone.is_flushed(), to_slow.moved()), (true, 0));
            let read = std::thread::spawn(move || {
                let mut all = vec![0; filled + 9];
                slow.read_exact(&mut all).map(|()| all)
            });
            poll_fn(|cx| to_slow.poll_flush(cx)).await.expect("open");
            assert!(
                read.join()
                    .expect("a reader")
                    .expect("all of it")
                    .ends_with(b"\x01few bytes")
            );
            assert_eq!(budget.used(), 0);
        });
    }
}
