//! Connections that are reset when they are dropped before their end, so that no peer takes a part for the whole.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io;
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::unconstrained;
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use tributary_sys::unacknowledged;

use super::buffers::with_scratch;
use crate::kernel::sockets;

/// What a peer still sends behind its last response is read for so long since its last byte, and so long in all (nginx's
/// `lingering_timeout` and `lingering_time`).
const LINGER: Duration = Duration::from_secs(5);
const LINGER_IN_ALL: Duration = Duration::from_secs(30);
const PIECE: usize = 16 << 10;
/// Between two looks at what a peer has acknowledged: of none of it the kernel tells.
const ACK_POLL: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(100));

/// A connection that is reset when dropped, unless it was disarmed.
#[derive(Debug)]
pub struct ResetOnDrop {
    tcp: Rc<TcpStream>,
    disarmed: bool,
    /// Of whoever waits for something that this connection needs: one at a time.
    pub timer: RefCell<Deadline>,
}

impl ResetOnDrop {
    pub fn new(tcp: TcpStream) -> Self {
        Self {
            tcp: Rc::new(tcp),
            disarmed: false,
            timer: RefCell::default(),
        }
    }

    /// For a write that may wait longer than this.
    pub fn shared(&self) -> &Rc<TcpStream> {
        &self.tcp
    }

    /// From now on dropping it closes it in an orderly way.
    pub fn disarm(&mut self) {
        self.disarmed = true;
    }

