//! A server's response, on its way to the client.

use std::cell::Cell;
use std::io;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use tokio::time::Instant;
use tributary_wire::http::{Awaited, BodyReader, Delivery, Hop, Refused, Response};

use super::Side;
use super::exchange::{Otherwise, Whole};
use crate::bytes::flow::{FlowState, MessageBody};
use crate::bytes::relay::transfer;
use crate::dial::Server;
use crate::listeners::message::PIECE;
use crate::session::Session;

/// The response, and those before it that are provisional (RFC 9110 section 15.2); `begun` tells when it is the final one.
pub async fn respond(
    session: &Session,
    server: &Server,
    side: &mut Side,
    awaited: Awaited,
    begun: &Cell<bool>,
) -> Result<Whole, Otherwise> {
    loop {
        let response = response_head(session, server, side, awaited).await?;
        let mut delivery = response.delivery(awaited);
        delivery.keep_alive &= !session.is_draining();
        if !response.is_informational() {
            begun.set(true);
            return deliver(session, server, side, awaited, &response, delivery).await;
        }
        if delivery.send {
            let mut out = Vec::new();
            write_head(session, &response, awaited, delivery, &mut out);
            let sent = send_down(session, &out).await;
            sent.map_err(|_| Otherwise::CLIENT_RESET)?;
        }
    }
}

async fn response_head(
    session: &Session,
    server: &Server,
    side: &mut Side,
    awaited: Awaited,
) -> Result<Response, Otherwise> {
    let deadline = Some(Instant::now() + session.config.timeouts.idle);
    let limits = session.http_limits();
    loop {
        match side.reader.response(&side.inbox, awaited, limits) {
            Ok(Some((response, length))) => {
                side.inbox.drain(..length);
                return Ok(response);
            }
            Ok(None) => {}
            Err(bad) => return Err(Otherwise::Refused(bad.into())),
        }
        let read = server.stream.read_more(&mut side.inbox, PIECE, deadline);
        match read.await {
            Ok(count) if count > 0 => {}
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                Err(Refused::new(504, "the server did not respond in time"))?;
            }
            _ if side.inbox.is_empty() => return Err(Otherwise::Unanswered),
            _ => Err(Refused::new(502, "the server ended within its response"))?,
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
) -> Result<Whole, Otherwise> {
    let status = response.status;
    let broken = |name| Otherwise::Broken {
        status: Some(status),
        name,
    };
    let mut out = Vec::new();
    write_head(session, response, awaited, delivery, &mut out);
    let mut reader = BodyReader::new(response.body);
    let mut early = std::mem::take(&mut side.inbox);
    if !delivery.decode && !response.switching_protocols {
        // A whole small response is one write, and one packet.
        let used = reader
            .advance(&early)
            .map_err(|_| Refused::new(502, "malformed content"))?;
        out.extend(early.drain(..used));
    }
    let sent = send_down(session, &out).await;
    sent.map_err(|_| broken("client-reset"))?;
    drop(out);
    if response.switching_protocols {
        side.inbox = early;
        return Err(Otherwise::Switched { status });
    }
    if reader.has_ended() {
        side.inbox = early;
    } else {
        let context = session.context();
        let body = MessageBody {
            reader: &mut reader,
            rest: &mut side.inbox,
            decode: delivery.decode,
        };
        let (from, to) = (&server.stream, &session.stream);
        let transfer = transfer(from, to, &early, body, &context, context.down);
        match Box::pin(transfer).await {
            FlowState::Ended => {}
            FlowState::WriterBroke => return Err(broken("server-reset")),
            FlowState::Malformed => return Err(broken("malformed-content")),
            FlowState::Silent => return Err(broken("silent")),
            FlowState::ReaderBroke | FlowState::Open | FlowState::Clogged => {
                return Err(broken("client-reset"));
            }
        }
    }
    Ok(Whole {
        status,
        client: delivery.keep_alive,
        server: response.keep_alive,
    })
}
