//! A session: messages both ways, each exactly once and in order, over one connection after another.
//!
//! Messages are numbered, and kept until the other end says that it has taken them. A connection that breaks ends nothing:
//! over the next one each end tells which message it took last, and hears all behind it. So a broken connection costs
//! nothing but time, whatever was on its way.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fmt, io};

use handoff_protocol::{HELLO_LENGTH, Message, Parsed, What, parse};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, split};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};

use crate::waiting::{Room, Sender, waiting};

/// Each end says so often that it is alive, and what it has taken.
const BEAT: Duration = Duration::from_millis(100);
/// A connection by which nothing came for so long is broken. A busy machine with few processors stalls for 0.3 s now and then:
/// twice that between two beats is no end yet.
const SILENCE: Duration = Duration::from_millis(700);
/// Who comes in may take so long to say which session it means.
const GREETING: Duration = Duration::from_secs(2);
/// Room for what comes next.
const PIECE: usize = 16 << 10;
/// Messages are sent together up to this many bytes.
const BATCH: usize = 64 << 10;

/// What one end knows of a session. To drop it ends the session.
#[derive(Debug)]
pub struct Session {
    queue: mpsc::UnboundedReceiver<Message>,
    room: Arc<Room>,
    known: Mutex<Known>,
}

/// Messages are numbered from 1; the greeting is number 1.
#[derive(Debug, Default)]
struct Known {
    /// The number of the last message that is to be sent.
    sent: u64,
    /// The number of the last one that was written to the connection that there is.
    written: u64,
    /// The last ones of these, which the other end may not have taken.
    kept: VecDeque<Message>,
    /// The number of the last message that was taken.
    taken: u64,
}

/// How the other end begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// The session's number.
    pub session: u64,
    /// Which message it took last; 0 if it does not know the session yet.
    pub taken: u64,
}

/// Why messages are carried no more.
#[derive(Debug)]
pub enum Broken {
    /// The connection has broken: the session can go on over another one.
    Connection(io::Error),
    /// The session is over.
    Session(io::Error),
}

impl Broken {
    fn over(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Session(io::Error::other(why))
    }
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self::Connection(error)
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connection(error) | Self::Session(error) => error.fmt(f),
        }
    }
}

/// Reads what begins a connection, from who comes in.
pub async fn greeted(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Greeting> {
    timeout(GREETING, read_greeting(stream)).await?
}

async fn read_greeting(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Greeting> {
    let mut bytes = [0; HELLO_LENGTH];
    stream.read_exact(&mut bytes).await?;
    let parsed = parse(&bytes).map_err(io::Error::other)?;
    match parsed.map(|parsed| parsed.message) {
        Some(Message {
            id: session,
            what: What::Hello { taken },
        }) => Ok(Greeting { session, taken }),
        _ => Err(io::Error::other("it does not begin with a greeting")),
    }
}

impl Session {
    /// A new one, and where its messages go.
    pub fn new() -> (Sender, Self) {
        let (sender, queue, room) = waiting();
        let known = Mutex::default();
        let session = Self { queue, room, known };
        (sender, session)
    }

    /// Whether the other end has begun it, too.
    pub fn is_known(&self) -> bool {
        self.known().sent > 0
    }

    /// Begins or resumes the session by its number, from the end that connects. Returns which message the other end took last.
    pub async fn greet(
        &self,
        stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
        number: u64,
    ) -> Result<u64, Broken> {
        self.write_greeting(stream, number).await?;
        let greeting = read_greeting(stream).await?;
        if self.is_known() && greeting.taken == 0 {
            return Err(Broken::over("it does not know of what was before"));
        }
        self.known().begin();
        Ok(greeting.taken)
    }

    /// The same from the other end, behind [`greeted`].
    pub async fn answer(&self, stream: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        self.write_greeting(stream, 0).await?;
        self.known().begin();
        Ok(())
    }

    async fn write_greeting(
        &self,
        stream: &mut (impl AsyncWrite + Unpin),
        id: u64,
    ) -> io::Result<()> {
        let taken = self.known().taken;
        let what = What::Hello { taken };
        let mut bytes = Vec::new();
        Message { id, what }.write(0, &mut bytes);
        send(stream, &bytes).await
    }

    /// Sends what there is from `heard` on, which the other end took last, and gives what comes to `take`, until the connection
    /// breaks, or the other end takes too little of it. Returns why.
    pub async fn carry(
        &mut self,
        stream: impl AsyncRead + AsyncWrite,
        heard: u64,
        take: impl FnMut(Message),
    ) -> Broken {
        // The greeting itself is taken.
        if let Err(broken) = self.resume(heard.max(1)) {
            return broken;
        }
        let (reader, writer) = split(stream);
        let Self { queue, room, known } = self;
        let carried = Carried { room, known };
        tokio::select! {
            broken = carried.read(reader, take) => broken,
            broken = carried.write(writer, queue) => broken,
            () = room.full() => Broken::over("the other end does not take what it is told"),
        }
    }

    /// The next connection begins behind this message.
    fn resume(&self, number: u64) -> Result<(), Broken> {
        let Self { room, known, .. } = self;
        let written = self.known().sent;
        self.known().written = written;
        Carried { room, known }.heard(number)?;
        self.known().written = number;
        Ok(())
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        lock(&self.known)
    }
}

fn lock(known: &Mutex<Known>) -> MutexGuard<'_, Known> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Known {
    /// Both greetings are sent and taken.
    fn begin(&mut self) {
        self.sent = self.sent.max(1);
        self.taken = self.taken.max(1);
    }

    /// Whether a message with this number is the next one, or came before.
    fn is_next(&mut self, number: u64) -> io::Result<bool> {
        let before = number.saturating_sub(1);
        self.has_all(before)?;
        let is_next = before == self.taken;
        self.taken = self.taken.max(number);
        Ok(is_next)
    }

    /// Raises that not all messages up to this one have come.
    fn has_all(&self, number: u64) -> io::Result<bool> {
        if number <= self.taken {
            return Ok(true);
        }
        Err(io::Error::other("a message is missing"))
    }

    /// The message with this number, which is kept.
    fn message(&self, number: u64) -> Option<&Message> {
        let first = self.sent + 1 - self.kept.len() as u64;
        let place = usize::try_from(number.checked_sub(first)?).ok()?;
        self.kept.get(place)
    }
}

/// A session while a connection carries it.
struct Carried<'a> {
    room: &'a Room,
    known: &'a Mutex<Known>,
}

