//! A session on one connection: reads and writes its messages, with heartbeats that acknowledge.

use std::io;
use std::sync::Mutex;
use std::time::Duration;

use handoff_protocol::{Message, parse};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};

use crate::progress::Progress;
use crate::session::{LinkError, lock};

/// Between two heartbeats.
const HEARTBEAT: Duration = Duration::from_millis(100);
/// A connection on which nothing was received for so long counts as broken. A busy machine with few processors stalls for
/// 0.3 s now and then: twice that between two heartbeats is still allowed.
const PEER_TIMEOUT: Duration = Duration::from_millis(700);
const READ_SIZE: usize = 16 << 10;
/// Messages are written together up to this many bytes.
const BATCH: usize = 64 << 10;

/// Passes what the peer sends to `take`, each message once.
pub(crate) async fn read(
    progress: &Mutex<Progress>,
    mut reader: impl AsyncRead + Unpin,
    mut take: impl FnMut(Message),
) -> LinkError {
    let mut inbox = Vec::with_capacity(READ_SIZE);
    loop {
        match timeout(PEER_TIMEOUT, reader.read_buf(&mut inbox)).await {
            Ok(Ok(0)) => return io::Error::from(io::ErrorKind::UnexpectedEof).into(),
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return error.into(),
            Err(_) => return io::Error::from(io::ErrorKind::TimedOut).into(),
        }
        if let Err(error) = take_all(progress, &mut inbox, &mut take) {
            return error;
        }
        inbox.reserve(READ_SIZE);
    }
}

/// Takes all complete messages from `inbox`.
fn take_all(progress: &Mutex<Progress>, inbox: &mut Vec<u8>, take: &mut impl FnMut(Message)) -> Result<(), LinkError> {
    let mut used = 0;
    while let Some(parsed) = parse(&inbox[used..]).map_err(LinkError::over)? {
        used += parsed.length;
        let is_new = lock(progress).take(&parsed)?;
        if is_new {
            take(parsed.message);
        }
    }
    inbox.drain(..used);
    Ok(())
}

/// Writes the messages that the connection before has lost, then those from the queue, with heartbeats between them.
pub(crate) async fn write(
    progress: &Mutex<Progress>,
    mut writer: impl AsyncWrite + Unpin,
    queue: &mut mpsc::UnboundedReceiver<Message>,
) -> LinkError {
    let mut bytes = Vec::new();
    let mut next_heartbeat = Instant::now();
    loop {
        if !lock(progress).is_behind() {
            match timeout_at(next_heartbeat, queue.recv()).await {
                Ok(Some(message)) => lock(progress).send(message),
                Ok(None) => return LinkError::Session(io::ErrorKind::ConnectionAborted.into()),
                Err(_) => {}
            }
        }
        if next_heartbeat <= Instant::now() {
            lock(progress).write_heartbeat(&mut bytes);
            next_heartbeat = Instant::now() + HEARTBEAT;
        }
        write_batch(&mut lock(progress), queue, &mut bytes);
        let written = async {
            writer.write_all(&bytes).await?;
            writer.flush().await
        };
        if let Err(error) = written.await {
            return error.into();
        }
        bytes.clear();
    }
}

