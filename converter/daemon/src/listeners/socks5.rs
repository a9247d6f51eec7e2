//! SOCKS5 (RFC 1928), with names and passwords if any are configured (RFC 1929).

use std::time::Instant as Clock;

use tokio::time::Instant;
use tributary_wire::socks5::{
    AuthMethod, Code, Login, ProtocolError, Reply, Request, encode_login_status, parse_greeting,
    parse_login, parse_request,
};

use super::message::{ReadMessageError, read_message};
use crate::dial::{DialError, DialOptions, Target};
use crate::session::{Outcome, Session};

/// Serves one client.
pub async fn serve(mut session: Session) {
    let since = Clock::now();
    let deadline = Instant::now() + session.config.timeouts.request;
    let mut inbox = Vec::new();
    match negotiate(&session, &mut inbox, deadline).await {
        Ok(request) => connect(session, request, inbox, since).await,
        Err(NegotiationError { name, last }) => {
            session.log_close(&Outcome::new(name, since));
            session.stream.send_and_linger(&last).await;
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
            ReadMessageError::Fault(fault) => fault.reply().unwrap_or_default(),
            ReadMessageError::ClientGone
            | ReadMessageError::TimedOut
            | ReadMessageError::NoMemory => Vec::new(),
        };
        Self {
            name: error.name(),
            last,
        }
    }
}

async fn negotiate(
    session: &Session,
    inbox: &mut Vec<u8>,
    deadline: Instant,
) -> Result<Request, NegotiationError> {
    let gone = |_| NegotiationError {
        name: "client-gone",
        last: Vec::new(),
    };
    let users = &session.listener.listen.users;
    let method = if users.is_empty() {
        AuthMethod::NoAuthentication
    } else {
        AuthMethod::UserPassword
    };
    let greeting = read_message(session, inbox, deadline, parse_greeting).await?;
    if !greeting.offers(method) {
        return Err(NegotiationError {
            name: "no-acceptable-method",
            last: AuthMethod::NoneAcceptable.encode().to_vec(),
        });
    }
    session
        .stream
        .send(&method.encode(), Some(deadline))
        .await
        .map_err(gone)?;
    if method == AuthMethod::UserPassword {
        let login = read_message(session, inbox, deadline, parse_login).await?;
        if !is_user(session, &login) {
            return Err(NegotiationError {
                name: "wrong-password",
                last: encode_login_status(false).to_vec(),
            });
        }
        session
            .stream
            .send(&encode_login_status(true), Some(deadline))
            .await
            .map_err(gone)?;
    }
    Ok(read_message(session, inbox, deadline, parse_request).await?)
}

/// Compares with every user, so that the time tells nothing of which names there are.
fn is_user(session: &Session, login: &Login) -> bool {
    let mut found = false;
    for (user, password) in &session.listener.listen.users {
        found |= same(user.as_bytes(), &login.user) & same(password.as_bytes(), &login.password);
    }
    found
}

/// Takes as long for a near miss as for a far one.
fn same(one: &[u8], other: &[u8]) -> bool {
    let difference = one.iter().zip(other).fold(0, |sum, (a, b)| sum | (a ^ b));
    one.len() == other.len() && std::hint::black_box(difference) == 0
}

async fn connect(mut session: Session, request: Request, early: Vec<u8>, since: Clock) {
    let target = Target::new(&request.host, request.port);
    let name = target.to_string();
    match session
        .dial(&target, &name, DialOptions::default(), &early)
        .await
    {
        Ok(server) => {
            let bound = server.stream.local_addr().unwrap_or(server.address);
            let reply = Reply::success(bound).encode();
            session
                .tunnel(server, &reply, early, &name, since, None)
                .await;
        }
        Err(error) => {
            session.log_close(&Outcome {
                target: &name,
                ..Outcome::new(error.name(), since)
            });
            let refusal = Reply::refusal(code(&error)).encode();
            session.stream.send_and_linger(&refusal).await;
        }
    }
}

fn code(error: &DialError) -> Code {
    match error {
        DialError::Forbidden(_) => Code::NotAllowed,
        DialError::NoSuchName | DialError::NamesFailed | DialError::TimedOut => {
            Code::HostUnreachable
        }
        DialError::Reset => Code::ConnectionRefused,
        DialError::Unreachable(_) => Code::NetworkUnreachable,
        DialError::Exhausted(_)
        | DialError::GatewayUnavailable
        | DialError::GatewayFailed
        | DialError::System(_) => Code::GeneralFailure,
    }
}