impl Carried<'_> {
    async fn read(
        &self,
        mut reader: impl AsyncRead + Unpin,
        mut take: impl FnMut(Message),
    ) -> Broken {
        let mut inbox = Vec::with_capacity(PIECE);
        loop {
            match timeout(SILENCE, reader.read_buf(&mut inbox)).await {
                Ok(Ok(0)) => return io::Error::from(io::ErrorKind::UnexpectedEof).into(),
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return error.into(),
                Err(_) => return io::Error::from(io::ErrorKind::TimedOut).into(),
            }
            if let Err(broken) = self.take_all(&mut inbox, &mut take) {
                return broken;
            }
            inbox.reserve(PIECE);
        }
    }

    /// Takes the whole messages out of `inbox`.
    fn take_all(&self, inbox: &mut Vec<u8>, take: &mut impl FnMut(Message)) -> Result<(), Broken> {
        let mut used = 0;
        while let Some(parsed) = parse(&inbox[used..]).map_err(Broken::over)? {
            used += parsed.length;
            let Parsed {
                number, message, ..
            } = parsed;
            let is_news = match message.what {
                What::Hello { .. } => return Err(Broken::over("it greets once more")),
                What::Alive { taken } => {
                    self.heard(taken)?;
                    lock(self.known).has_all(number)?
                }
                _ => lock(self.known).is_next(number)?,
            };
            if is_news {
                take(message);
            }
        }
        inbox.drain(..used);
        Ok(())
    }

    /// The other end has taken all messages up to this one.
    fn heard(&self, number: u64) -> Result<(), Broken> {
        let mut known = lock(self.known);
        if number > known.written {
            return Err(Broken::over("it has taken what was not sent"));
        }
        if known.sent - number > known.kept.len() as u64 {
            return Err(Broken::over("it has forgotten what it has taken"));
        }
        while known.sent - number < known.kept.len() as u64 {
            if let Some(message) = known.kept.pop_front() {
                self.room.free(&message);
            }
        }
        Ok(())
    }

    /// Writes what is behind, and then what comes into the queue.
    async fn write(
        &self,
        mut writer: impl AsyncWrite + Unpin,
        queue: &mut mpsc::UnboundedReceiver<Message>,
    ) -> Broken {
        let mut bytes = Vec::new();
        let mut beat = Instant::now();
        loop {
            if !self.is_behind() {
                match timeout_at(beat, queue.recv()).await {
                    Ok(Some(message)) => self.keep(message),
                    Ok(None) => return Broken::Session(io::ErrorKind::ConnectionAborted.into()),
                    Err(_) => {}
                }
            }
            if beat <= Instant::now() {
                let Known { taken, written, .. } = *lock(self.known);
                let what = What::Alive { taken };
                Message { id: 0, what }.write(written, &mut bytes);
                beat = Instant::now() + BEAT;
            }
            while bytes.len() < BATCH {
                if !self.is_behind() {
                    if let Ok(message) = queue.try_recv() {
                        self.keep(message);
                    }
                }
                if !self.write_next(&mut bytes) {
                    break;
                }
            }
            if let Err(error) = send(&mut writer, &bytes).await {
                return error.into();
            }
            bytes.clear();
        }
    }

    /// Whether messages out of the queue are still to be written.
    fn is_behind(&self) -> bool {
        let known = lock(self.known);
        known.written < known.sent
    }

    fn keep(&self, message: Message) {
        let mut known = lock(self.known);
        known.sent += 1;
        known.kept.push_back(message);
    }

    /// The next message that is behind; whether there was one.
    fn write_next(&self, bytes: &mut Vec<u8>) -> bool {
        let mut known = lock(self.known);
        let number = known.written + 1;
        let Some(message) = known.message(number) else {
            return false;
        };
        message.write(number, bytes);
        known.written = number;
        true
    }
}

