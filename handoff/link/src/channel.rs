//! Messages over one standing connection, for as long as both ends are alive.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use handoff_protocol::{Message, What, parse};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, split};
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;

/// Who has nothing to say says so, so often.
const BEAT: Duration = Duration::from_millis(100);
/// An end that was silent for so long is gone: its clients are to hear of it within a second. Of that second a front takes
/// some milliseconds to end the rule and provoke the client; 0.2 s are for two more attempts, should packets be lost. On
/// the other side a busy machine with few processors stalls for 0.3 s now and then: twice that between two beats is no
/// end yet.
const SILENCE: Duration = Duration::from_millis(700);
/// Messages that wait to be sent; with more the other end does not take them, and counts as gone. A switch that is back hears
/// at once of all rules: 32768 that there are at most, and as many that have ended.
const QUEUE: usize = 1 << 17;
/// Room for what comes next.
const PIECE: usize = 16 << 10;
/// Messages are sent together up to this many bytes.
const BATCH: usize = 64 << 10;

/// Where messages for the other end go.
#[derive(Clone, Debug)]
pub struct Sender {
    queue: mpsc::Sender<Message>,
    overflow: Arc<Overflow>,
}

/// What was sent, for [`carry`].
#[derive(Debug)]
pub struct Outgoing {
    queue: mpsc::Receiver<Message>,
    overflow: Arc<Overflow>,
}

/// Whether a message found no room.
#[derive(Debug, Default)]
struct Overflow {
    has_come: AtomicBool,
    told: Notify,
}

/// Room for what waits to be sent by one connection.
pub fn queue() -> (Sender, Outgoing) {
    let (to, queue) = mpsc::channel(QUEUE);
    let overflow = Arc::<Overflow>::default();
    let sender = Sender {
        queue: to,
        overflow: Arc::clone(&overflow),
    };
    (sender, Outgoing { queue, overflow })
}

impl Sender {
    /// Whether the message is on its way. One for which there is no room breaks the connection, and none behind it is sent:
    /// an end that misses a message would go on from what is no longer so.
    pub fn send(&self, message: Message) -> bool {
        if self.overflow.has_come.load(Ordering::Acquire) {
            return false;
        }
        let sent = self.queue.try_send(message);
        if matches!(sent, Err(mpsc::error::TrySendError::Full(_))) {
            self.overflow.has_come.store(true, Ordering::Release);
            self.overflow.told.notify_one();
        }
        sent.is_ok()
    }

    /// Whether the connection has broken.
    pub fn is_closed(&self) -> bool {
        self.queue.is_closed()
    }
}

/// Sends what `outgoing` has and gives what comes to `take`, until the connection breaks, or the other end takes too little
/// of it; the end of `outgoing` ends it as well. Returns why.
pub async fn carry(
    stream: impl AsyncRead + AsyncWrite,
    outgoing: Outgoing,
    take: impl FnMut(Message),
) -> io::Error {
    let Outgoing { queue, overflow } = outgoing;
    let (reader, writer) = split(stream);
    tokio::select! {
        error = read(reader, take) => error,
        error = write(writer, queue) => error,
        () = overflow.told.notified() => {
            io::Error::other("the other end does not take what it is told")
        }
    }
}

async fn read(mut reader: impl AsyncRead + Unpin, mut take: impl FnMut(Message)) -> io::Error {
    let mut inbox = Vec::with_capacity(PIECE);
    loop {
        match timeout(SILENCE, reader.read_buf(&mut inbox)).await {
            Ok(Ok(0)) => return io::ErrorKind::UnexpectedEof.into(),
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return error,
            Err(_) => return io::ErrorKind::TimedOut.into(),
        }
        if let Err(error) = take_all(&mut inbox, &mut take) {
            return error;
        }
        inbox.reserve(PIECE);
    }
}

/// Takes the whole messages out of `inbox`.
fn take_all(inbox: &mut Vec<u8>, take: &mut impl FnMut(Message)) -> io::Result<()> {
    let mut used = 0;
    while let Some((message, length)) = parse(&inbox[used..]).map_err(io::Error::other)? {
        used += length;
        take(message);
    }
    inbox.drain(..used);
    Ok(())
}

async fn write(
    mut writer: impl AsyncWrite + Unpin,
    mut outgoing: mpsc::Receiver<Message>,
) -> io::Error {
    let mut bytes = Vec::new();
    loop {
        match timeout(BEAT, outgoing.recv()).await {
            Ok(Some(message)) => message.write(&mut bytes),
            Ok(None) => return io::ErrorKind::ConnectionAborted.into(),
            Err(_) => alive().write(&mut bytes),
        }
        while bytes.len() < BATCH {
            let Ok(message) = outgoing.try_recv() else {
                break;
            };
            message.write(&mut bytes);
        }
        if let Err(error) = send(&mut writer, &bytes).await {
            return error;
        }
        bytes.clear();
    }
}

