//! HTTP/1.1 as to a proxy (RFC 9110, RFC 9112): CONNECT becomes a tunnel, absolute-form is forwarded, one request after
//! the other. What could be read in two ways never gets past the parser.

mod exchange;
mod exchange_driver;

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::time::{Duration, Instant as Clock};

use tokio::time::{Instant, sleep};
use tributary_proto::http::refused::write_options;
use tributary_proto::http::{Authority, HeadReader, Method, Refused, Request, RequestTarget};

use super::PIECE;
use crate::io::conn::{Conn, DrainNotice};
use crate::io::relay;
use crate::observe::{RelayResult, Summary};
use crate::policy::admission::NotAdmitted;
use crate::upstream::{DialError, DialOptions, IdleUpstream, ServerConnection, connect};
pub(super) use exchange::{AfterExchange, exchange};

/// Serves one client. In boxes: a tunnel lasts, and keeps no room for the requests before it.
pub async fn serve(conn: Box<Conn>) {
    if let Some((conn, authority, early)) = Box::pin(serve_requests(conn)).await {
        Box::pin(tunnel(conn, &authority, early, ESTABLISHED, Some(200))).await;
    }
}

/// Answers requests until the client's connection is over. `None`, or the server to which it asks for a tunnel, and what came
/// behind that.
async fn serve_requests(mut conn: Box<Conn>) -> Option<(Box<Conn>, Authority, Vec<u8>)> {
    let mut client_buffer = ClientBuffer::default();
    let mut idle_upstream = IdleUpstream::of(&conn.listener.idle_pool);
    let mut deadline = Some(Instant::now() + conn.config.timeouts.request);
    let draining = pin!(conn.context.draining());
    let mut draining = DrainNotice::by(draining);
    loop {
        let until = deadline.take();
        let asks = next_request(&conn, &mut client_buffer, until, &mut draining);
        let next = while_watching(&mut idle_upstream, pin!(asks)).await;
        let request = match next {
            Next::Request(request, head) => {
                client_buffer.consume(head);
                request
            }
            Next::End => {
                conn.finish_gracefully();
                return None;
            }
            Next::Refused(refused) => {
                client_buffer.discard(&conn);
                Box::pin(refuse(conn, refused, "", Clock::now())).await;
                return None;
            }
        };
        if request.is_for_proxy() {
            conn = Box::pin(answer_options(conn, &request)).await?;
            continue;
        }
        if let RequestTarget::Connect(authority) = request.target {
            return Some((conn, authority, client_buffer.inbox));
        }
        let since = Clock::now();
        // In boxes, as all that is rare or long: a client that asks for nothing takes little memory.
        let exchange = exchange(&conn, &mut client_buffer, &mut idle_upstream, &request, None, since);
        match Box::pin(exchange).await {
            AfterExchange::KeepAlive => {}
            left => {
                Box::pin(end(conn, client_buffer, request, left, since)).await;
                return None;
            }
        }
    }
}

/// Does `action`. A kept connection that its server ends meanwhile is closed at once (RFC 9112 section 9.5), and so is one
/// on which it says something unasked.
pub async fn while_watching<T>(idle_upstream: &mut IdleUpstream, mut action: Pin<&mut impl Future<Output = T>>) -> T {
    poll_fn(|cx| {
        let done = action.as_mut().poll(cx);
        // Otherwise it is about to be used, or left, and looked at then.
        if done.is_pending() {
            idle_upstream.poll(cx);
        }
        done
    })
    .await
}

/// Does what is left to do for a client that asks for no more.
pub async fn end(
    mut conn: Box<Conn>,
    mut client_buffer: ClientBuffer,
    request: Request,
    left: AfterExchange,
    since: Clock,
) {
    let to_head = request.method == Method::Head;
    // An end may take half a minute, and a tunnel lasts.
    drop(request);
    if !matches!(left, AfterExchange::Tunnel(..)) {
        client_buffer.discard(&conn);
    }
    match left {
        AfterExchange::KeepAlive | AfterExchange::Close => conn.finish_gracefully(),
        AfterExchange::Linger => {
            conn.finish_gracefully();
            conn.stream.send_and_linger(&[]).await;
        }
        AfterExchange::Refuse(refused, target) => refuse(conn, refused, &target, since).await,
        AfterExchange::NoServer(error, target) => {
            refuse_dial(conn, &error, to_head, &target, since).await;
        }
        AfterExchange::Abort => drop(conn.record_subflows()),
        AfterExchange::Tunnel(server, status) => {
            let ServerConnection {
                mut server,
                inbox,
                name,
                ..
            } = *server;
            server.early = inbox;
            let summary = Summary {
                status: Some(status),
                ..Summary::of(&server, &name, since)
            };
            let ended = relay(&mut conn, server, &[], client_buffer.inbox.into()).await;
            conn.record(&summary.ended(ended));
        }
    }
}