async fn send(writer: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    writer.write_all(bytes).await?;
    writer.flush().await
}

#[cfg(test)]
mod tests {
    use tokio::io::{DuplexStream, duplex};

    use super::*;
    use crate::waiting::MOST;

    fn message(id: u64) -> Message {
        Message {
            id,
            what: What::Taken,
        }
    }

    fn beat() -> Vec<u8> {
        let what = What::Alive { taken: 1 };
        let mut bytes = Vec::new();
        Message { id: 0, what }.write(0, &mut bytes);
        bytes
    }

    /// Two ends of a session, and what each has taken.
    struct Pair {
        senders: [Sender; 2],
        sessions: [Session; 2],
        came: [Vec<u64>; 2],
    }

    impl Pair {
        fn new() -> Self {
            let ((near, here), (far, there)) = (Session::new(), Session::new());
            Self {
                senders: [near, far],
                sessions: [here, there],
                came: [vec![], vec![]],
            }
        }

        /// One connection, which is cut behind so many bytes each way.
        async fn connect(&mut self, most: [usize; 2]) -> [Broken; 2] {
            let (mut here, mut near) = duplex(1 << 20);
            let (mut there, mut far) = duplex(1 << 20);
            let [one, other] = &mut self.sessions;
            let [came_near, came_far] = &mut self.came;
            let wire = async move { pass(&mut near, &mut far, most).await };
            let connecting = async {
                let heard = match one.greet(&mut here, 7).await {
                    Ok(heard) => heard,
                    Err(broken) => return broken,
                };
                one.carry(here, heard, |message| push(came_near, &message))
                    .await
            };
            let accepting = async {
                let greeting = match greeted(&mut there).await {
                    Ok(greeting) => greeting,
                    Err(error) => return error.into(),
                };
                if let Err(error) = other.answer(&mut there).await {
                    return error.into();
                }
                other
                    .carry(there, greeting.taken, |message| push(came_far, &message))
                    .await
            };
            let (one, other, ()) = tokio::join!(connecting, accepting, wire);
            [one, other]
        }
    }

    fn push(came: &mut Vec<u64>, message: &Message) {
        if message.what == What::Taken {
            came.push(message.id);
        }
    }

    /// Passes bytes both ways until one of the two ways has had as many as it may.
    async fn pass(near: &mut DuplexStream, far: &mut DuplexStream, most: [usize; 2]) {
        let ((from_near, to_near), (from_far, to_far)) = (split(near), split(far));
        tokio::select! {
            () = pass_on(from_near, to_far, most[0]) => {}
            () = pass_on(from_far, to_near, most[1]) => {}
        }
    }

