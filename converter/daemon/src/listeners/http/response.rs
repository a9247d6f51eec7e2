//! A server's response, on its way to the client.

use std::cell::Cell;
use std::io;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use tokio::time::Instant;
use tributary_wire::http::{Awaited, BodyReader, Delivery, Hop, Refused, Response};

use super::Side;
use super::exchange::Exchange;
use crate::dial::Server;
use crate::flow::{Content, State};
use crate::listeners::PIECE;
use crate::relay::transfer;
use crate::session::Session;

/// The response, and those before it that are provisional (RFC 9110 section 15.2); `begun` tells when it is the final one.
pub async fn respond(
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
            return Exchange::CLIENT_RESET;
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
    Exchange::Whole {
        status,
        client: delivery.keep_alive,
        server: response.keep_alive,
    }
}
