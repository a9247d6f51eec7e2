//! Carries an exchange out on its two connections: reads and writes, and asks [`Exchange`] what each thing means.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::Interest;
use tokio::time::Instant;
use tributary_proto::http::Refused;
use tributary_proto::http::exchange::{Action, Event, Exchange, ExchangeResult, Fault, Input, is_break};

use super::{ClientBuffer, counted};
use crate::io::buffers::BufferedWriter;
use crate::io::conn::Conn;
use crate::io::pipe::TURNS;
use crate::io::quiet::Quiet;
use crate::io::relay::RelayContext;
use crate::io::stream::{ResetOnDrop, acknowledged, poll_read};
use crate::listener::PIECE;
use crate::upstream::ServerConnection;

/// Carries `exchange` out to its end. `head` is the request's, for the server; the client's inbox may have some of its
/// body. The request, which the caller keeps meanwhile, takes `kept` bytes. `unavailable` is ready once nothing will come by
/// the server's connection.
pub async fn drive_exchange(
    conn: &Conn,
    client_buffer: &mut ClientBuffer,
    back: &mut ServerConnection,
    exchange: &mut Exchange<'_>,
    head: &[u8],
    kept: usize,
    mut unavailable: Option<Pin<Box<impl Future<Output = ()>>>>,
) -> ExchangeResult {
    let context = RelayContext {
        hop: back.server.hop.as_deref(),
        ..RelayContext::of(conn)
    };
    let (client, server) = (&conn.stream, &back.server.stream);
    let mut driver = ExchangeDriver {
        conn,
        exchange,
        client,
        server,
        client_inbox: &mut client_buffer.inbox,
        server_inbox: &mut back.inbox,
        up: BufferedWriter::new(server, context.memory.budget, context.up),
        down: BufferedWriter::new(client, context.memory.budget, context.down),
        kept: counted(kept),
        heads: 0,
        context: &context,
    };
    if let Err(ending) = driver.begin(head) {
        return ending;
    }
    // In boxes, made when they are asked: hardly any exchange comes to that.
    let (mut client_broke, mut server_broke) = (None, None);
    let mut server_is_broken = false;
    let mut quiet = Quiet::begin();
    let ending = poll_fn(|cx| {
        let before = (driver.moved(), server_is_broken);
        let came = driver.came();
        let mut turn = || {
            driver.poll(cx)?;
            // Who is not read would not be seen to break off. To hear of anything from it costs less than to hear of that.
            if !driver.reads_client()
                && client.poll_read_ready(cx).is_ready()
                && client_broke
                    .get_or_insert_with(|| Box::pin(client.ready(Interest::ERROR)))
                    .as_mut()
                    .poll(cx)
                    .is_ready()
            {
                driver.happened(Event::Client(Input::Reset))?;
            }
            if !driver.reads_server() && !server_is_broken {
                server_is_broken = server_broke
                    .get_or_insert_with(|| Box::pin(server.ready(Interest::ERROR)))
                    .as_mut()
                    .poll(cx)
                    .is_ready();
            }
            // What came before it is passed on first, and may be all there is to come.
            if server_is_broken && !driver.exchange.reads_server() {
                driver.happened(Event::Server(Input::Reset))?;
            }
            // Once there is a response it is asked no more, and must not keep others from asking.
            unavailable.take_if(|_| !driver.exchange.may_go_elsewhere());
            let nothing_will_come = unavailable
                .as_mut()
                .is_some_and(|unavailable| unavailable.as_mut().poll(cx).is_ready());
            if nothing_will_come {
                driver.happened(Event::ServerUnavailable)?;
            }
            Ok(())
        };
        let ended = turn();
        if came != driver.came() {
            context.heard();
        }
        if let Err(ending) = ended {
            return Poll::Ready(ending);
        }
        if (driver.moved(), server_is_broken) != before {
            quiet = Quiet::begin();
        }
        let awaits_reset = server_is_broken && driver.exchange.reads_server();
        let limit = if awaits_reset {
            context.half_closed
        } else {
            context.idle
        };
        let waiting = [
            driver.reads_client().then_some(&**client),
            driver.reads_server().then_some(&**server),
        ];
        ready!(quiet.poll(cx, context.timer, limit, waiting));
        Poll::Ready(driver.silence(awaits_reset))
    })
    .await;
    if let ExchangeResult::Aborted {
        fault: Fault::ServerReset,
        ..
    } = ending
    {
        drop(unavailable);
        driver.deliver(quiet.since()).await;
    }
    ending
}

