//! One request, the server for it, and what becomes of both connections.

use std::rc::Rc;
use std::time::{Instant as Clock, SystemTime};

use tributary_wire::http::exchange::{ClientAfter, Exchange, ExchangeResult, ServerAfter};
use tributary_wire::http::{Authority, Method, Refused, Request, RequestTarget};

use super::client_buffer::ClientBuffer;
use super::exchange_driver::drive_exchange;
use super::server::{IdleUpstream, ServerConnection, name_of};
use crate::accounting::metrics::OK;
use crate::dial::DialError;
use crate::session::{Outcome, Session};

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
    session: &Session,
    client_buffer: &mut ClientBuffer,
    idle_upstream: &mut IdleUpstream,
    request: &Request,
    to: Option<&Authority>,
    since: Clock,
) -> AfterExchange {
    let RequestTarget::Absolute { authority, .. } = &request.target else {
        let why = "the request target must be an absolute http URI, or CONNECT";
        let refused = Refused::new(400, why).to_head(request.method == Method::Head);
        return AfterExchange::Refuse(refused, "".into());
    };
    let authority = to.unwrap_or(authority);
    let name = name_of(idle_upstream, authority);
    let mut reused = ServerConnection::reuse(idle_upstream, authority, request);
    loop {
        let is_kept = reused.is_some();
        let dialled = match reused.take() {
            Some(server) => Ok(server),
            None => ServerConnection::dial(session, authority, &name, request).await,
        };
        let mut server = match dialled {
            Ok(server) => server,
            Err(error) => return AfterExchange::NoServer(error, name),
        };
        // A server that had just left is no reason to give up: another connection to it may serve.
        match ask(session, client_buffer, &mut server, request, is_kept).await {
            ExchangeResult::Retry if is_kept => {
                if let Err(refused) = client_buffer.reserve(session, request, request.head_len()) {
                    return AfterExchange::Refuse(refused, name);
                }
            }
            ending => return conclude(session, idle_upstream, server, &ending, name, since),
        }
    }
}

/// Asks this server.
async fn ask(
    session: &Session,
    client_buffer: &mut ClientBuffer,
    server: &mut ServerConnection,
    request: &Request,
    is_kept: bool,
) -> ExchangeResult {
    let mut head = Vec::new();
    let limits = session.http_limits();
    match Exchange::begin(request, is_kept, limits, SystemTime::now, &mut head) {
        Ok(mut exchange) => {
            let idle_upstream = request.memory();
            let ending = drive_exchange(
                session,
                client_buffer,
                server,
                &mut exchange,
                &mut head,
                idle_upstream,
            )
            .await;
            session.malformed_fields(&server.name, exchange.malformed_fields());
            ending
        }
        Err(refused) => ExchangeResult::Refused(refused),
    }
}

/// Writes the exchange's line, unless the client still gets an answer, and closes the server's connection or keeps it.
fn conclude(
    session: &Session,
    idle_upstream: &mut IdleUpstream,
    mut server: Box<ServerConnection>,
    ending: &ExchangeResult,
    name: Rc<str>,
    since: Clock,
) -> AfterExchange {
    let size = server.server.size.take();
    let outcome = |name_of_it, status| Outcome {
        target: &name,
        server: Some(server.server.address),
        size,
        status,
        ..Outcome::new(name_of_it, since)
    };
    match *ending {
        ExchangeResult::Completed(completed) => {
            session.log_request(&outcome(OK, Some(completed.status)));
            let_go(server, completed.server, idle_upstream);
            match completed.client {
                ClientAfter::Keep => AfterExchange::KeepAlive,
                ClientAfter::Close => AfterExchange::Close,
                ClientAfter::Linger => AfterExchange::Linger,
            }
        }
        ExchangeResult::Aborted { status, fault } => {
            session.log_request(&outcome(fault.name(), status));
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