/// Answers OPTIONS for the proxy itself (RFC 9110 section 9.3.7). Returns the connection if another request may follow.
async fn answer_options(mut conn: Box<Conn>, request: &Request) -> Option<Box<Conn>> {
    let since = Clock::now();
    if request.body.has_content() {
        let refused = Refused::new(400, "OPTIONS for the proxy with content");
        refuse(conn, refused, "", since).await;
        return None;
    }
    let mut out = Vec::new();
    let keep_alive = request.keep_alive && !conn.context.is_draining();
    let status = write_options(keep_alive, &mut out);
    conn.record_request(&Summary {
        status: Some(status),
        ..Summary::new("options", since)
    });
    if !keep_alive {
        conn.finish_gracefully();
        conn.stream.send_and_linger(&out).await;
        return None;
    }
    let deadline = Some(Instant::now() + conn.config.timeouts.request);
    let sent = conn.stream.send(&out, deadline).await;
    if sent.is_err() {
        conn.finish_gracefully();
        return None;
    }
    Some(conn)
}

const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

/// Connects the client to a server, and relays once it has the `reply` (RFC 9110 section 9.3.6). `early` came from it
/// already.
pub async fn tunnel(mut conn: Box<Conn>, authority: &Authority, early: Vec<u8>, reply: &[u8], status: Option<u16>) {
    let since = Clock::now();
    let name = authority.text();
    conn.permit.reserve(early.len());
    match connect(&conn, authority, &name, DialOptions::for_relay(), &early).await {
        Ok(upstream) => {
            let summary = Summary {
                status,
                ..Summary::of(&upstream, &name, since)
            };
            let ended = relay(&mut conn, upstream, reply, early.into()).await;
            conn.record(&summary.ended(ended));
        }
        Err(error) => Box::pin(refuse_dial(conn, &error, false, &name, since)).await,
    }
}

/// Memory for heads that a client which asks for nothing may hold on to.
const SMALL: usize = 4 << 10;

/// Why a client's request is not taken.
pub const NO_MEMORY: Refused = Refused::new(503, "out of memory for requests");

/// So many bytes as they are counted: few are part of what every connection takes.
pub fn counted(bytes: usize) -> usize {
    if bytes > SMALL { bytes } else { 0 }
}

/// What came from the client and is not used yet, and where its next head begins.
#[derive(Default)]
pub struct ClientBuffer {
    /// What came.
    pub inbox: Vec<u8>,
    /// Reads the heads in it.
    pub reader: HeadReader,
}

impl ClientBuffer {
    /// No other request is read: what came of one needs no memory while the client hears of its end.
    pub fn discard(&mut self, conn: &Conn) {
        self.inbox = Vec::new();
        conn.permit.reserve(0);
    }

    /// Refuses a request for which there is no memory: for its head, and for what is in the inbox.
    pub fn reserve(&self, conn: &Conn, request: &Request) -> Result<(), Refused> {
        let bytes = request.memory() + self.inbox.len();
        if conn.permit.reserve(counted(bytes)) {
            Ok(())
        } else {
            Err(NO_MEMORY.to_head(request.method == Method::Head))
        }
    }

    /// So many bytes, those of a head, were used.
    pub fn consume(&mut self, head: usize) {
        self.inbox.drain(..head);
        // A byte behind a large head needs no such memory; a copy of the rest for each of many small heads is spared.
        if self.inbox.capacity() > SMALL.max(2 * self.inbox.len()) {
            self.inbox.shrink_to_fit();
        }
    }

    /// Nothing is here: lets go of memory that a large head took.
    pub fn shrink(&mut self) {
        if self.inbox.is_empty() && self.inbox.capacity() > SMALL {
            self.inbox = Vec::new();
        }
    }
}

/// When the process ends, the first request of a client that has come already may be on its way for so long.
const ON_ITS_WAY: Duration = Duration::from_secs(1);

pub enum Next {
    /// An exchange, or a tunnel; bytes of its head, with which the inbox begins.
    Request(Request, usize),
    /// The client, or this process, wants no more.
    End,
    /// Something that it cannot have.
    Refused(Refused),
}

