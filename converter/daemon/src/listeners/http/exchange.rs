//! One request, the server for it, and what becomes of both connections.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Instant as Clock;

use tokio::time::Instant;
use tributary_wire::http::refused::write_options;
use tributary_wire::http::{
    Authority, Awaited, BodyReader, HeadReader, Hop, Method, Refused, Request, RequestTarget,
};

use super::refusals::{refuse, refuse_dial};
use super::response::respond;
use super::{Side, target};
use crate::accounting::metrics::WHOLE;
use crate::bytes::flow::{FlowState, MessageBody};
use crate::bytes::relay::transfer;
use crate::bytes::stream::Stream;
use crate::dial::{DialError, DialOptions, Server};
use crate::session::{Outcome, Session};

/// The server of the last request, which may serve the next one too.
pub struct Back {
    authority: Authority,
    /// The same as text.
    name: Rc<str>,
    server: Server,
    side: Side,
}

impl Back {
    fn can_serve(&self, authority: &Authority) -> bool {
        self.authority == *authority && self.side.inbox.is_empty() && self.server.stream.is_quiet()
    }
}

/// An exchange that is whole.
pub struct Whole {
    /// Of the response.
    pub status: u16,
    /// Whether the client's connection can serve another one.
    pub client: bool,
    /// Whether the server's connection can.
    pub server: bool,
}

/// How an exchange ended that is not whole.
pub enum Otherwise {
    /// There is no server to ask.
    NoServer(DialError),
    /// The server ended before it answered.
    Unanswered,
    /// The client is told why.
    Refused(Refused),
    /// The client can only be told by a reset.
    Broken {
        status: Option<u16>,
        name: &'static str,
    },
    /// The connections carry another protocol now.
    Switched { status: u16 },
}

impl Otherwise {
    /// The client broke off before a response had begun.
    pub const CLIENT_RESET: Self = Self::Broken {
        status: None,
        name: "client-reset",
    };
}

