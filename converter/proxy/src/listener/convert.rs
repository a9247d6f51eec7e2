//! 0-RTT TCP Convert, the server's side (RFC 8803).

use std::time::Instant as Clock;

use tokio::time::Instant;
use tributary_proto::convert::{Connect, ErrorTlv, Request, SUPPORTED_TCP_EXTENSIONS, server};

use super::{ReadMessageError, read_message};
use crate::config;
use crate::io::conn::Conn;
use crate::io::relay;
use crate::kernel::sockets::IcmpError;
use crate::kernel::syn_ack::SynAckWatch;
use crate::observe::Summary;
use crate::policy::convert::may_name;
use crate::upstream::{self, DialError, DialOptions};

/// Serves one client.
pub async fn serve(conn: Conn, settings: config::Convert) {
    let since = Clock::now();
    let deadline = Instant::now() + conn.config.timeouts.request;
    let mut inbox = Vec::new();
    let parse = |bytes: &[u8]| server::parse(bytes, &SUPPORTED_TCP_EXTENSIONS);
    match read_message(&conn, &mut inbox, deadline, parse).await {
        Ok(request) => answer(conn, request, settings, inbox, since).await,
        Err(error) => {
            let reply = match &error {
                ReadMessageError::Fault(refusal) => refusal.error.clone(),
                ReadMessageError::NoMemory => Some(ErrorTlv::ResourceExceeded { delay: 0 }),
                ReadMessageError::ClientGone | ReadMessageError::TimedOut => None,
            };
            end(conn, error.name(), "", reply, since).await;
        }
    }
}

async fn answer(
    mut conn: Conn,
    request: Request,
    settings: config::Convert,
    early: Vec<u8>,
    since: Clock,
) {
    let cookie_error = settings.cookies.then(|| unwelcome(&conn, &request));
    if let Some(error) = cookie_error.flatten() {
        return end(conn, "cookie", "", Some(error), since).await;
    }
    if let Some(connect) = request.connect.clone() {
        return convert(conn, &request, &connect, settings, early, since).await;
    }
    // RFC 8803 section 6.2.3: Info alone wants nothing but the list.
    let reply = request.reply(&[], &SUPPORTED_TCP_EXTENSIONS).encode();
    conn.record(&Summary::new("info", since));
    conn.stream.send_and_linger(&reply).await;
}

/// The answer to a client without a valid cookie (RFC 8803 section 6.2.7).
fn unwelcome(conn: &Conn, request: &Request) -> Option<ErrorTlv> {
    let client = conn.client.ip();
    match &request.cookie {
        None => Some(ErrorTlv::MissingCookie(
            conn.context.shared.cookies.make(client),
        )),
        Some(cookie) if conn.context.shared.cookies.check(client, cookie) => None,
        Some(_) => Some(ErrorTlv::NotAuthorized),
    }
}

async fn convert(
    mut conn: Conn,
    request: &Request,
    connect: &Connect,
    settings: config::Convert,
    early: Vec<u8>,
    since: Clock,
) {
    let name = connect.target.to_string();
    if let Some(source_route) = &request.source_route {
        if !may_name(conn.client.ip(), source_route, conn.config.gateway.as_ref()) {
            let error = Some(ErrorTlv::NotAuthorized);
            return end(conn, "chain-forbidden", &name, error, since).await;
        }
    }
    let source_route = request.source_route.as_ref().map_or(0, Vec::len);
    if conn
        .context
        .dialer
        .is_loop(&request.path_trace, source_route)
    {
        let error = ErrorTlv::DestinationUnreachable {
            icmp_code: IcmpError::NETWORK.code,
        };
        return end(conn, "loop", &name, Some(error), since).await;
    }
    let spare = conn
        .context
        .dialer
        .fd_permit()
        .filter(|_| connect.extended());
    let watch = spare.map(|spare| (SynAckWatch::open(connect.target), spare));
    let dial_options = DialOptions {
        mptcp: connect.wants_mptcp(),
        icmp: true,
        early_syn: settings.early_syn,
        path_trace: request.path_trace.clone(),
        source_route: request.source_route.clone(),
        ..DialOptions::default()
    };
    let target = connect.target.into();
    match upstream::connect(&conn, &target, &name, dial_options, &early).await {
        Ok(mut upstream) => {
            let options = watch
                .map(|(watch, _)| watch.options(&upstream.stream))
                .unwrap_or_default();
            let reply = request.reply(&options, &SUPPORTED_TCP_EXTENSIONS).encode();
            let ended = relay(&mut conn, &mut upstream, &reply, early).await;
            conn.record(&Summary::of(&upstream, &name, ended.name(), since));
        }
        Err(error) => end(conn, error.name(), &name, Some(tlv(&error)), since).await,
    }
}

/// The line, the Error TLV, and an orderly close: a reset could overtake the TLV (RFC 8803 section 6.2.2). Without a
/// TLV, and when there were too many of late (section 6.2.5), a reset.
async fn end(mut conn: Conn, name: &str, target: &str, error: Option<ErrorTlv>, since: Clock) {
    conn.record(&Summary {
        target,
        ..Summary::new(name, since)
    });
    if let Some(error) = error.filter(|_| conn.context.errors.take()) {
        conn.stream.send_and_linger(&error.encode()).await;
    }
}

fn tlv(error: &DialError) -> ErrorTlv {
    match error {
        DialError::Forbidden(_) => ErrorTlv::NotAuthorized,
        DialError::Reset => ErrorTlv::ConnectionReset,
        DialError::Unreachable(icmp) => ErrorTlv::DestinationUnreachable {
            icmp_code: icmp.code,
        },
        DialError::Exhausted => ErrorTlv::ResourceExceeded { delay: 0 },
        DialError::NoSuchName
        | DialError::NamesFailed
        | DialError::TimedOut
        | DialError::GatewayUnavailable
        | DialError::GatewayFailed
        | DialError::System => ErrorTlv::NetworkFailure { delay: 0 },
    }
}
