//! One request, the server for it, and what becomes of both connections.

use std::rc::Rc;
use std::time::{Instant as Clock, SystemTime};

use tributary_proto::http::exchange::{ClientAfter, Exchange, ExchangeResult, ServerAfter};
use tributary_proto::http::{Authority, Body, MalformedFields, Refused, Request};

use super::ClientBuffer;
use super::exchange_driver::drive_exchange;
use crate::config::RequestSize;
use crate::io::conn::Conn;
use crate::observe::Summary;
use crate::observe::metrics::OK;
use crate::upstream::{DialError, DialOptions, ExpectedSize, IdleUpstream, KnownBy, ServerConnection, connect};

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
    let size = known_size(conn, request);
    let mut reused = loop {
        match idle_upstream.take(authority, request.is_repeatable(), size.is_some()) {
            Some(server) if server.is_cut_off() => {}
            taken => break taken,
        }
    };
    let name = match &reused {
        Some(server) => {
            conn.stats().set_target(&server.name);
            conn.metrics().reused_upstreams.inc();
            Rc::clone(&server.name)
        }
        None => authority.text().into(),
    };
    loop {
        let is_kept = reused.is_some();
        let dialled = match reused.take() {
            Some(server) => Ok(server),
            // In a box, as this is larger than all else, and most servers are kept.
            None => Box::pin(dial(conn, authority, &name, size)).await,
        };
        let mut server = match dialled {
            Ok(server) => server,
            Err(error) => return AfterExchange::NoServer(error, name),
        };
        // A server that had just left is no reason to give up: another connection to it may serve.
        let limits = &conn.context.http;
        let mut exchange = Exchange::begin(request, is_kept, limits, SystemTime::now);
        let kept = request.memory();
        let hop = server.server.hop.clone().filter(|_| is_kept);
        let unavailable = hop.zip(conn.config.gateway.as_ref());
        let unavailable = unavailable
            .map(|(hop, gateway)| Box::pin(async move { hop.unavailable(gateway, &conn.config.upstream).await }));
        let driven = drive_exchange(conn, client_buffer, &mut server, &mut exchange, head, kept, unavailable);
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
        ServerAfter::Keep | ServerAfter::KeepForClient => {
            server.is_private |= after == ServerAfter::KeepForClient;
            idle_upstream.keep(server);
        }
        ServerAfter::Close => server.server.stream.disarm(),
        ServerAfter::Reset => drop(server),
    }
}

/// A new connection to the server, for a transfer of this size.
async fn dial(
    conn: &Conn,
    authority: &Authority,
    name: &Rc<str>,
    size: Option<ExpectedSize>,
) -> Result<Box<ServerConnection>, DialError> {
    let options = DialOptions {
        size,
        ..DialOptions::default()
    };
    let server = connect(conn, authority, name, options, &[]).await?;
    let name = Rc::clone(name);
    Ok(Box::new(ServerConnection::new(authority.clone(), name, server)))
}

/// How large the transfer of a client's `request` will be, if that is known by the request and decides its way.
fn known_size(conn: &Conn, request: &Request) -> Option<ExpectedSize> {
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