impl From<Refused> for Otherwise {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

/// One request and its response; the session, if another request may follow. What only some exchanges need is in boxes
/// of its own: the box for this one is taken anew for every request.
pub async fn exchange(
    session: Session,
    front: &mut Side,
    back: &mut Option<Back>,
    request: &Request,
) -> Option<Session> {
    let since = Clock::now();
    if request.is_for_proxy() {
        return Box::pin(answer_options(session, request, since)).await;
    }
    let RequestTarget::Absolute { authority, .. } = &request.target else {
        let why = "the request target must be an absolute http URI, or CONNECT";
        let refused = Refused::new(400, why).to_head(request.method == Method::Head);
        Box::pin(refuse(session, refused, "", since)).await;
        return None;
    };
    let name = match back {
        Some(back) if back.authority == *authority => Rc::clone(&back.name),
        _ => authority.to_string().into(),
    };
    let result = ask(&session, front, back, request, authority, &name).await;
    let outcome = Outcome {
        target: &name,
        server: back.as_ref().map(|back| back.server.address),
        ..Outcome::new(WHOLE, since)
    };
    let whole = match result {
        Ok(whole) => whole,
        Err(otherwise) => {
            Box::pin(go_on(session, front, back, request, otherwise, outcome)).await;
            return None;
        }
    };
    session.note(&Outcome {
        status: Some(whole.status),
        ..outcome
    });
    if let Some(back) = back {
        back.server.stream.finish();
    }
    back.take_if(|_| !whole.server);
    if whole.client {
        return Some(session);
    }
    Box::pin(part(session, request)).await;
    None
}

/// OPTIONS for the proxy itself (RFC 9110 section 9.3.7).
async fn answer_options(mut session: Session, request: &Request, since: Clock) -> Option<Session> {
    if request.body.has_content() {
        let refused = Refused::new(400, "OPTIONS for the proxy with content");
        refuse(session, refused, "", since).await;
        return None;
    }
    let mut out = Vec::new();
    write_options(request.keep_alive, &mut out);
    session.note(&Outcome {
        status: Some(200),
        ..Outcome::new("options", since)
    });
    if !request.keep_alive {
        session.leave();
        session.stream.end_with(&out).await;
        return None;
    }
    let deadline = Some(Instant::now() + session.config.timeouts.request);
    let sent = session.stream.send(&out, deadline).await;
    sent.is_ok().then_some(session)
}

/// The exchange with a server that is there already, or a new one; with a second one where the first had just left.
async fn ask(
    session: &Session,
    front: &mut Side,
    back: &mut Option<Back>,
    request: &Request,
    authority: &Authority,
    name: &Rc<str>,
) -> Result<Whole, Otherwise> {
    if let Some(kept) = back.as_mut().filter(|back| back.can_serve(authority)) {
        kept.server.stream.resume();
        let result = serve_one(session, front, kept, request).await;
        // The server may have been about to end the connection (RFC 9112 section 9.3.1). Nothing of the request is lost,
        // and to ask again changes nothing (RFC 9110 section 9.2.2).
        if !(matches!(result, Err(Otherwise::Unanswered)) && may_repeat(request)) {
            return result;
        }
    }
    *back = None;
    let target = target(authority);
    let dialled = session.dial(&target, name, DialOptions::default(), &[]);
    let mut server = Box::pin(dialled).await.map_err(Otherwise::NoServer)?;
    let side = Side {
        inbox: std::mem::take(&mut server.early),
        reader: HeadReader::new(),
    };
    let new = back.insert(Back {
        authority: authority.clone(),
        name: Rc::clone(name),
        server,
        side,
    });
    serve_one(session, front, new, request).await
}

fn may_repeat(request: &Request) -> bool {
    !request.body.has_content()
        && matches!(request.method, Method::Get | Method::Head | Method::Options)
}

/// Ends the connection in order.
async fn part(mut session: Session, request: &Request) {
    session.leave();
    // A client that announced its last request sends no more, and need not be waited for.
    if request.keep_alive {
        session.stream.end_with(&[]).await;
    }
}

/// Does what is to be done behind an exchange that is not whole, and writes its line. `outcome` is that of a whole one.
async fn go_on(
    session: Session,
    front: &Side,
    back: &mut Option<Back>,
    request: &Request,
    otherwise: Otherwise,
    outcome: Outcome<'_>,
) {
    let Outcome { target, since, .. } = outcome;
    let to_head = request.method == Method::Head;
    match otherwise {
        Otherwise::NoServer(error) => refuse_dial(session, &error, to_head, target, since).await,
        Otherwise::Unanswered => {
            let refused = Refused::new(502, "the server ended without a response");
            refuse(session, refused.to_head(to_head), target, since).await;
        }
        Otherwise::Refused(refused) => {
            refuse(session, refused.to_head(to_head), target, since).await;
        }
        Otherwise::Broken { status, name } => {
            session.note(&Outcome {
                name,
                status,
                ..outcome
            });
            session.paths();
        }
        Otherwise::Switched { status } => {
            let Some(Back {
                mut server, side, ..
            }) = back.take()
            else {
                return;
            };
            server.early = side.inbox;
            let early = &front.inbox;
            session
                .tunnel(server, &[], early, target, since, Some(status))
                .await;
        }
    }
}

async fn serve_one(
    session: &Session,
    front: &mut Side,
    back: &mut Back,
    request: &Request,
) -> Result<Whole, Otherwise> {
    let Back { server, side, .. } = back;
    let hop = Hop {
        pseudonym: &session.http_limits().pseudonym,
        // Whoever ends a connection first keeps its port for a minute (RFC 9293 section 3.6): better the server's.
        keep_alive: request.keep_alive,
    };
    let mut out = Vec::new();
    request.forward(&hop, &mut out)?;
    // A whole small request is one write, and one packet.
    let mut reader = BodyReader::new(request.body);
    let used = reader
        .advance(&front.inbox)
        .map_err(|bad| Otherwise::Refused(bad.into()))?;
    out.extend_from_slice(&front.inbox[..used]);
    front.inbox = front.inbox.split_off(used);
    let deadline = Some(Instant::now() + session.config.timeouts.idle);
    let sent = server.stream.send(&out, deadline).await;
    sent.map_err(|_| Otherwise::Unanswered)?;
    let up = &session.live().up;
    up.fetch_add(out.len() as u64, Ordering::Relaxed);
    drop(out);
    let awaited = request.awaited();
    if reader.has_ended() {
        let begun = Cell::new(false);
        return tokio::select! {
            response = respond(session, server, side, awaited, &begun) => response,
            () = broke_off(&session.stream) => Err(Otherwise::CLIENT_RESET),
        };
    }
    Box::pin(with_upload(session, front, server, side, reader, awaited)).await
}

/// Ready when the client reset its connection; not once it has sent more, or ended its direction, which it may.
async fn broke_off(stream: &Stream) {
    let mut watching = true;
    poll_fn(|cx| {
        if watching && stream.poll_read_ready(cx).is_ready() {
            watching = false;
            return if stream.is_broken() {
                Poll::Ready(())
            } else {
                Poll::Pending
            };
        }
        Poll::Pending
    })
    .await;
}

/// The request's content and the response side by side: a server may answer before it has read everything.
async fn with_upload(
    session: &Session,
    front: &mut Side,
    server: &Server,
    side: &mut Side,
    mut reader: BodyReader,
    awaited: Awaited,
) -> Result<Whole, Otherwise> {
    let (context, begun) = (session.context(), Cell::new(false));
    let body = MessageBody {
        reader: &mut reader,
        rest: &mut front.inbox,
        decode: false,
    };
    // Once the response has begun no other one can take its place.
    let refuse = |refused| {
        if begun.get() {
            return Err(Otherwise::Broken {
                status: None,
                name: "bad-request",
            });
        }
        Err(Otherwise::Refused(refused))
    };
    let (from, to) = (&session.stream, &server.stream);
    let mut upload = pin!(transfer(from, to, &[], body, &context, context.up));
    let mut response = pin!(respond(session, server, side, awaited, &begun));
    let mut state = None;
    let whole = loop {
        tokio::select! {
            response = &mut response => break response?,
            over = &mut upload, if state.is_none() => match over {
                FlowState::Malformed => return refuse(Refused::new(400, "malformed content")),
                FlowState::WriterBroke => return Err(Otherwise::CLIENT_RESET),
                FlowState::Silent => return refuse(Refused::new(408, "the content took too long")),
                // A server that reads no more may have said why.
                over => state = Some(over),
            },
        }
    };
    Ok(Whole {
        // What is left of the content cannot be told from another request.
        client: whole.client && state == Some(FlowState::Ended),
        ..whole
    })
}
