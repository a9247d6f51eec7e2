//! One client's requests, one after the other.

use std::pin::pin;
use std::time::Instant as Clock;

use tokio::time::Instant;
use tributary_wire::http::{Method, Request, RequestTarget};

use super::client_buffer::ClientBuffer;
use super::exchange::{AfterExchange, exchange};
use super::options::answer_options;
use super::refusals::{refuse, refuse_dial};
use super::request::{Next, next_request};
use super::server::{IdleUpstream, ServerConnection, while_watching};
use super::tunnel::tunnel;
use crate::session::Session;

/// Serves one client.
pub async fn serve(mut session: Session) {
    let mut client_buffer = ClientBuffer::default();
    let mut idle_upstream: IdleUpstream = None;
    let mut deadline = Some(Instant::now() + session.config.timeouts.request);
    let mut draining = pin!(session.draining());
    loop {
        let until = deadline.take();
        let asks = next_request(&session, &mut client_buffer, until, draining.as_mut());
        let next = while_watching(&mut idle_upstream, pin!(asks)).await;
        let request = match next {
            Next::Request(request, head) => {
                client_buffer.consume(head);
                request
            }
            Next::End => return session.finish_gracefully(),
            Next::Refused(refused) => {
                client_buffer.discard(&session);
                return refuse(session, refused, "", Clock::now()).await;
            }
        };
        if request.is_for_proxy() {
            match Box::pin(answer_options(session, &request)).await {
                Some(client) => session = client,
                None => return,
            }
            continue;
        }
        if let RequestTarget::Connect(authority) = &request.target {
            let authority = authority.clone();
            // A tunnel lasts: neither its request nor the server of the request before is kept for its time.
            drop(request);
            drop(idle_upstream.take());
            return Box::pin(tunnel(session, &authority, client_buffer.inbox)).await;
        }
        let since = Clock::now();
        // In boxes, so that a client that asks for nothing takes little memory.
        let exchange = exchange(
            &session,
            &mut client_buffer,
            &mut idle_upstream,
            &request,
            None,
            since,
        );
        match Box::pin(exchange).await {
            AfterExchange::KeepAlive => {}
            left => return Box::pin(end(session, client_buffer, request, left, since)).await,
        }
    }
}

/// Does what is left to do for a client that asks for no more.
pub async fn end(
    mut session: Session,
    mut client_buffer: ClientBuffer,
    request: Request,
    left: AfterExchange,
    since: Clock,
) {
    let to_head = request.method == Method::Head;
    // An end may take half a minute, and a tunnel lasts.
    drop(request);
    if !matches!(left, AfterExchange::Tunnel(..)) {
        client_buffer.discard(&session);
    }
    match left {
        AfterExchange::KeepAlive | AfterExchange::Close => session.finish_gracefully(),
        AfterExchange::Linger => {
            session.finish_gracefully();
            session.stream.send_and_linger(&[]).await;
        }
        AfterExchange::Refuse(refused, target) => refuse(session, refused, &target, since).await,
        AfterExchange::NoServer(error, target) => {
            refuse_dial(session, &error, to_head, &target, since).await;
        }
        AfterExchange::Abort => drop(session.record_subflows()),
        AfterExchange::Tunnel(server, status) => {
            let ServerConnection {
                mut server,
                inbox,
                name,
                ..
            } = *server;
            server.early = inbox;
            session
                .tunnel(server, &[], client_buffer.inbox, &name, since, Some(status))
                .await;
        }
    }
}
