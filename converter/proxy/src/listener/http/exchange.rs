//! One request, the server for it, and what becomes of both connections.

use std::rc::Rc;
use std::time::{Duration, Instant as Clock, SystemTime};

use tributary_proto::http::exchange::{ClientAfter, Exchange, ExchangeResult, ServerAfter};
use tributary_proto::http::{Authority, Body, MalformedFields, Refused, Request};

use super::ClientBuffer;
use super::exchange_driver::drive_exchange;
use crate::config::RequestSize;
use crate::io::conn::Conn;
use crate::observe::Summary;
use crate::observe::metrics::OK;
use crate::upstream::{DialError, DialOptions, ExpectedSize, KnownBy, Upstream, connect};

/// What is to be done after an exchange.
pub enum AfterExchange {
    /// The client may ask for more.
    KeepAlive,
    /// The client's connection is over.
    Close,
    /// It ends, and what the client still sends is taken for a while.
    Linger,
    /// The client gets a refusal.
    Refuse(Refused, Rc<str>),
    /// There is no server, for this reason.
    NoServer(DialError, Rc<str>),
    /// Both connections are reset.
    Abort,
    /// The connections carry another protocol now.
    Tunnel(Box<ServerConnection>, u16),
}

/// One request and its response. What only some exchanges need is left to the caller: this one is made for every
/// request. `to` is asked in place of the server that the request names.
pub async fn exchange(
    conn: &Conn,
    client_buffer: &mut ClientBuffer,
    idle_upstream: &mut IdleUpstream,
    request: &Request,
    to: Option<&Authority>,
    since: Clock,
) -> AfterExchange {
    let (origin, head) = match request.forwarded() {
        Ok(forwarded) => forwarded,
        Err(refused) => return AfterExchange::Refuse(refused, "".into()),
    };
    let authority = to.unwrap_or(origin);
    let name = name_of(idle_upstream, authority);
    let mut reused = ServerConnection::reuse(idle_upstream, authority, request);
    loop {
        let is_kept = reused.is_some();
        let dialled = match reused.take() {
            Some(server) => Ok(server),
            None => ServerConnection::dial(conn, authority, &name, request).await,
        };
        let mut server = match dialled {
            Ok(server) => server,
            Err(error) => return AfterExchange::NoServer(error, name),
        };
        // A server that had just left is no reason to give up: another connection to it may serve.
        let limits = &conn.context.http;
        let mut exchange = Exchange::begin(request, is_kept, limits, SystemTime::now);
        let kept = request.memory();
        let driven = drive_exchange(conn, client_buffer, &mut server, &mut exchange, head, kept);
        let ending = driven.await;
        note_malformed(conn, &server.name, exchange.malformed_fields());
        match ending {
            ExchangeResult::Retry if is_kept => {}
            ending => return conclude(conn, idle_upstream, server, &ending, name, since),
        }
    }
}

/// A server has sent field lines that are left out of its response: shows the first one in the log, and counts all.
fn note_malformed(conn: &Conn, server: &str, lines: &MalformedFields) {
    if lines.count == 0 {
        return;
    }
    let metrics = conn.metrics();
    metrics.malformed_fields.inc_by(lines.count as u64);
    if conn.context.warnings.take() {
        let line = String::from_utf8_lossy(&lines.first);
        tracing::warn!("{server} sent a malformed field line, which is left out: {line:?}");
    }
}

/// Writes the exchange's line, unless the client still gets an answer, and closes the server's connection or keeps it.
fn conclude(
    conn: &Conn,
    idle_upstream: &mut IdleUpstream,
    mut server: Box<ServerConnection>,
    ending: &ExchangeResult,
    name: Rc<str>,
    since: Clock,
) -> AfterExchange {
    let size = server.server.size.take();
    let outcome = |name_of_it, status| Summary {
        target: &name,
        server: Some(server.server.address),
        size,
        status,
        ..Summary::new(name_of_it, since)
    };
    match *ending {
        ExchangeResult::Completed(completed) => {
            conn.record_request(&outcome(OK, Some(completed.status)));
            let_go(server, completed.server, idle_upstream);
            match completed.client {
                ClientAfter::Keep => AfterExchange::KeepAlive,
                ClientAfter::Close => AfterExchange::Close,
                ClientAfter::Linger => AfterExchange::Linger,
            }
        }
        ExchangeResult::Aborted { status, fault } => {
            conn.record_request(&outcome(fault.name(), status));
            AfterExchange::Abort
        }
        ExchangeResult::Refused(refused) => AfterExchange::Refuse(refused, name),
        ExchangeResult::Upgraded { status } => AfterExchange::Tunnel(server, status),
        // Only a kept server is left for another one.
        ExchangeResult::Retry => AfterExchange::Abort,
    }
}