fn alive() -> Message {
    Message {
        id: 0,
        what: What::Alive,
    }
}

async fn send(writer: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    writer.write_all(bytes).await?;
    writer.flush().await
}

#[cfg(test)]
mod tests {
    use tokio::io::{duplex, sink};

    use super::*;

    fn hello(id: u64) -> Message {
        Message {
            id,
            what: What::Hello,
        }
    }

    #[tokio::test]
    async fn messages_come_in_order_and_the_end_of_one_side_ends_the_other() {
        let (here, there) = duplex(10);
        let (sender, outgoing) = queue();
        let (_silent, nothing) = queue();
        for id in 0..100 {
            assert!(sender.send(hello(id)));
        }
        drop(sender);
        let mut came = vec![];
        let (near, far) = tokio::join!(
            carry(here, outgoing, drop),
            carry(there, nothing, |message| came.push(message)),
        );
        assert_eq!(near.kind(), io::ErrorKind::ConnectionAborted);
        assert_eq!(far.kind(), io::ErrorKind::UnexpectedEof);
        assert!(came.into_iter().eq((0..100).map(hello)));
    }

    #[tokio::test(start_paused = true)]
    async fn an_end_that_is_silent_is_gone_and_one_that_has_nothing_to_say_is_not() {
        let (here, there) = duplex(1000);
        let (_kept, outgoing) = queue();
        let (sender, nothing) = queue();
        let far = tokio::spawn(carry(there, nothing, drop));
        let near = tokio::spawn(carry(here, outgoing, drop));
        tokio::time::sleep(10 * SILENCE).await;
        assert!(!far.is_finished() && !near.is_finished());
        drop(sender);
        assert_eq!(
            far.await.expect("no panic").kind(),
            io::ErrorKind::ConnectionAborted
        );

        let (here, _there) = duplex(1000);
        let (_kept, outgoing) = queue();
        let error = carry(tokio::io::join(here, sink()), outgoing, drop).await;
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn an_end_that_stalls_for_half_a_second_is_not_gone_and_one_for_a_whole_one_is() {
        let (here, mut there) = duplex(1000);
        let (_kept, outgoing) = queue();
        let carried = tokio::spawn(carry(tokio::io::join(here, sink()), outgoing, drop));
        let mut beat = Vec::new();
        alive().write(&mut beat);
        for _ in 0..10 {
            there.write_all(&beat).await.expect("taken");
            tokio::time::sleep(BEAT + Duration::from_millis(500)).await;
            assert!(!carried.is_finished());
        }
        there.write_all(&beat).await.expect("taken");
        let begun = tokio::time::Instant::now();
        let error = carried.await.expect("no panic");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(begun.elapsed() < Duration::from_secs(1));
    }

    #[tokio::test]
    async fn a_message_without_room_breaks_the_connection_and_none_goes_behind_it() {
        let (here, there) = duplex(1000);
        let (sender, mut outgoing) = queue();
        let (_silent, nothing) = queue();
        let most = QUEUE as u64;
        for id in 0..most {
            assert!(sender.send(hello(id)));
        }
        assert!(!sender.send(hello(most)));
        assert_eq!(outgoing.queue.try_recv(), Ok(hello(0)));
        assert!(!sender.send(hello(most + 1)), "there is room again");
        let mut came = vec![];
        let (near, _) = tokio::join!(
            carry(here, outgoing, drop),
            carry(there, nothing, |message| came.push(message)),
        );
        assert_eq!(near.kind(), io::ErrorKind::Other);
        assert!(sender.is_closed());
        let ids = 1..=came.len() as u64;
        assert!(ids.end() < &most && came.into_iter().eq(ids.map(hello)));
    }

    #[tokio::test(start_paused = true)]
    async fn an_end_that_speaks_and_does_not_listen_is_gone_once_there_is_no_more_room() {
        let (here, mut there) = duplex(100);
        let (sender, outgoing) = queue();
        let carried = tokio::spawn(carry(here, outgoing, drop));
        let mut beat = Vec::new();
        alive().write(&mut beat);
        let mut sent = 0;
        while !carried.is_finished() {
            // Its last one may come too late.
            let _ = there.write_all(&beat).await;
            sent += (0..QUEUE as u64 / 8)
                .filter(|id| sender.send(hello(*id)))
                .count();
            tokio::time::sleep(BEAT).await;
        }
        let error = carried.await.expect("no panic");
        assert_eq!(error.kind(), io::ErrorKind::Other);
        assert!((QUEUE..2 * QUEUE + BATCH / 14).contains(&sent), "{sent}");
    }

    #[tokio::test]
    async fn what_is_no_message_ends_it() {
        let (here, mut there) = duplex(1000);
        let (_kept, outgoing) = queue();
        there.write_all(b"GET / HTTP/1.1\r\n").await.expect("taken");
        let error = carry(here, outgoing, drop).await;
        assert_eq!(error.kind(), io::ErrorKind::Other);
    }
}