fn write_batch(progress: &mut Progress, queue: &mut mpsc::UnboundedReceiver<Message>, bytes: &mut Vec<u8>) {
    while bytes.len() < BATCH {
        if !progress.is_behind() {
            if let Ok(message) = queue.try_recv() {
                progress.send(message);
            }
        }
        if !progress.write_next(bytes) {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use handoff_protocol::Payload;
    use tokio::io::duplex;

    use super::*;
    use crate::Sender;
    use crate::send_queue::MAX_QUEUED_BYTES;
    use crate::session::Session;

    fn message(id: u64) -> Message {
        let payload = Payload::Accepted;
        Message { id, payload }
    }

    fn heartbeat(acknowledged: u64) -> Vec<u8> {
        let payload = Payload::Heartbeat { acknowledged };
        let mut bytes = Vec::new();
        Message { id: 0, payload }.write(0, &mut bytes);
        bytes
    }

    /// One end of a session that has begun; the other one is the test.
    fn begun() -> (Sender, Session) {
        let (sender, session) = Session::new();
        session.progress().begin();
        (sender, session)
    }

    #[tokio::test(start_paused = true)]
    async fn an_end_that_stalls_for_half_a_second_is_not_gone_and_one_for_a_whole_one_is() {
        let (here, mut there) = duplex(100_000);
        let (_sender, mut session) = begun();
        let carried = tokio::spawn(async move { session.run(here, 1, drop).await });
        for _ in 0..10 {
            there.write_all(&heartbeat(1)).await.expect("taken");
            tokio::time::sleep(HEARTBEAT + Duration::from_millis(500)).await;
            assert!(!carried.is_finished());
        }
        there.write_all(&heartbeat(1)).await.expect("taken");
        let since = Instant::now();
        let error = carried.await.expect("no panic");
        let is_silence = matches!(&error, LinkError::Connection(error) if error.kind() == io::ErrorKind::TimedOut);
        assert!(is_silence, "{error}");
        assert!(since.elapsed() < Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn messages_that_come_twice_are_taken_once_and_one_that_is_missing_breaks_the_connection() {
        let (here, mut there) = duplex(100_000);
        let (_sender, mut session) = begun();
        let mut bytes = Vec::new();
        for number in [2, 2, 3, 2, 5] {
            message(number).write(number, &mut bytes);
        }
        there.write_all(&bytes).await.expect("taken");
        let mut came = vec![];
        let error = session.run(here, 1, |message| came.push(message.id)).await;
        assert!(matches!(error, LinkError::Connection(_)), "{error}");
        assert_eq!(came, [2, 3]);
        assert_eq!(session.progress().received(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn an_end_that_says_it_took_more_than_it_was_sent_ends_the_session() {
        let (here, mut there) = duplex(100_000);
        let (sender, mut session) = begun();
        sender.send(message(2));
        there.write_all(&heartbeat(9)).await.expect("taken");
        let error = session.run(here, 1, drop).await;
        assert!(matches!(error, LinkError::Session(_)), "{error}");
    }

    #[tokio::test]
    async fn what_is_no_message_ends_it() {
        let (here, mut there) = duplex(1000);
        let (_sender, mut session) = begun();
        there.write_all(b"GET / HTTP/1.1\r\n").await.expect("taken");
        let error = session.run(here, 1, drop).await;
        assert!(matches!(error, LinkError::Session(_)), "{error}");
    }

    /// With so many bytes of the client's.
    fn stuck(bytes: usize) -> Message {
        let bytes = vec![0; bytes];
        let payload = Payload::Undetachable { sent: 0, bytes };
        Message { id: 1, payload }
    }

    #[tokio::test]
    async fn a_message_without_room_ends_the_session_and_none_goes_behind_it() {
        let (here, _there) = duplex(1000);
        let (sender, mut session) = begun();
        let large = MAX_QUEUED_BYTES / 4;
        assert_eq!((0..5).filter(|_| sender.send(stuck(large))).count(), 3);
        assert!(!sender.send(message(1)), "there would be room for this one");
        let error = session.run(here, 1, drop).await;
        assert!(matches!(error, LinkError::Session(_)), "{error}");
        drop(session);
        assert!(sender.is_closed());
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_room_has_it_when_others_were_acknowledged_and_waits_for_no_session_that_is_over() {
        let (here, mut there) = duplex(MAX_QUEUED_BYTES);
        let (sender, mut session) = begun();
        let fill = || {
            (0..100)
                .take_while(|_| sender.has_room() && sender.send(stuck(1 << 20)))
                .count()
        };
        let sent = fill();
        assert!(sent > 1 && sent < 100, "{sent}");
        let carried = tokio::spawn(async move { session.run(here, 1, drop).await });
        let room = tokio::spawn({
            let sender = sender.clone();
            async move { sender.room().await }
        });
        tokio::time::sleep(HEARTBEAT).await;
        assert!(!room.is_finished());
        // The hello is the first.
        there.write_all(&heartbeat(sent as u64)).await.expect("taken");
        timeout(HEARTBEAT, room).await.expect("room").expect("no panic");
        fill();
        drop(there);
        carried.await.expect("no panic");
        timeout(HEARTBEAT, sender.room()).await.expect("it is over");
        assert!(sender.is_closed() && !sender.has_room());
    }

    #[tokio::test(start_paused = true)]
    async fn what_an_end_does_not_take_needs_room_until_it_does() {
        let (here, mut there) = duplex(1 << 20);
        let (sender, mut session) = begun();
        let carried = tokio::spawn(async move { session.run(here, 1, drop).await });
        let large = 1 << 10;
        let mut sent = 0;
        while !carried.is_finished() {
            // The peer is alive, and acknowledges nothing.
            there.write_all(&heartbeat(1)).await.expect("taken");
            let mut ignored = vec![0; 1 << 20];
            let _ = timeout(HEARTBEAT, there.read(&mut ignored)).await;
            sent += (0..1000).filter(|_| sender.send(stuck(large))).count();
        }
        let error = carried.await.expect("no panic");
        assert!(matches!(error, LinkError::Session(_)), "{error}");
        assert!(
            sent <= MAX_QUEUED_BYTES / large && sent > MAX_QUEUED_BYTES / (2 * large),
            "{sent}"
        );
    }
}
