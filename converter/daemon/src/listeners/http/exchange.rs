//! One request, the server for it, and what becomes of both connections.

use std::rc::Rc;
use std::time::{Instant as Clock, SystemTime};

use tributary_wire::http::exchange::{ClientAfter, Exchange, ExchangeResult, ServerAfter};
use tributary_wire::http::{Authority, Method, Refused, Request, RequestTarget};

use super::client_buffer::ClientBuffer;
use super::exchange_driver::drive_exchange;
use super::server::{Kept, ServerConnection, name_of};
use crate::accounting::metrics::OK;
use crate::dial::DialError;
use crate::session::{Outcome, Session};

/// What is left to do behind an exchange that changes nothing for a next one.
pub enum Left {
    /// The client may ask for more.
    Nothing,
    /// The client's connection is over.
    Close,
    /// It ends, and what the client still sends is taken for a while.
    Linger,
    /// The client is told why it gets nothing.
    Refuse(Refused, Rc<str>),
    /// There is no server, for this reason.
    NoServer(DialError, Rc<str>),
    /// Nobody is told anything: both connections break.
    Break,
    /// The connections carry another protocol now.
    Tunnel(Box<ServerConnection>, u16),
}

/// One request and its response. What only some exchanges need is left to the caller: this one is taken anew for every
/// request. `to` is asked in place of the server that the request names.
pub async fn exchange(
    session: &Session,
    client_buffer: &mut ClientBuffer,
    kept: &mut Kept,
    request: &Request,
    to: Option<&Authority>,
    since: Clock,
) -> Left {
    let RequestTarget::Absolute { authority, .. } = &request.target else {
        let why = "the request target must be an absolute http URI, or CONNECT";
        let refused = Refused::new(400, why).to_head(request.method == Method::Head);
        return Left::Refuse(refused, "".into());
    };
    let authority = to.unwrap_or(authority);
    let name = name_of(kept, authority);
    let mut reused = ServerConnection::reuse(kept, authority, request);
    loop {
        let is_kept = reused.is_some();
        let dialled = match reused.take() {
            Some(server) => Ok(server),
            None => ServerConnection::dial(session, authority, &name, request).await,
        };
        let mut server = match dialled {
            Ok(server) => server,
            Err(error) => return Left::NoServer(error, name),
        };
        // A server that had just left is no reason to give up: another connection to it may serve.
        match ask(session, client_buffer, &mut server, request, is_kept).await {
            ExchangeResult::Retry if is_kept => {
                if let Err(refused) = client_buffer.reserve(session, request, request.head_len()) {
                    return Left::Refuse(refused, name);
                }
            }
            ending => return conclude(session, kept, server, &ending, name, since),
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
            let kept = request.memory();
            let ending = drive_exchange(
                session,
                client_buffer,
                server,
                &mut exchange,
                &mut head,
                kept,
            )
            .await;
            session.malformed_fields(&server.name, exchange.malformed_fields());
            ending
        }
        Err(refused) => ExchangeResult::Refused(refused),
    }
}

/// Writes the exchange's line, unless the client is still to be told something, and lets the server go, or keeps it.
fn conclude(
    session: &Session,
    kept: &mut Kept,
    mut server: Box<ServerConnection>,
    ending: &ExchangeResult,
    name: Rc<str>,
    since: Clock,
) -> Left {
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
            let_go(server, completed.server, kept);
            match completed.client {
                ClientAfter::Keep => Left::Nothing,
                ClientAfter::Close => Left::Close,
                ClientAfter::Linger => Left::Linger,
            }
        }
        ExchangeResult::Aborted { status, fault } => {
            session.log_request(&outcome(fault.name(), status));
            Left::Break
        }
        ExchangeResult::Refused(refused) => Left::Refuse(refused, name),
        ExchangeResult::Upgraded { status } => Left::Tunnel(server, status),
        // Only a kept server is left for another one.
        ExchangeResult::Retry => Left::Break,
    }
}

fn let_go(mut server: Box<ServerConnection>, after: ServerAfter, kept: &mut Kept) {
    match after {
        ServerAfter::Keep => {
            server.rest();
            *kept = Some(server);
        }
        ServerAfter::Close => server.server.stream.disarm(),
        ServerAfter::Reset => drop(server),
    }
}
