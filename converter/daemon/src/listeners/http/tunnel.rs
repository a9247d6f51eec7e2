//! CONNECT (RFC 9110 section 9.3.6).

use std::time::Instant as Clock;

use tributary_wire::http::Authority;

use super::refusals::refuse_dial;
use crate::dial::{DialOptions, Target};
use crate::session::Session;

const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

/// Connects the client to the server that it names; `early` came behind its request.
pub async fn tunnel(session: Session, authority: &Authority, early: Vec<u8>) {
    connect(session, authority, early, ESTABLISHED, Some(200)).await;
}

/// Relays between the client and a server that it has not named, and says nothing about it; `early` came already.
pub async fn relay_unasked(session: Session, authority: &Authority, early: Vec<u8>) {
    connect(session, authority, early, &[], None).await;
}

async fn connect(
    session: Session,
    authority: &Authority,
    early: Vec<u8>,
    reply: &[u8],
    status: Option<u16>,
) {
    let since = Clock::now();
    let name = authority.to_string();
    let target = Target::new(&authority.host, authority.port);
    session.reserve(early.len());
    match session
        .dial(&target, &name, DialOptions::default(), &early)
        .await
    {
        Ok(server) => {
            session
                .tunnel(server, reply, early, &name, since, status)
                .await;
        }
        Err(error) => refuse_dial(session, &error, false, &name, since).await,
    }
}