fn let_go(mut server: Box<ServerConnection>, after: ServerAfter, idle_upstream: &mut IdleUpstream) {
    match after {
        ServerAfter::Keep => {
            server.rest();
            *idle_upstream = Some(server);
        }
        ServerAfter::Close => server.server.stream.disarm(),
        ServerAfter::Reset => drop(server),
    }
}

/// A server that ends a connection which has rested for so long may do so at the very moment at which a request is sent.
/// Servers' own limits begin at some two seconds.
const RESTED: Duration = Duration::from_secs(1);

/// The connection of the request before, if it can be used again. In a box: it goes from hand to hand for every request.
pub type IdleUpstream = Option<Box<ServerConnection>>;

/// A connection to a server.
pub struct ServerConnection {
    authority: Authority,
    /// The same as text.
    pub name: Rc<str>,
    /// The connection; the size that its way was chosen by until the log has that.
    pub server: Upstream,
    /// What came and is not used yet.
    pub inbox: Vec<u8>,
    /// Since when it waits for the next request.
    rests_since: Clock,
}

impl ServerConnection {
    /// A new one, for `request`.
    pub async fn dial(
        conn: &Conn,
        authority: &Authority,
        name: &Rc<str>,
        request: &Request,
    ) -> Result<Box<Self>, DialError> {
        let options = DialOptions {
            size: known_size(conn, request),
            ..DialOptions::default()
        };
        let dialled = connect(conn, authority, name, options, &[]);
        let mut server = Box::pin(dialled).await?;
        let inbox = std::mem::take(&mut server.early);
        Ok(Box::new(Self {
            authority: authority.clone(),
            name: Rc::clone(name),
            server,
            inbox,
            rests_since: Clock::now(),
        }))
    }

    /// It waits for the next request: to drop it closes it in order, and it holds no memory.
    pub fn rest(&mut self) {
        self.server.stream.disarm();
        self.inbox = Vec::new();
        self.rests_since = Clock::now();
    }

    /// The idle one, if it is for `authority`, nothing came there that nobody had asked for, and `request` may be
    /// sent again or the server will hardly end it just now (RFC 9112 section 9.3.1).
    pub fn reuse(
        idle_upstream: &mut IdleUpstream,
        authority: &Authority,
        request: &Request,
    ) -> Option<Box<Self>> {
        let mut idle_upstream = idle_upstream.take()?;
        let has_rested = idle_upstream.rests_since.elapsed() >= RESTED;
        let can_serve = idle_upstream.authority == *authority
            && (request.is_repeatable() || !has_rested)
            && idle_upstream.server.stream.is_quiet();
        if can_serve {
            idle_upstream.server.stream.rearm();
        }
        can_serve.then_some(idle_upstream)
    }
}

/// The name of `authority` in logs, which the connection that was kept may have already.
pub fn name_of(idle_upstream: &IdleUpstream, authority: &Authority) -> Rc<str> {
    match idle_upstream {
        Some(idle_upstream) if idle_upstream.authority == *authority => {
            Rc::clone(&idle_upstream.name)
        }
        _ => authority.to_string().into(),
    }
}

/// How large the transfer of a client's `request` will be, if that is known by the request and decides its way.
pub fn known_size(conn: &Conn, request: &Request) -> Option<ExpectedSize> {
    let via_gateway = conn.listener.listen.via_gateway;
    let gateway = conn.config.gateway.as_ref().filter(|_| via_gateway)?;
    expected_size(request, &gateway.sizes)
}

/// That of the request's content, if it has some and says how much; otherwise what the first of `sizes` says that is for it.
/// `None` if neither does.
fn expected_size(request: &Request, sizes: &[RequestSize]) -> Option<ExpectedSize> {
    if let Body::Length(bytes @ 1..) = request.body {
        let by = KnownBy::ContentLength;
        return Some(ExpectedSize { bytes, by });
    }
    let mut known = sizes.iter();
    let known = known.find(|each| each.covers(request.method.as_str(), request.path()));
    known.map(|each| ExpectedSize {
        bytes: each.size as u64,
        by: KnownBy::Path,
    })
}
