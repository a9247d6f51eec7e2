//! SOCKS5 (RFC 1928), with names and passwords if any are configured (RFC 1929).

use std::collections::BTreeMap;
use std::time::Instant as Clock;

use tokio::time::Instant;
use tributary_proto::http::Authority;
use tributary_proto::socks5::{
    AuthMethod, Code, Login, ProtocolError, Reply, Request, encode_login_status, parse_greeting, parse_login,
    parse_request,
};

use super::{ReadMessageError, read_message};
use crate::io::conn::Conn;
use crate::io::relay;
use crate::observe::Summary;
use crate::policy::admission::client_key;
use crate::upstream::{self, DialError, DialOptions};

pub async fn serve(mut conn: Box<Conn>) {
    let since = Clock::now();
    let deadline = Instant::now() + conn.config.timeouts.request;
    let mut inbox = Vec::new();
    match negotiate(&conn, &mut inbox, deadline).await {
        Ok(request) => Box::pin(connect(conn, request, inbox, since)).await,
        Err(NegotiationError { name, last }) => {
            conn.record(&Summary::new(name, since));
            conn.stream.send_and_linger(&last).await;
        }
    }
}

/// Why there was no request, and the last words to the client.
struct NegotiationError {
    name: &'static str,
    last: Vec<u8>,
}

impl From<ReadMessageError<ProtocolError>> for NegotiationError {
    fn from(error: ReadMessageError<ProtocolError>) -> Self {
        let last = match &error {
            ReadMessageError::Fault(fault) => fault.reply().as_ref().map(Reply::encode).unwrap_or_default(),
            ReadMessageError::ClientGone | ReadMessageError::TimedOut | ReadMessageError::NoMemory => Vec::new(),
        };
        Self {
            name: error.name(),
            last,
        }
    }
}

async fn negotiate(conn: &Conn, inbox: &mut Vec<u8>, deadline: Instant) -> Result<Request, NegotiationError> {
    let gone = |_| NegotiationError {
        name: "client-gone",
        last: Vec::new(),
    };
    let users = conn.listener.listen.users();
    let method = if users.is_none_or(BTreeMap::is_empty) {
        AuthMethod::NoAuthentication
    } else {
        AuthMethod::UserPassword
    };
    let greeting = read_message(conn, inbox, deadline, parse_greeting).await?;
    if !greeting.offers(method) {
        return Err(NegotiationError {
            name: "no-acceptable-method",
            last: AuthMethod::NoneAcceptable.encode().to_vec(),
        });
    }
    conn.stream.send(&method.encode(), Some(deadline)).await.map_err(gone)?;
    if method == AuthMethod::UserPassword {
        let login = read_message(conn, inbox, deadline, parse_login).await?;
        if !may_enter(conn, &login) {
            return Err(NegotiationError {
                name: "wrong-password",
                last: encode_login_status(false).to_vec(),
            });
        }
        conn.stream
            .send(&encode_login_status(true), Some(deadline))
            .await
            .map_err(gone)?;
    }
    Ok(read_message(conn, inbox, deadline, parse_request).await?)
}

/// Whether the login is right, and the client has not guessed too often.
fn may_enter(conn: &Conn, login: &Login) -> bool {
    let client = client_key(conn.client.ip(), &conn.config.clients);
    let wrong_logins = &conn.context.shared.wrong_logins;
    wrong_logins.accepts(client, &login.user, Clock::now(), || is_user(conn, login))
}

/// Compares with every user, so that the time tells nothing of which names there are.
fn is_user(conn: &Conn, login: &Login) -> bool {
    let mut found = false;
    for (user, password) in conn.listener.listen.users().into_iter().flatten() {
        found |= same(user.as_bytes(), &login.user) & same(password.as_bytes(), &login.password);
    }
    found
}

/// Takes as long for a near miss as for a far one.
fn same(one: &[u8], other: &[u8]) -> bool {
    let difference = one.iter().zip(other).fold(0, |sum, (a, b)| sum | (a ^ b));
    one.len() == other.len() && std::hint::black_box(difference) == 0
}

async fn connect(mut conn: Box<Conn>, request: Request, early: Vec<u8>, since: Clock) {
    let target = Authority {
        host: request.host,
        port: request.port,
    };
    let name = target.text();
    let dialled = upstream::connect(&conn, &target, &name, DialOptions::for_relay(), &early);
    match dialled.await {
        Ok(upstream) => {
            let bound = upstream.stream.local_addr().unwrap_or(upstream.address);
            let reply = Reply::success(bound).encode();
            let summary = Summary::of(&upstream, &name, since);
            let ended = relay(&mut conn, upstream, &reply, early.into()).await;
            conn.record(&summary.ended(ended));
        }
        Err(error) => {
            conn.record(&Summary {
                target: &name,
                ..Summary::new(error.name(), since)
            });
            let refusal = Reply::refusal(code(&error)).encode();
            conn.stream.send_and_linger(&refusal).await;
        }
    }
}

fn code(error: &DialError) -> Code {
    match error {
        DialError::Forbidden(_) => Code::NotAllowed,
        DialError::NoSuchName | DialError::NamesFailed | DialError::TimedOut => Code::HostUnreachable,
        DialError::Reset => Code::ConnectionRefused,
        DialError::Unreachable(_) => Code::NetworkUnreachable,
        DialError::Exhausted
        | DialError::NoPort
        | DialError::GatewayUnavailable
        | DialError::GatewayFailed
        | DialError::System => Code::GeneralFailure,
    }
}