thread_local! {
    /// A head on its way to a client, and what goes with it. One at a time.
    static OUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Of the memory for it, so much stays.
const KEPT: usize = 2 * PIECE;

struct ExchangeDriver<'a, 'limits> {
    conn: &'a Conn,
    exchange: &'a mut Exchange<'limits>,
    client: &'a ResetOnDrop,
    server: &'a ResetOnDrop,
    client_inbox: &'a mut Vec<u8>,
    server_inbox: &'a mut Vec<u8>,
    /// To the server.
    up: BufferedWriter<'a>,
    /// To the client.
    down: BufferedWriter<'a>,
    /// Bytes of the request.
    kept: usize,
    /// How many the server has sent.
    heads: u64,
    context: &'a RelayContext<'a>,
}

/// An ending is what stops everything else.
type Result<T> = std::result::Result<T, ExchangeResult>;

impl ExchangeDriver<'_, '_> {
    /// Sends the request's head and what is here of its body: a whole small request is one write, and one packet.
    fn begin(&mut self, head: &[u8]) -> Result<()> {
        let inbox = mem::take(self.client_inbox);
        let used = self.take_from_client(&inbox)?;
        *self.client_inbox = inbox;
        // What the server does not take of it is counted by itself.
        if used == 0 {
            self.send_up(head)?;
        } else {
            let whole = [head, &self.client_inbox[..used]].concat();
            self.client_inbox.drain(..used);
            self.send_up(&whole)?;
        }
        self.holds();
        // What came behind the next converter's answer is the server's.
        let early = mem::take(self.server_inbox);
        if early.is_empty() {
            return Ok(());
        }
        self.server_sent(&early)
    }

    /// Does what can be done now.
    fn poll(&mut self, cx: &mut Context<'_>) -> Result<()> {
        for _ in 0..TURNS {
            let up = self.poll_up(cx);
            let down = self.poll_down(cx);
            match (up, down) {
                (Poll::Ready(Err(ending)), _) | (_, Poll::Ready(Err(ending))) => {
                    return Err(ending);
                }
                (Poll::Pending, Poll::Pending) => return Ok(()),
                _ => {}
            }
        }
        cx.waker().wake_by_ref();
        Ok(())
    }

    /// Moves some of the request's body.
    fn poll_up(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        if let Err(error) = ready!(self.up.poll_flush(cx)) {
            return Poll::Ready(self.upstream_write_failed(&error));
        }
        if let Err(ending) = self.happened(Event::RequestFlushed) {
            return Poll::Ready(Err(ending));
        }
        if !self.exchange.reads_client() {
            return Poll::Pending;
        }
        let (client, size) = (self.client, self.upload_size());
        let read = poll_read(client, cx, size, |bytes| self.client_sent(bytes));
        read.map(|read| read.unwrap_or_else(|_| self.happened(Event::Client(Input::Reset))))
    }

    /// Moves some of the response; ends when the client has it.
    fn poll_down(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        if ready!(self.down.poll_flush(cx)).is_err() {
            return Poll::Ready(self.happened(Event::Client(Input::Reset)));
        }
        if let Err(ending) = self.happened(Event::ResponseFlushed) {
            return Poll::Ready(Err(ending));
        }
        if !self.exchange.reads_server() {
            return Poll::Pending;
        }
        let (server, size) = (self.server, self.download_size());
        let read = poll_read(server, cx, size, |bytes| {
            if bytes.is_empty() {
                self.happened(Event::Server(Input::End))
            } else {
                self.server_sent(bytes)?;
                self.response_sent()
            }
        });
        read.map(|read| read.unwrap_or_else(|_| self.happened(Event::Server(Input::Reset))))
    }

    /// What came of the response was passed on. If that was its end, there is no other turn.
    fn response_sent(&mut self) -> Result<()> {
        if self.down.is_flushed() && self.exchange.request_is_sent() {
            self.happened(Event::ResponseFlushed)
        } else {
            Ok(())
        }
    }

    /// What follows the end of the body is the next request's, and waits for it: little of it is taken.
    fn upload_size(&self) -> usize {
        let owed = usize::try_from(self.exchange.client_owes()).unwrap_or(usize::MAX);
        let size = self.context.memory.read_size(&self.up);
        size.min(owed.saturating_add(PIECE))
    }

    /// A head is small.
    fn download_size(&self) -> usize {
        if self.exchange.is_in_body() {
            self.context.memory.read_size(&self.down)
        } else {
            PIECE
        }
    }

    fn client_sent(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return self.happened(Event::Client(Input::End));
        }
        let used = self.take_from_client(bytes)?;
        self.send_up(&bytes[..used])?;
        self.client_inbox.extend_from_slice(&bytes[used..]);
        self.holds();
        Ok(())
    }

    /// How many of the bytes are the request's.
    fn take_from_client(&mut self, bytes: &[u8]) -> Result<usize> {
        if bytes.is_empty() || !self.exchange.reads_client() {
            return Ok(0);
        }
        let event = Event::Client(Input::Bytes(bytes));
        match self.exchange.handle(event, &mut Vec::new()) {
            Action::Pass { used, .. } => Ok(used),
            Action::End(ending) => Err(ending),
            Action::Wait | Action::Head(_) => Ok(0),
        }
    }

    fn send_up(&mut self, bytes: &[u8]) -> Result<()> {
        // That it was sent is of no interest before the response.
        match self.up.write_soon(self.server.shared(), bytes, false) {
            Ok(()) => Ok(()),
            Err(error) => self.upstream_write_failed(&error),
        }
    }

    fn upstream_write_failed(&mut self, error: &io::Error) -> Result<()> {
        self.up.discard();
        let broke = is_break(error);
        self.happened(Event::UpstreamWriteFailed { broke })
    }

    /// Shows what came, behind what was shown in vain before, and passes on what goes to the client.
    fn server_sent(&mut self, bytes: &[u8]) -> Result<()> {
        if self.conn.context.is_draining() {
            self.exchange.drain();
        }
        if self.server_inbox.is_empty() {
            let used = self.pass(bytes)?;
            self.server_inbox.extend_from_slice(&bytes[used..]);
        } else {
            self.server_inbox.extend_from_slice(bytes);
            let inbox = mem::take(self.server_inbox);
            let used = self.pass(&inbox)?;
            // Of just the size of what is left.
            self.server_inbox.extend_from_slice(&inbox[used..]);
        }
        if self.holds() || !self.exchange.awaits_head() {
            Ok(())
        } else {
            let refused = Refused::new(503, "out of memory for responses");
            Err(ExchangeResult::Refused(refused))
        }
    }

    /// How many of the bytes were used. A head and the content behind it leave in one write.
    fn pass(&mut self, bytes: &[u8]) -> Result<usize> {
        OUT.with_borrow_mut(|out| {
            // Whatever became of the exchange before.
            out.clear();
            let passed = self.pass_by(bytes, out);
            out.clear();
            out.shrink_to(KEPT);
            passed
        })
    }

    fn pass_by(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<usize> {
        let mut used = 0;
        let mut direct = 0..0;
        while used < bytes.len() {
            let rest = Event::Server(Input::Bytes(&bytes[used..]));
            match self.exchange.handle(rest, out) {
                Action::Wait => break,
                Action::End(ending) => return Err(ending),
                Action::Head(length) => {
                    self.heads += 1;
                    used += length;
                }
                Action::Pass { used: length, data } => {
                    let data = used + data.start..used + data.end;
                    used += length;
                    if out.is_empty() && used == bytes.len() {
                        direct = data;
                    } else {
                        out.extend_from_slice(&bytes[data]);
                    }
                }
            }
        }
        self.exchange.commit();
        // It takes no memory beyond this: what waits for the client is in its outlet, and counted there.
        let sent = if out.is_empty() { &bytes[direct] } else { &out[..] };
        let sent = self.down.write_soon(self.client.shared(), sent, true);
        if sent.is_err() {
            self.happened(Event::Client(Input::Reset))?;
        }
        Ok(used)
    }

    fn happened(&mut self, event: Event<'_>) -> Result<()> {
        match self.exchange.handle(event, &mut Vec::new()) {
            Action::End(ending) => Err(ending),
            Action::Wait | Action::Head(_) | Action::Pass { .. } => Ok(()),
        }
    }

    /// Nothing moves; not even what came before the server's reset, if that `awaits_reset`.
    fn silence(&mut self, awaits_reset: bool) -> ExchangeResult {
        let upstream_blocked = !self.up.is_flushed();
        let event = if awaits_reset {
            Event::Server(Input::Reset)
        } else {
            Event::IdleTimeout { upstream_blocked }
        };
        self.happened(event)
            .err()
            .unwrap_or(ExchangeResult::Refused(Refused::new(504, "nothing moved")))
    }

    /// Gives the client what came before the server's reset, which is passed on to it behind that and would discard it.
    async fn deliver(&mut self, mut moved_at: Instant) {
        let limit = self.context.half_closed;
        let flushed = poll_fn(|cx| {
            let before = self.down.moved();
            if let Poll::Ready(flushed) = self.down.poll_flush(cx) {
                return Poll::Ready(flushed.is_ok());
            }
            if self.down.moved() != before {
                moved_at = Instant::now();
            }
            let timer = &mut *self.context.timer.borrow_mut();
            timer.poll_until(cx, moved_at + limit).map(|()| false)
        });
        if flushed.await {
            acknowledged(self.client, limit).await;
        }
    }

    /// Grows whenever something moves: an interim head, too, of which a client of HTTP/1.0 gets nothing.
    fn moved(&self) -> u64 {
        self.up.moved() + self.came()
    }

    /// Grows with what comes from the server.
    fn came(&self) -> u64 {
        self.down.moved() + self.heads
    }

    fn reads_client(&self) -> bool {
        self.exchange.reads_client() && self.up.is_flushed()
    }

    fn reads_server(&self) -> bool {
        self.exchange.reads_server() && self.down.is_flushed()
    }

    /// Counts what waits here; whether there is memory for it.
    fn holds(&self) -> bool {
        self.conn
            .permit
            .reserve(self.kept + self.client_inbox.len() + self.server_inbox.len())
    }
}
