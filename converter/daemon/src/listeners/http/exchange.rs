//! One request, the server for it, and what becomes of both connections.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Instant as Clock;

use tokio::time::Instant;
use tributary_wire::http::refused::write_options;
use tributary_wire::http::{
    Authority, Awaited, BodyReader, HeadReader, Hop, Method, Refused, Request, Target as Form,
};

use super::refusals::{refuse, refuse_dial};
use super::response::respond;
use super::{Side, target};
use crate::dial::{DialError, Server, Wishes};
use crate::flow::{Content, State};
use crate::metrics::WHOLE;
use crate::relay::transfer;
use crate::session::{Outcome, Session};
use crate::streams::Stream;

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

/// How an exchange went.
pub enum Exchange {
    /// Whole; whether the connections can serve another one.
    Whole {
        status: u16,
        client: bool,
        server: bool,
    },
    /// The connections carry another protocol now.
    Switched { status: u16 },
    /// The server ended before it answered.
    Unanswered,
    /// The client is told why.
    Refused(Refused),
    /// The client can only be told by a reset.
    Broken {
        status: Option<u16>,
        name: &'static str,
    },
}

impl Exchange {
    /// The client broke off before a response had begun.
    pub const CLIENT_RESET: Self = Self::Broken {
        status: None,
        name: "client-reset",
    };
}

/// One request and its response; the session, if another request may follow.
pub async fn exchange(
    session: Session,
    front: &mut Side,
    back: &mut Option<Back>,
    request: &Request,
) -> Option<Session> {
    let since = Clock::now();
    if request.is_for_proxy() {
        return answer_options(session, request, since).await;
    }
    let to_head = request.method == Method::Head;
    let Form::Absolute { authority, .. } = &request.target else {
        let why = "the request target must be an absolute http URI, or CONNECT";
        let refused = Refused::new(400, why).to_head(to_head);
        refuse(session, refused, "", since).await;
        return None;
    };
    let name = match back {
        Some(back) if back.authority == *authority => Rc::clone(&back.name),
        _ => authority.to_string().into(),
    };
    let result = match ask(&session, front, back, request, authority, &name).await {
        Ok(result) => result,
        Err(error) => {
            refuse_dial(session, &error, to_head, &name, since).await;
            return None;
        }
    };
    let outcome = Outcome {
        target: &name,
        server: back.as_ref().map(|back| back.server.address),
        ..Outcome::new(WHOLE, since)
    };
    end(session, front, back, request, result, outcome).await
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
) -> Result<Exchange, DialError> {
    if let Some(kept) = back.as_mut().filter(|back| back.can_serve(authority)) {
        kept.server.stream.resume();
        let result = serve_one(session, front, kept, request).await;
        // The server may have been about to end the connection (RFC 9112 section 9.3.1). Nothing of the request is lost,
        // and to ask again changes nothing (RFC 9110 section 9.2.2).
        if !(matches!(result, Exchange::Unanswered) && may_repeat(request)) {
            return Ok(result);
        }
    }
    *back = None;
    let mut server = session
        .dial(&target(authority), name, Wishes::default(), &[])
        .await?;
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
    Ok(serve_one(session, front, new, request).await)
}

fn may_repeat(request: &Request) -> bool {
    !request.body.has_content()
        && matches!(request.method, Method::Get | Method::Head | Method::Options)
}

