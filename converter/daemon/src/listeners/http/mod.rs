//! HTTP/1.1 as to a proxy (RFC 9110, RFC 9112): CONNECT becomes a tunnel, absolute-form is forwarded, one request after
//! the other. What could be read in two ways never gets past the parser.

mod exchange;
mod refusals;
mod request;
mod response;

pub use refusals::refusal;

use std::pin::pin;
use std::time::Instant as Clock;

use tokio::time::Instant;
use tributary_wire::http::{Authority, HeadReader, RequestTarget};

use crate::dial::{DialOptions, Target};
use crate::session::Session;
use exchange::exchange;
use refusals::{refuse, refuse_dial};
use request::{Next, next_request};

const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

/// Serves one client.
pub async fn serve(mut session: Session) {
    let mut front = Side::default();
    let mut back = None;
    let mut deadline = Some(Instant::now() + session.config.timeouts.request);
    let mut draining = pin!(session.draining());
    loop {
        let next = next_request(&session, &mut front, deadline.take(), draining.as_mut()).await;
        let request = match next {
            Next::Request(request) => request,
            Next::End => return session.leave(),
            Next::Refused(refused) => return refuse(session, refused, "", Clock::now()).await,
        };
        if let RequestTarget::Connect(authority) = &request.target {
            return Box::pin(tunnel(session, authority, &front.inbox)).await;
        }
        // In a box, so that a client that asks for nothing, or has a tunnel, takes little memory.
        match Box::pin(exchange(session, &mut front, &mut back, &request)).await {
            Some(kept) => session = kept,
            None => return,
        }
    }
}

/// What came from one side and is not yet used, and where its next head begins.
#[derive(Default)]
struct Side {
    inbox: Vec<u8>,
    reader: HeadReader,
}

async fn tunnel(session: Session, authority: &Authority, early: &[u8]) {
    let since = Clock::now();
    let name = authority.to_string();
    match session
        .dial(&target(authority), &name, DialOptions::default(), early)
        .await
    {
        Ok(server) => {
            session
                .tunnel(server, ESTABLISHED, early, &name, since, Some(200))
                .await;
        }
        Err(error) => refuse_dial(session, &error, false, &name, since).await,
    }
}

fn target(authority: &Authority) -> Target {
    Target::new(&authority.host, authority.port)
}
