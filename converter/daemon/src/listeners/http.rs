//! HTTP/1.1 as to a proxy (RFC 9110, RFC 9112): CONNECT becomes a tunnel, absolute-form is forwarded, one request after
//! the other. What could be read in two ways never gets past the parser.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::{Instant as Clock, SystemTime};

use tokio::sync::watch;
use tokio::time::Instant;
use tributary_wire::http::{
    Authority, Awaited, BodyReader, Delivery, HeadReader, Hop, Host, Method, Refused, Request,
    Response, Target as Form, refused::write_options,
};

use super::PIECE;
use crate::admission::Refusal;
use crate::dial::{DialError, Server, Target, Wishes};
use crate::flow::{Content, State};
use crate::metrics::WHOLE;
use crate::relay::transfer;
use crate::session::Session;
use crate::streams::Stream;

const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

/// The response to a client that is not let in.
pub fn refusal(refusal: Refusal) -> Vec<u8> {
    let refused = match refusal {
        Refusal::Stranger => Refused::new(403, "this client may not use the converter"),
        Refusal::Full | Refusal::ClientFull => Refused::new(503, "too many connections"),
        Refusal::Buffered => Refused::new(503, "out of memory for connections"),
    };
    written(refused)
}

fn written(refused: Refused) -> Vec<u8> {
    let mut out = Vec::new();
    refused.write(&mut out);
    out
}

/// Serves one client.
pub async fn serve(mut session: Session) {
    let mut front = Side::default();
    let mut back = None;
    let mut deadline = Some(Instant::now() + session.config.timeouts.request);
    let mut draining = pin!(draining(session.when_draining()));
    loop {
        let next = next_request(&session, &mut front, deadline.take(), draining.as_mut()).await;
        let next = match next {
            Next::Request(request) => request,
            Next::End => return session.leave(),
            Next::Refused(refused) => return refuse(session, refused, "", Clock::now()).await,
        };
        if matches!(next.target, Form::Connect(_)) {
            return Box::pin(tunnel(session, &next, &front.inbox)).await;
        }
        match Box::pin(exchange(session, &mut front, &mut back, next)).await {
            Some(kept) => session = kept,
            None => return,
        }
    }
}

/// Ready once this process is about to end.
async fn draining(mut told: watch::Receiver<bool>) {
    // Without its sender the thread has ended, and so has this.
    let _ = told.wait_for(|draining| *draining).await;
}

/// What came from one side and is not yet used, and where its next head begins.
#[derive(Default)]
struct Side {
    inbox: Vec<u8>,
    reader: HeadReader,
}

enum Next {
    Request(Request),
    /// The client, or this process, wants no more.
    End,
    Refused(Refused),
}

/// The next request; it must be whole at the deadline, or in time after its first byte where there is none yet.
async fn next_request(
    session: &Session,
    front: &mut Side,
    deadline: Option<Instant>,
    mut draining: Pin<&mut impl Future<Output = ()>>,
) -> Next {
    let timeouts = &session.config.timeouts;
    let idle = Instant::now() + timeouts.idle;
    let mut whole_by = deadline;
    loop {
        match front.reader.request(&front.inbox, session.http_limits()) {
            Ok(Some((request, length))) => {
                front.inbox.drain(..length);
                return Next::Request(request);
            }
            Ok(None) => {}
            Err(refused) => return Next::Refused(refused),
        }
        if front.reader.has_begun() && whole_by.is_none() {
            whole_by = Some(Instant::now() + timeouts.request);
        }
        let begun = front.reader.has_begun();
        let read =
            session
                .stream
                .read_more(&mut front.inbox, PIECE, Some(whole_by.unwrap_or(idle)));
        tokio::select! {
            read = read => match read {
                Ok(0) | Err(_) if !begun && deadline.is_none() => return Next::End,
                Ok(0) if begun => return Next::Refused(Refused::new(400, "the head was cut short")),
                Ok(0) => return Next::End,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::TimedOut => return Next::Refused(Refused::new(408, "the head took too long")),
                Err(_) => return Next::End,
            },
            () = draining.as_mut(), if !begun => return Next::End,
        }
    }
}

