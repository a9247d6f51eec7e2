//! One request, the server for it, and what becomes of both connections.

use std::rc::Rc;
use std::time::{Instant as Clock, SystemTime};

use tributary_wire::http::exchange::{ClientAfter, Completed, Ending, Exchange, ServerAfter};
use tributary_wire::http::{Authority, Method, Refused, Request, RequestTarget};

use super::carrier::carry;
use super::front::Front;
use super::refusals::{refuse, refuse_dial};
use super::server::{Kept, ServerConnection, name_of};
use crate::accounting::metrics::WHOLE;
use crate::dial::DialError;
use crate::session::{Outcome, Session};

/// One request and its response; the session, if another request may follow. What only some exchanges need is in boxes
/// of its own: the box for this one is taken anew for every request.
pub async fn exchange(
    session: Session,
    front: &mut Front,
    kept: &mut Kept,
    request: &Request,
) -> Option<Session> {
    let since = Clock::now();
    let RequestTarget::Absolute { authority, .. } = &request.target else {
        let why = "the request target must be an absolute http URI, or CONNECT";
        let refused = Refused::new(400, why).to_head(request.method == Method::Head);
        Box::pin(refuse(session, refused, "", since)).await;
        return None;
    };
    let name = name_of(kept, authority);
    match ask(&session, front, kept, request, authority, &name).await {
        Ok((ending, server)) => {
            let outcome = Outcome {
                target: &name,
                server: Some(server.server.address),
                ..Outcome::new(WHOLE, since)
            };
            match ending {
                Ending::Completed(completed) => {
                    let client = complete(session, completed, server, kept, outcome);
                    Box::pin(client).await
                }
                ending => {
                    Box::pin(go_on(session, front, server, ending, outcome)).await;
                    None
                }
            }
        }
        Err(error) => {
            let to_head = request.method == Method::Head;
            Box::pin(refuse_dial(session, &error, to_head, &name, since)).await;
            None
        }
    }
}

/// The exchange with a server that is there already, or a new one; with a second one where the first had just left.
async fn ask(
    session: &Session,
    front: &mut Front,
    kept: &mut Kept,
    request: &Request,
    authority: &Authority,
    name: &Rc<str>,
) -> Result<(Ending, ServerConnection), DialError> {
    if let Some(mut server) = ServerConnection::reuse(kept, authority) {
        let ending = ask_one(session, front, &mut server, request, true).await;
        if ending != Ending::Repeat {
            return Ok((ending, server));
        }
    }
    let mut server = ServerConnection::dial(session, authority, name).await?;
    let ending = ask_one(session, front, &mut server, request, false).await;
    Ok((ending, server))
}

async fn ask_one(
    session: &Session,
    front: &mut Front,
    server: &mut ServerConnection,
    request: &Request,
    is_kept: bool,
) -> Ending {
    let mut head = Vec::new();
    let limits = session.http_limits();
    match Exchange::begin(request, is_kept, limits, SystemTime::now, &mut head) {
        Ok(exchange) => carry(session, front, server, exchange, head).await,
        Err(refused) => Ending::Refused(refused),
    }
}

/// The client has its response; the session, if it may ask for another one.
async fn complete(
    mut session: Session,
    completed: Completed,
    mut server: ServerConnection,
    kept: &mut Kept,
    outcome: Outcome<'_>,
) -> Option<Session> {
    session.note(&Outcome {
        status: Some(completed.status),
        ..outcome
    });
    match completed.server {
        ServerAfter::Keep => {
            server.rest();
            *kept = Some(server);
        }
        ServerAfter::Close => server.server.stream.finish(),
        ServerAfter::Reset => drop(server),
    }
    match completed.client {
        ClientAfter::Keep => return Some(session),
        ClientAfter::Close => session.leave(),
        ClientAfter::Linger => {
            session.leave();
            session.stream.end_with(&[]).await;
        }
    }
    None
}

/// Does what is to be done behind an exchange that is not whole, and writes its line. `outcome` is that of a whole one.
async fn go_on(
    session: Session,
    front: &mut Front,
    server: ServerConnection,
    ending: Ending,
    outcome: Outcome<'_>,
) {
    let Outcome { target, since, .. } = outcome;
    match ending {
        Ending::Refused(refused) => {
            // It may be in the midst of a request, and shall know before the client does.
            drop(server);
            refuse(session, refused, target, since).await;
        }
        Ending::Broken { status, fault } => {
            session.note(&Outcome {
                name: fault.name(),
                status,
                ..outcome
            });
            session.paths();
        }
        Ending::Switched { status } => {
            let ServerConnection {
                mut server, inbox, ..
            } = server;
            server.early = inbox;
            let early = std::mem::take(&mut front.inbox);
            session
                .tunnel(server, &[], early, target, since, Some(status))
                .await;
        }
        Ending::Completed(_) | Ending::Repeat => {}
    }
}