/// Writes the line of an exchange, and does with the connections what its `result` asks for. `outcome` is that of a
/// whole one.
async fn end(
    mut session: Session,
    front: &Side,
    back: &mut Option<Back>,
    request: &Request,
    result: Exchange,
    outcome: Outcome<'_>,
) -> Option<Session> {
    let Outcome { target, since, .. } = outcome;
    let to_head = request.method == Method::Head;
    match result {
        Exchange::Whole {
            status,
            client,
            server,
        } => {
            let status = Some(status);
            session.note(&Outcome { status, ..outcome });
            if let Some(back) = back {
                back.server.stream.finish();
            }
            back.take_if(|_| !server);
            if client {
                return Some(session);
            }
            session.leave();
            // A client that announced its last request sends no more, and need not be waited for.
            if request.keep_alive {
                session.stream.end_with(&[]).await;
            }
        }
        Exchange::Switched { status } => {
            let Back {
                mut server, side, ..
            } = back.take()?;
            server.early = side.inbox;
            let early = &front.inbox;
            session
                .tunnel(server, &[], early, target, since, Some(status))
                .await;
        }
        Exchange::Unanswered => {
            let refused = Refused::new(502, "the server ended without a response");
            refuse(session, refused.to_head(to_head), target, since).await;
        }
        Exchange::Refused(refused) => {
            refuse(session, refused.to_head(to_head), target, since).await;
        }
        Exchange::Broken { status, name } => {
            session.note(&Outcome {
                name,
                status,
                ..outcome
            });
            session.paths();
        }
    }
    None
}

async fn serve_one(
    session: &Session,
    front: &mut Side,
    back: &mut Back,
    request: &Request,
) -> Exchange {
    let Back { server, side, .. } = back;
    let mut head = Vec::new();
    let hop = Hop {
        pseudonym: &session.http_limits().pseudonym,
        keep_alive: true,
    };
    if let Err(refused) = request.forward(&hop, &mut head) {
        return Exchange::Refused(refused);
    }
    let awaited = request.awaited();
    let mut reader = BodyReader::new(request.body);
    let early = std::mem::take(&mut front.inbox);
    // A whole small request is one write, and one packet.
    match reader.advance(&early) {
        Ok(used) => {
            head.extend_from_slice(&early[..used]);
            front.inbox = early[used..].to_vec();
        }
        Err(bad) => return Exchange::Refused(bad.into()),
    }
    let deadline = Some(Instant::now() + session.config.timeouts.idle);
    if server.stream.send(&head, deadline).await.is_err() {
        return Exchange::Unanswered;
    }
    session
        .live()
        .up
        .fetch_add(head.len() as u64, Ordering::Relaxed);
    drop(head);
    if reader.has_ended() {
        let begun = Cell::new(false);
        return tokio::select! {
            exchange = respond(session, server, side, awaited, &begun) => exchange,
            () = broke_off(&session.stream) => Exchange::CLIENT_RESET,
        };
    }
    with_upload(session, front, server, side, &mut reader, awaited).await
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
    reader: &mut BodyReader,
    awaited: Awaited,
) -> Exchange {
    let terms = session.terms();
    let mut rest = Vec::new();
    let content = Content {
        reader,
        rest: &mut rest,
        decode: false,
    };
    let begun = Cell::new(false);
    // Once the response has begun no other one can take its place.
    let refuse = |refused: Refused| {
        if begun.get() {
            let name = "bad-request";
            return Exchange::Broken { status: None, name };
        }
        Exchange::Refused(refused)
    };
    let mut state = None;
    let exchange = {
        let upload = transfer(
            &session.stream,
            &server.stream,
            &[],
            content,
            &terms,
            terms.up,
        );
        let response = respond(session, server, side, awaited, &begun);
        tokio::pin!(upload, response);
        loop {
            tokio::select! {
                exchange = &mut response => break exchange,
                over = &mut upload, if state.is_none() => match over {
                    State::Malformed => break refuse(Refused::new(400, "malformed content")),
                    State::WriterBroke => break Exchange::CLIENT_RESET,
                    State::Silent => break refuse(Refused::new(408, "the content took too long")),
                    // A server that reads no more may have said why.
                    over => state = Some(over),
                },
            }
        }
    };
    front.inbox = rest;
    match exchange {
        // What is left of the content cannot be told from another request.
        Exchange::Whole { status, server, .. } if state != Some(State::Ended) => Exchange::Whole {
            status,
            client: false,
            server,
        },
        other => other,
    }
}
