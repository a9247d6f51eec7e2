//! 0-RTT TCP Convert, the server's side (RFC 8803).

use std::time::Instant as Clock;

use tokio::time::Instant;
use tributary_wire::convert::{Connect, ErrorTlv, Request, SUPPORTED_TCP_EXTENSIONS, server};

use super::message::{ReadMessageError, read_message};
use crate::dial::{DialError, DialOptions, Target};
use crate::kernel::sockets::IcmpError;
use crate::kernel::syn_ack::SynAckWatch;
use crate::policy::chains;
use crate::session::{Outcome, Session};

/// Serves one client.
pub async fn serve(session: Session) {
    let since = Clock::now();
    let deadline = Instant::now() + session.config.timeouts.request;
    let mut inbox = Vec::new();
    let parse = |bytes: &[u8]| server::parse(bytes, &SUPPORTED_TCP_EXTENSIONS);
    match read_message(&session, &mut inbox, deadline, parse).await {
        Ok(request) => answer(session, request, inbox, since).await,
        Err(error) => {
            let reply = match &error {
                ReadMessageError::Fault(refusal) => refusal.error.clone(),
                ReadMessageError::NoMemory => Some(ErrorTlv::ResourceExceeded { delay: 0 }),
                ReadMessageError::ClientGone | ReadMessageError::TimedOut => None,
            };
            end(session, error.name(), "", reply, since).await;
        }
    }
}

async fn answer(mut session: Session, request: Request, early: Vec<u8>, since: Clock) {
    if let Some(error) = unwelcome(&session, &request) {
        return end(session, "cookie", "", Some(error), since).await;
    }
    if let Some(connect) = request.connect.clone() {
        return convert(session, &request, &connect, early, since).await;
    }
    // RFC 8803 section 6.2.3: Info alone wants nothing but the list.
    let reply = request.reply(&[], &SUPPORTED_TCP_EXTENSIONS).encode();
    session.log_close(&Outcome::new("info", since));
    session.stream.send_and_linger(&reply).await;
}

/// The answer to a client without a valid cookie (RFC 8803 section 6.2.7).
fn unwelcome(session: &Session, request: &Request) -> Option<ErrorTlv> {
    if !session.listener.listen.cookies {
        return None;
    }
    let client = session.client.ip();
    match &request.cookie {
        None => Some(ErrorTlv::MissingCookie(session.cookies().make(client))),
        Some(cookie) if session.cookies().check(client, cookie) => None,
        Some(_) => Some(ErrorTlv::NotAuthorized),
    }
}

async fn convert(
    session: Session,
    request: &Request,
    connect: &Connect,
    early: Vec<u8>,
    since: Clock,
) {
    let name = connect.target.to_string();
    if let Some(source_route) = &request.source_route {
        if !chains::may_name(
            session.client.ip(),
            source_route,
            session.config.gateway.as_ref(),
        ) {
            let error = Some(ErrorTlv::NotAuthorized);
            return end(session, "chain-forbidden", &name, error, since).await;
        }
    }
    let source_route = request.source_route.as_ref().map_or(0, Vec::len);
    if session.is_loop(&request.path_trace, source_route) {
        let error = ErrorTlv::DestinationUnreachable {
            icmp_code: IcmpError::NETWORK.code,
        };
        return end(session, "loop", &name, Some(error), since).await;
    }
    let spare = session.fd_permit().filter(|_| connect.extended());
    let watch = spare.map(|spare| (SynAckWatch::open(connect.target), spare));
    let dial_options = DialOptions {
        mptcp: connect.wants_mptcp(),
        icmp: true,
        path_trace: request.path_trace.clone(),
        source_route: request.source_route.clone(),
        ..DialOptions::default()
    };
    match session
        .dial(
            &Target::Address(connect.target),
            &name,
            dial_options,
            &early,
        )
        .await
    {
        Ok(server) => {
            let options = watch
                .map(|(watch, _)| watch.options(&server.stream))
                .unwrap_or_default();
            let reply = request.reply(&options, &SUPPORTED_TCP_EXTENSIONS).encode();
            session
                .tunnel(server, &reply, early, &name, since, None)
                .await;
        }
        Err(error) => end(session, error.name(), &name, Some(tlv(&error)), since).await,
    }
}

/// The line, the Error TLV, and an orderly close: a reset could overtake the TLV (RFC 8803 section 6.2.2). Without a
/// TLV, and when there were too many of late (section 6.2.5), a reset.
async fn end(
    mut session: Session,
    name: &str,
    target: &str,
    error: Option<ErrorTlv>,
    since: Clock,
) {
    session.log_close(&Outcome {
        target,
        ..Outcome::new(name, since)
    });
    if let Some(error) = error.filter(|_| session.may_send_error()) {
        session.stream.send_and_linger(&error.encode()).await;
    }
}

fn tlv(error: &DialError) -> ErrorTlv {
    match error {
        DialError::Forbidden(_) => ErrorTlv::NotAuthorized,
        DialError::Reset => ErrorTlv::ConnectionReset,
        DialError::Unreachable(icmp) => ErrorTlv::DestinationUnreachable {
            icmp_code: icmp.code,
        },
        DialError::Exhausted(_) => ErrorTlv::ResourceExceeded { delay: 0 },
        DialError::NoSuchName
        | DialError::NamesFailed
        | DialError::TimedOut
        | DialError::GatewayUnavailable
        | DialError::GatewayFailed
        | DialError::System(_) => ErrorTlv::NetworkFailure { delay: 0 },
    }
}