async fn tunnel(session: Session, request: &Request, early: &[u8]) {
    let since = Clock::now();
    let Form::Connect(authority) = &request.target else {
        return;
    };
    let target = target(authority);
    let name = authority.to_string();
    match session.dial(&target, Wishes::default(), early).await {
        Ok(server) => {
            session
                .tunnel(server, ESTABLISHED, early, &name, since, Some(200))
                .await;
        }
        Err(error) => refuse_dial(session, &error, false, &name, since).await,
    }
}

fn target(authority: &Authority) -> Target {
    match &authority.host {
        Host::V4(four) => Target::Address(SocketAddr::new((*four).into(), authority.port)),
        Host::V6(six) => Target::Address(SocketAddr::new((*six).into(), authority.port)),
        Host::Name(name) => Target::Name(name.to_string(), authority.port),
    }
}

/// The server of the last request, which may serve the next one too.
struct Back {
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
enum Exchange {
    /// Whole, and the client's connection lives on, the server's perhaps too.
    Kept { status: u16, server: bool },
    /// Whole, and the client's connection ends with it.
    Last { status: u16 },
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

/// One request and its response; the session, if another request may follow.
async fn exchange(
    mut session: Session,
    front: &mut Side,
    back: &mut Option<Back>,
    request: Request,
) -> Option<Session> {
    let since = Clock::now();
    let to_head = request.method == Method::Head;
    if request.is_for_proxy() {
        return answer_options(session, front, &request, since).await;
    }
    let Form::Absolute { authority, .. } = &request.target else {
        let refused = Refused::new(
            400,
            "the request target must be an absolute http URI, or CONNECT",
        )
        .to_head(to_head);
        refuse(session, refused, "", since).await;
        return None;
    };
    let name = match back {
        Some(back) if back.authority == *authority => Rc::clone(&back.name),
        _ => authority.to_string().into(),
    };
    let result = loop {
        let reused = match server_for(&session, back, authority, &name).await {
            Ok(reused) => reused,
            Err(error) => {
                refuse_dial(session, &error, to_head, &name, since).await;
                return None;
            }
        };
        let server = back.as_mut()?;
        let result = serve_one(&session, front, server, &request).await;
        // Nothing of the request is lost, and to ask again changes nothing (RFC 9110 section 9.2.2).
        if matches!(result, Exchange::Unanswered) && reused && may_repeat(&request) {
            *back = None;
            continue;
        }
        break result;
    };
    let server = back.as_ref().map(|back| back.server.address);
    let note = |session: &Session, outcome: &str, status| {
        session.note(&session.outcome(outcome, &name, server, status, since));
    };
    match result {
        Exchange::Kept { status, server } => {
            note(&session, WHOLE, Some(status));
            if let Some(back) = back {
                back.server.stream.finish();
            }
            back.take_if(|_| !server);
            return Some(session);
        }
        Exchange::Last { status } => {
            note(&session, WHOLE, Some(status));
            if let Some(back) = back {
                back.server.stream.finish();
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
            session
                .tunnel(server, &[], &front.inbox, &name, since, Some(status))
                .await;
        }
        Exchange::Unanswered => {
            let refused = Refused::new(502, "the server ended without a response");
            refuse(session, refused.to_head(to_head), &name, since).await;
        }
        Exchange::Refused(refused) => refuse(session, refused.to_head(to_head), &name, since).await,
        Exchange::Broken { status, name: why } => {
            note(&session, why, status);
            session.paths();
        }
    }
    None
}

async fn answer_options(
    mut session: Session,
    front: &mut Side,
    request: &Request,
    since: Clock,
) -> Option<Session> {
    if request.body.has_content() {
        refuse(
            session,
            Refused::new(400, "OPTIONS for the proxy with content"),
            "",
            since,
        )
        .await;
        return None;
    }
    let mut out = Vec::new();
    write_options(request.keep_alive, &mut out);
    session.note(&session.outcome("options", "", None, Some(200), since));
    if !request.keep_alive {
        session.leave();
        session.stream.end_with(&out).await;
        return None;
    }
    front.inbox.shrink_to_fit();
    let deadline = Some(Instant::now() + session.config.timeouts.request);
    session
        .stream
        .send(&out, deadline)
        .await
        .is_ok()
        .then_some(session)
}

/// Puts a connection to the server into `back`: the one that is there, or a new one. Returns whether it was used before;
/// then the server may be about to end it (RFC 9112 section 9.3.1).
async fn server_for(
    session: &Session,
    back: &mut Option<Back>,
    authority: &Authority,
    name: &Rc<str>,
) -> Result<bool, DialError> {
    if let Some(kept) = back.as_mut().filter(|back| back.can_serve(authority)) {
        kept.server.stream.resume();
        return Ok(true);
    }
    let mut server = session
        .dial(&target(authority), Wishes::default(), &[])
        .await?;
    let side = Side {
        inbox: std::mem::take(&mut server.early),
        reader: HeadReader::new(),
    };
    *back = Some(Back {
        authority: authority.clone(),
        name: Rc::clone(name),
        server,
        side,
    });
    Ok(false)
}

fn may_repeat(request: &Request) -> bool {
    !request.body.has_content()
        && matches!(request.method, Method::Get | Method::Head | Method::Options)
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
            () = broke_off(&session.stream) => Exchange::Broken { status: None, name: "client-reset" },
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
                    State::WriterBroke => break Exchange::Broken { status: None, name: "client-reset" },
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
        Exchange::Kept { status, .. } if state != Some(State::Ended) => Exchange::Last { status },
        other => other,
    }
}

/// The response, and those before it that are provisional (RFC 9110 section 15.2); `begun` tells when it is the final one.
async fn respond(
    session: &Session,
    server: &Server,
    side: &mut Side,
    awaited: Awaited,
    begun: &Cell<bool>,
) -> Exchange {
    loop {
        let response = match response_head(session, server, side, awaited).await {
            Ok(response) => response,
            Err(exchange) => return exchange,
        };
        let mut delivery = response.delivery(awaited);
        delivery.keep_alive &= !session.is_draining();
        if !response.is_informational() {
            begun.set(true);
            return deliver(session, server, side, awaited, &response, delivery).await;
        }
        let mut out = Vec::new();
        write_head(session, &response, awaited, delivery, &mut out);
        if delivery.send && send_down(session, &out).await.is_err() {
            return Exchange::Broken {
                status: None,
                name: "client-reset",
            };
        }
    }
}

async fn response_head(
    session: &Session,
    server: &Server,
    side: &mut Side,
    awaited: Awaited,
) -> Result<Response, Exchange> {
    let deadline = Instant::now() + session.config.timeouts.idle;
    loop {
        match side
            .reader
            .response(&side.inbox, awaited, session.http_limits())
        {
            Ok(Some((response, length))) => {
                side.inbox.drain(..length);
                return Ok(response);
            }
            Ok(None) => {}
            Err(bad) => return Err(Exchange::Refused(bad.into())),
        }
        match server
            .stream
            .read_more(&mut side.inbox, PIECE, Some(deadline))
            .await
        {
            Ok(count) if count > 0 => {}
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                return Err(Exchange::Refused(Refused::new(
                    504,
                    "the server did not respond in time",
                )));
            }
            _ if side.inbox.is_empty() => return Err(Exchange::Unanswered),
            _ => {
                return Err(Exchange::Refused(Refused::new(
                    502,
                    "the server ended within its response",
                )));
            }
        }
    }
}

fn write_head(
    session: &Session,
    response: &Response,
    awaited: Awaited,
    delivery: Delivery,
    out: &mut Vec<u8>,
) {
    let hop = Hop {
        pseudonym: &session.http_limits().pseudonym,
        keep_alive: delivery.keep_alive,
    };
    response.forward(awaited, &hop, SystemTime::now(), out);
}

async fn send_down(session: &Session, bytes: &[u8]) -> io::Result<()> {
    session
        .stream
        .send(bytes, Some(Instant::now() + session.config.timeouts.idle))
        .await?;
    session
        .live()
        .down
        .fetch_add(bytes.len() as u64, Ordering::Relaxed);
    Ok(())
}

/// The final response, head and content.
async fn deliver(
    session: &Session,
    server: &Server,
    side: &mut Side,
    awaited: Awaited,
    response: &Response,
    delivery: Delivery,
) -> Exchange {
    let status = response.status;
    let broken = |name| Exchange::Broken {
        status: Some(status),
        name,
    };
    let mut out = Vec::new();
    write_head(session, response, awaited, delivery, &mut out);
    let mut reader = BodyReader::new(response.body);
    let mut early = std::mem::take(&mut side.inbox);
    if !delivery.decode && !response.switching_protocols {
        // A whole small response is one write, and one packet.
        let Ok(used) = reader.advance(&early) else {
            return Exchange::Refused(Refused::new(502, "malformed content"));
        };
        out.extend_from_slice(&early[..used]);
        early.drain(..used);
    }
    if send_down(session, &out).await.is_err() {
        return broken("client-reset");
    }
    drop(out);
    if response.switching_protocols {
        side.inbox = early;
        return Exchange::Switched { status };
    }
    if reader.has_ended() {
        side.inbox = early;
    } else {
        let terms = session.terms();
        let content = Content {
            reader: &mut reader,
            rest: &mut side.inbox,
            decode: delivery.decode,
        };
        match transfer(
            &server.stream,
            &session.stream,
            &early,
            content,
            &terms,
            terms.down,
        )
        .await
        {
            State::Ended => {}
            State::WriterBroke => return broken("server-reset"),
            State::Malformed => return broken("malformed-content"),
            State::Silent => return broken("silent"),
            State::ReaderBroke | State::Open | State::Clogged => return broken("client-reset"),
        }
    }
    if delivery.keep_alive {
        Exchange::Kept {
            status,
            server: response.keep_alive,
        }
    } else {
        Exchange::Last { status }
    }
}

async fn refuse_dial(
    session: Session,
    error: &DialError,
    to_head: bool,
    target: &str,
    since: Clock,
) {
    let refused = match error {
        DialError::Forbidden(_) => Refused::new(403, "this target may not be reached"),
        DialError::NoSuchName => Refused::new(502, "there is no such name"),
        DialError::NamesFailed => Refused::new(502, "the name servers do not answer"),
        DialError::Reset => Refused::new(502, "the server refuses the connection"),
        DialError::Unreachable(_) => Refused::new(502, "the server cannot be reached"),
        DialError::TimedOut => Refused::new(504, "the server did not answer in time"),
        DialError::Exhausted(_) => Refused::new(503, "out of descriptors, ports or memory"),
        DialError::GatewayAway => Refused::new(502, "the gateway is away"),
        DialError::System(_) => Refused::new(502, "the connection to the server failed"),
    };
    let name = error.name();
    session.close(&session.outcome(name, target, None, Some(refused.status), since));
    session
        .stream
        .end_with(&written(refused.to_head(to_head)))
        .await;
}

async fn refuse(session: Session, refused: Refused, target: &str, since: Clock) {
    session.close(&session.outcome(
        outcome_of(refused.status),
        target,
        None,
        Some(refused.status),
        since,
    ));
    session.stream.end_with(&written(refused)).await;
}

/// For logs and metrics.
fn outcome_of(status: u16) -> &'static str {
    match status {
        408 => "request-timed-out",
        502 | 504 => "bad-gateway",
        _ => "bad-request",
    }
}