    /// Waits for bytes, until the deadline if there is one, and adds what came to `inbox`; 0 at the end. No memory is
    /// taken while it waits. One caller at a time.
    pub async fn read_more(&self, inbox: &mut Vec<u8>, most: usize, deadline: Option<Instant>) -> io::Result<usize> {
        poll_fn(|cx| {
            loop {
                if self.tcp.poll_read_ready(cx)?.is_pending() {
                    let late =
                        deadline.is_some_and(|deadline| self.timer.borrow_mut().poll_until(cx, deadline).is_ready());
                    return if late {
                        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
                    } else {
                        Poll::Pending
                    };
                }
                match self.read_now(inbox, most) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    other => return Poll::Ready(other),
                }
            }
        })
        .await
    }

    fn read_now(&self, inbox: &mut Vec<u8>, most: usize) -> io::Result<usize> {
        with_scratch(most, |scratch| {
            let count = sockets::read(&self.tcp, &mut scratch[..most])?;
            inbox.extend_from_slice(&scratch[..count]);
            Ok(count)
        })
    }

    pub async fn send(&self, bytes: &[u8], deadline: Option<Instant>) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match sockets::write(&self.tcp, rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.by(deadline, self.tcp.writable()).await?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Sends `last` and ends. What the peer still sends is read for a while: to close at once would reset the connection,
    /// and the reset could overtake `last` (RFC 9112 section 9.6, RFC 8803 section 6.2.2).
    pub async fn send_and_linger(&mut self, last: &[u8]) {
        let end = Instant::now() + LINGER_IN_ALL;
        if self.send(last, Some(end)).await.is_err() || sockets::end_writing(&self.tcp).is_err() {
            return;
        }
        self.disarm();
        loop {
            let ignored = poll_fn(|cx| poll_read(&self.tcp, cx, PIECE, <[u8]>::len));
            let deadline = end.min(Instant::now() + LINGER);
            match self.by(Some(deadline), ignored).await {
                Ok(count) if count > 0 => {}
                _ => return,
            }
        }
    }

    /// Does `action`, until the deadline: `None` then. By this connection's own timer, which takes less than to set another.
    pub async fn until<T>(&self, deadline: Instant, mut action: Pin<&mut impl Future<Output = T>>) -> Option<T> {
        poll_fn(|cx| match action.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => self.timer.borrow_mut().poll_until(cx, deadline).map(|()| None),
        })
        .await
    }

    async fn by<T>(&self, deadline: Option<Instant>, action: impl Future<Output = io::Result<T>>) -> io::Result<T> {
        match deadline {
            Some(deadline) => self
                .until(deadline, pin!(action))
                .await
                .ok_or(io::ErrorKind::TimedOut)?,
            None => action.await,
        }
    }

    /// From now on dropping it resets it again.
    pub fn rearm(&mut self) {
        self.disarmed = false;
    }

    /// Whether the peer has neither sent anything nor ended, as far as the event loop knows: a kept connection that can
    /// be used again.
    pub fn is_quiet(&self) -> bool {
        let read = self.tcp.try_read(&mut [0; 1]);
        read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// The same as the kernel knows at this moment: what the event loop has not heard of yet is no answer to what is asked next.
    pub fn is_silent(&self) -> bool {
        let socket = socket2::SockRef::from(&self.tcp);
        let peeked = socket.recv_with_flags(&mut [MaybeUninit::uninit()], libc::MSG_PEEK | libc::MSG_DONTWAIT);
        peeked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Ready once it is no longer quiet.
    pub fn poll_disturbed(&self, cx: &mut Context<'_>) -> Poll<()> {
        while ready!(self.tcp.poll_read_ready(cx)).is_ok() && self.is_quiet() {}
        Poll::Ready(())
    }
}

impl Deref for ResetOnDrop {
    type Target = TcpStream;

    fn deref(&self) -> &TcpStream {
        &self.tcp
    }
}

impl Drop for ResetOnDrop {
    fn drop(&mut self) {
        if !self.disarmed {
            sockets::reset_on_close(&self.tcp);
        }
    }
}

/// Reads once, `size` bytes at the most, and gives `action` what came: nothing, at the end.
pub fn poll_read<T>(
    from: &TcpStream,
    cx: &mut Context<'_>,
    size: usize,
    mut action: impl FnMut(&[u8]) -> T,
) -> Poll<io::Result<T>> {
    poll_read_behind(from, cx, 0, size, |bytes| action(bytes))
}

/// The same, with `room` bytes before what came, and all of it for `action` to write to.
pub fn poll_read_behind<T>(
    from: &TcpStream,
    cx: &mut Context<'_>,
    room: usize,
    size: usize,
    mut action: impl FnMut(&mut [u8]) -> T,
) -> Poll<io::Result<T>> {
    loop {
        ready!(from.poll_read_ready(cx))?;
        let read = with_scratch(room + size, |scratch| {
            let count = sockets::read(from, &mut scratch[room..room + size])?;
            Ok(action(&mut scratch[..room + count]))
        });
        match read {
            Err(error) if io::Error::kind(&error) == io::ErrorKind::WouldBlock => {}
            read => return Poll::Ready(read),
        }
    }
}

/// Waits until the peer has acknowledged all that was written, is gone, or has acknowledged nothing for `most`: a reset
/// discards what it has not.
pub async fn acknowledged(stream: &TcpStream, most: Duration) {
    let begun = Instant::now();
    let (mut left, mut moved) = (u32::MAX, begun);
    loop {
        match unacknowledged(stream) {
            Ok(0) | Err(_) => return,
            Ok(now) if now < left => (left, moved) = (now, Instant::now()),
            // The count of a dead connection does not change.
            Ok(_) if moved.elapsed() >= most || stream.peer_addr().is_err() => return,
            Ok(_) => {}
        }
        sleep((begun.elapsed() / 16).clamp(ACK_POLL.0, ACK_POLL.1)).await;
    }
}

/// Takes no memory before it is first used.
#[derive(Debug, Default)]
pub struct Deadline {
    sleep: Option<Pin<Box<Sleep>>>,
    /// Of the task that it wakes.
    waker: Option<Waker>,
}

impl Deadline {
    /// Ready at `deadline`, which may be another one at each call.
    pub fn poll_until(&mut self, cx: &mut Context<'_>, deadline: Instant) -> Poll<()> {
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if sleep.deadline() > deadline {
            sleep.as_mut().reset(deadline);
        } else if !sleep.is_elapsed() && wakes(self.waker.as_ref(), cx) {
            return Poll::Pending;
        }
        // Whatever else this task did in its turn: a timer that was not asked for that reason would wake nobody.
        while pin!(unconstrained(sleep.as_mut())).poll(cx).is_ready() {
            if Instant::now() >= deadline {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(deadline);
        }
        self.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

/// Whether what has this waker will wake the task: it need not be asked again before it does.
pub fn wakes(waker: Option<&Waker>, cx: &Context<'_>) -> bool {
    waker.is_some_and(|waker| waker.will_wake(cx.waker()))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::Shutdown;
    use std::thread;

    use tokio::task::consume_budget;
    use tokio::time::timeout_at;

    use super::*;
    use crate::io::loopback;

    fn read_all(mut peer: std::net::TcpStream) -> thread::JoinHandle<io::Result<Vec<u8>>> {
        thread::spawn(move || {
            let mut all = Vec::new();
            peer.read_to_end(&mut all).map(|_| all)
        })
    }

    #[test]
    fn a_stream_that_is_dropped_resets_and_one_that_was_disarmed_ends() {
        loopback::block_on(async {
            for (disarmed, resumed) in [(false, false), (true, false), (true, true)] {
                let (peer, near) = loopback::pair();
                let mut stream = ResetOnDrop::new(near.into_tokio());
                stream.send(b"part", None).await.expect("taken");
                if disarmed {
                    stream.disarm();
                }
                if resumed {
                    stream.rearm();
                }
                drop(stream);
                let read = read_all(peer).join().expect("a reader");
                assert_eq!(read.is_ok(), disarmed && !resumed);
            }
        });
    }

    /// The peer goes on sending, and reads late: a close with bytes unread would have reset the connection.
    #[test]
    fn last_words_arrive_though_the_peer_goes_on_sending() {
        loopback::block_on(async {
            let (peer, near) = loopback::pair();
            let mut stream = ResetOnDrop::new(near.into_tokio());
            let talking = thread::spawn(move || {
                let mut peer = peer;
                for _ in 0..20 {
                    peer.write_all(&vec![7; 1 << 16]).expect("still taken");
                    thread::sleep(Duration::from_millis(10));
                }
                peer.shutdown(Shutdown::Write).expect("open");
                read_all(peer).join().expect("a reader")
            });
            stream.send_and_linger(b"the last words").await;
            let heard = talking.join().expect("a peer").expect("an end in order");
            assert_eq!(heard, b"the last words");
        });
    }

    #[test]
    fn a_read_waits_until_its_deadline() {
        loopback::block_on(async {
            let (mut peer, near) = loopback::pair();
            let stream = ResetOnDrop::new(near.into_tokio());
            let mut inbox = b"kept ".to_vec();
            let soon = Some(Instant::now() + Duration::from_millis(20));
            let late = stream.read_more(&mut inbox, 9, soon).await;
            assert_eq!(late.expect_err("late").kind(), io::ErrorKind::TimedOut);
            peer.write_all(b"came").expect("taken");
            assert_eq!(stream.read_more(&mut inbox, 9, None).await.expect("read"), 4);
            assert_eq!(inbox, b"kept came");
            drop(peer);
            assert_eq!(stream.read_more(&mut inbox, 9, None).await.expect("end"), 0);
        });
    }

    #[test]
    fn a_kept_connection_is_quiet_until_something_comes() {
        loopback::block_on(async {
            let (mut peer, near) = loopback::pair();
            let stream = ResetOnDrop::new(near.into_tokio());
            let mut inbox = Vec::new();
            peer.write_all(b"answer").expect("taken");
            stream.read_more(&mut inbox, 6, None).await.expect("read");
            let disturbed = |cx: &mut Context<'_>| Poll::Ready(stream.poll_disturbed(cx));
            assert!(poll_fn(disturbed).await.is_pending());
            assert!(stream.is_quiet());
            peer.write_all(b"x").expect("taken");
            poll_fn(|cx| stream.poll_disturbed(cx)).await;
            drop(peer);
            poll_fn(|cx| stream.poll_disturbed(cx)).await;
            assert!(!stream.is_quiet());
        });
    }

    #[tokio::test(start_paused = true)]
    async fn it_goes_off_at_the_deadline_of_the_last_call() {
        let mut timer = Deadline::default();
        let start = Instant::now();
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        for (before, deadline) in [(50, 20), (10, 90), (5, 100)] {
            let first = poll_fn(|cx| Poll::Ready(timer.poll_until(cx, at(before + 100)))).await;
            assert!(first.is_pending());
            poll_fn(|cx| timer.poll_until(cx, at(deadline))).await;
            assert_eq!(start.elapsed(), Duration::from_millis(deadline));
        }
    }
    #[tokio::test(start_paused = true)]
    async fn it_goes_off_for_a_task_that_did_all_it_may_in_its_turn() {
        let mut timer = Deadline::default();
        let deadline = Instant::now() + Duration::from_millis(20);
        poll_fn(|cx| {
            while pin!(consume_budget()).poll(cx).is_ready() {}
            assert!(timer.poll_until(cx, deadline).is_pending());
            Poll::Ready(())
        })
        .await;
        let waited = poll_fn(|cx| timer.poll_until(cx, deadline));
        timeout_at(deadline + Duration::from_secs(1), waited)
            .await
            .expect("it was asked for once");
    }
}