/// The next request; it must be whole at the deadline, or in time after its first byte where there is none yet.
pub async fn next_request(
    conn: &Conn,
    client_buffer: &mut ClientBuffer,
    deadline: Option<Instant>,
    draining: &mut DrainNotice<'_, impl Future<Output = ()>>,
) -> Next {
    let timeouts = &conn.config.timeouts;
    let idle = Instant::now() + timeouts.idle;
    let mut whole_by = deadline;
    loop {
        match client_buffer.reader.request(&client_buffer.inbox, &conn.context.http) {
            Ok(Some((request, length))) => {
                return match client_buffer.reserve(conn, &request) {
                    Ok(()) => Next::Request(request, length),
                    Err(refused) => Next::Refused(refused),
                };
            }
            Ok(None) => {}
            Err(refused) => return Next::Refused(refused),
        }
        client_buffer.shrink();
        if !conn.permit.reserve(client_buffer.inbox.len()) {
            return Next::Refused(NO_MEMORY);
        }
        let begun = client_buffer.reader.has_begun();
        if begun && whole_by.is_none() {
            whole_by = Some(Instant::now() + timeouts.request);
        }
        let wait = Some(whole_by.unwrap_or(idle));
        let read = conn.stream.read_more(&mut client_buffer.inbox, PIECE, wait);
        tokio::select! {
            biased; // to begin with any of them takes a random number
            read = read => match read {
                Ok(count) if count > 0 => {}
                Ok(_) if begun => return Next::Refused(Refused::new(400, "the head was cut short")),
                Err(error) if error.kind() == io::ErrorKind::TimedOut && whole_by.is_some() => {
                    return Next::Refused(Refused::new(408, "the head took too long"));
                }
                _ => return Next::End,
            },
            () = told_to_end(conn, draining, deadline.is_some()), if !begun => return Next::End,
        }
    }
}

/// Ready once this process is about to end and nobody waits for the client any more, who has not asked yet.
async fn told_to_end(conn: &Conn, draining: &mut DrainNotice<'_, impl Future<Output = ()>>, is_first: bool) {
    poll_fn(|cx| draining.poll(cx, &conn.context)).await;
    if is_first {
        sleep(ON_ITS_WAY).await;
    }
}

/// The response to a client that is not let in.
pub fn refusal(refusal: NotAdmitted) -> Vec<u8> {
    let refused = match refusal {
        NotAdmitted::UnknownClient => Refused::new(403, "this client may not use the converter"),
        NotAdmitted::Full | NotAdmitted::ClientFull => Refused::new(503, "too many connections"),
        NotAdmitted::Buffered => Refused::new(503, "out of memory for connections"),
        NotAdmitted::ClientBuffered => Refused::new(503, "out of memory for this client's connections"),
    };
    written(refused)
}

fn written(refused: Refused) -> Vec<u8> {
    let mut out = Vec::new();
    refused.write(&mut out);
    out
}

pub async fn refuse_dial(conn: Box<Conn>, error: &DialError, to_head: bool, target: &str, since: Clock) {
    let refused = match error {
        DialError::Forbidden(_) => Refused::new(403, "this target may not be reached"),
        DialError::NoSuchName => Refused::new(502, "there is no such name"),
        DialError::NamesFailed => Refused::new(502, "the name servers do not answer"),
        DialError::Reset => Refused::new(502, "the server refuses the connection"),
        DialError::Unreachable(_) => Refused::new(502, "the server cannot be reached"),
        DialError::TimedOut => Refused::new(504, "the server did not answer in time"),
        DialError::Exhausted | DialError::NoPort => Refused::new(503, "out of descriptors, ports or memory"),
        DialError::GatewayUnavailable => Refused::new(502, "the gateway is unavailable"),
        DialError::GatewayFailed => Refused::new(502, "the gateway could not serve this request"),
        DialError::System => Refused::new(502, "the connection to the server failed"),
    };
    send_refusal(conn, refused.to_head(to_head), error.name(), target, since).await;
}

/// The request, or the server's response, cannot be served.
pub async fn refuse(conn: Box<Conn>, refused: Refused, target: &str, since: Clock) {
    let name = outcome_of(refused.status);
    send_refusal(conn, refused, name, target, since).await;
}

async fn send_refusal(mut conn: Box<Conn>, refused: Refused, name: &str, target: &str, since: Clock) {
    conn.record(&Summary {
        target,
        status: Some(refused.status),
        ..Summary::new(name, since)
    });
    conn.stream.send_and_linger(&written(refused)).await;
}

/// For logs and metrics.
fn outcome_of(status: u16) -> &'static str {
    match status {
        408 => "request-timed-out",
        502 => "bad-gateway",
        503 => "buffers-full",
        504 => RelayResult::IdleTimeout.name(),
        508 => "loop",
        _ => "bad-request",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As operators read of them (docs/operate.md).
    #[test]
    fn a_refusal_is_counted_as_what_happened() {
        for (status, outcome) in [
            (400, "bad-request"),
            (408, "request-timed-out"),
            (431, "bad-request"),
            (502, "bad-gateway"),
            (NO_MEMORY.status, "buffers-full"),
            (504, "idle-timeout"),
            (508, "loop"),
        ] {
            assert_eq!(outcome_of(status), outcome, "{status}");
        }
    }
}