    async fn pass_on(
        mut from: impl AsyncRead + Unpin,
        mut to: impl AsyncWrite + Unpin,
        most: usize,
    ) {
        for _ in 0..most {
            let Ok(byte) = from.read_u8().await else {
                return;
            };
            if to.write_u8(byte).await.is_err() {
                return;
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn every_message_comes_once_and_in_order_wherever_connections_are_cut() {
        for step in [23, 37, 61, 200, 1000] {
            let mut pair = Pair::new();
            for id in 1..=50 {
                assert!(pair.senders[0].send(message(id)));
                assert!(pair.senders[1].send(message(100 + id)));
            }
            let mut cuts = 0;
            while pair.came.iter().any(|came| came.len() < 50) {
                cuts += 1;
                assert!(cuts < 500, "{step}: {:?}", pair.came);
                let cut = step + 7 * cuts;
                let broken = pair.connect([cut, 2 * cut]).await;
                for each in broken {
                    assert!(matches!(each, Broken::Connection(_)), "{step}: {each}");
                }
            }
            let expected = [101..=150, 1..=50].map(Vec::from_iter);
            assert_eq!(pair.came, expected, "{step}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_taken_is_kept_no_longer() {
        let mut pair = Pair::new();
        for id in 0..10 {
            pair.senders[0].send(message(id));
        }
        // The second beat says so.
        pair.connect([10_000, HELLO_LENGTH + 3 * HELLO_LENGTH])
            .await;
        assert_eq!(pair.came[1].len(), 10);
        assert!(pair.sessions[0].known().kept.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn an_end_that_knows_nothing_of_what_was_ends_the_session() {
        let mut pair = Pair::new();
        pair.senders[0].send(message(1));
        pair.connect([1000, 1000]).await;
        pair.sessions[1] = Session::new().1;
        let [near, _] = pair.connect([1000, 1000]).await;
        assert!(matches!(near, Broken::Session(_)), "{near}");
    }

    /// One end of a session that has begun; the other one is the test.
    fn begun() -> (Sender, Session) {
        let (sender, session) = Session::new();
        session.known().begin();
        (sender, session)
    }

    #[tokio::test(start_paused = true)]
    async fn an_end_that_stalls_for_half_a_second_is_not_gone_and_one_for_a_whole_one_is() {
        let (here, mut there) = duplex(100_000);
        let (_sender, mut session) = begun();
        let carried = tokio::spawn(async move { session.carry(here, 1, drop).await });
        for _ in 0..10 {
            there.write_all(&beat()).await.expect("taken");
            tokio::time::sleep(BEAT + Duration::from_millis(500)).await;
            assert!(!carried.is_finished());
        }
        there.write_all(&beat()).await.expect("taken");
        let since = Instant::now();
        let broken = carried.await.expect("no panic");
        let is_silence =
            matches!(&broken, Broken::Connection(error) if error.kind() == io::ErrorKind::TimedOut);
        assert!(is_silence, "{broken}");
        assert!(since.elapsed() < Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn messages_that_come_twice_are_taken_once_and_one_that_is_missing_breaks_the_connection()
    {
        let (here, mut there) = duplex(100_000);
        let (_sender, mut session) = begun();
        let mut bytes = Vec::new();
        for number in [2, 2, 3, 2, 5] {
            message(number).write(number, &mut bytes);
        }
        there.write_all(&bytes).await.expect("taken");
        let mut came = vec![];
        let broken = session
            .carry(here, 1, |message| came.push(message.id))
            .await;
        assert!(matches!(broken, Broken::Connection(_)), "{broken}");
        assert_eq!(came, [2, 3]);
        assert_eq!(session.known().taken, 3);
    }

    #[tokio::test(start_paused = true)]
    async fn an_end_that_says_it_took_more_than_it_was_sent_ends_the_session() {
        let (here, mut there) = duplex(100_000);
        let (sender, mut session) = begun();
        sender.send(message(2));
        let mut bytes = Vec::new();
        let what = What::Alive { taken: 9 };
        Message { id: 0, what }.write(0, &mut bytes);
        there.write_all(&bytes).await.expect("taken");
        let broken = session.carry(here, 1, drop).await;
        assert!(matches!(broken, Broken::Session(_)), "{broken}");
    }

    #[tokio::test]
    async fn what_is_no_message_ends_it() {
        let (here, mut there) = duplex(1000);
        let (_sender, mut session) = begun();
        there.write_all(b"GET / HTTP/1.1\r\n").await.expect("taken");
        let broken = session.carry(here, 1, drop).await;
        assert!(matches!(broken, Broken::Session(_)), "{broken}");
    }

    /// With content of so many bytes.
    fn stuck(bytes: usize) -> Message {
        let bytes = vec![0; bytes];
        Message {
            id: 1,
            what: What::Stuck { sent: 0, bytes },
        }
    }

    #[tokio::test]
    async fn a_message_without_room_ends_the_session_and_none_goes_behind_it() {
        let (here, _there) = duplex(1000);
        let (sender, mut session) = begun();
        let large = MOST / 4;
        assert_eq!((0..5).filter(|_| sender.send(stuck(large))).count(), 3);
        assert!(!sender.send(message(1)), "there would be room for this one");
        let broken = session.carry(here, 1, drop).await;
        assert!(matches!(broken, Broken::Session(_)), "{broken}");
        drop(session);
        assert!(sender.is_closed());
    }

    #[tokio::test(start_paused = true)]
    async fn what_an_end_does_not_take_needs_room_until_it_does() {
        let (here, mut there) = duplex(1 << 20);
        let (sender, mut session) = begun();
        let carried = tokio::spawn(async move { session.carry(here, 1, drop).await });
        let large = 1 << 10;
        let mut sent = 0;
        while !carried.is_finished() {
            // It speaks, and says that it has taken nothing.
            there.write_all(&beat()).await.expect("taken");
            let mut ignored = vec![0; 1 << 20];
            let _ = timeout(BEAT, there.read(&mut ignored)).await;
            sent += (0..1000).filter(|_| sender.send(stuck(large))).count();
        }
        let broken = carried.await.expect("no panic");
        assert!(matches!(broken, Broken::Session(_)), "{broken}");
        assert!(sent <= MOST / large && sent > MOST / (2 * large), "{sent}");
    }
}
