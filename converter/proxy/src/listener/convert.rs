//! 0-RTT TCP Convert, the server's side (RFC 8803).

use std::mem;
use std::time::{Duration, Instant as Clock};

use tokio::time::Instant;
use tributary_proto::convert::server::{self, Refusal};
use tributary_proto::convert::{CLOSING, Connect, ErrorTlv, READY, Request, SUPPORTED_TCP_EXTENSIONS};

use super::{PIECE, ReadMessageError, SHORT, read_message};
use crate::config;
use crate::io::conn::Conn;
use crate::io::pipe::Early;
use crate::io::relay;
use crate::kernel::sockets::IcmpError;
use crate::kernel::syn_ack::SynAckWatch;
use crate::observe::{RelayResult, Summary};
use crate::policy::convert::may_name;
use crate::upstream::{self, DialError, DialOptions};

/// A kept connection waits for its next request so long: three times as long as the other side keeps it.
const REST: Duration = Duration::from_secs(30);

/// Serves one client: one request, or if the client says so one after the other.
pub async fn serve(mut conn: Box<Conn>, settings: config::Convert) {
    let mut inbox = Vec::new();
    loop {
        let since = Clock::now();
        let deadline = Instant::now() + conn.config.timeouts.request;
        let parse = |bytes: &[u8]| server::parse(bytes, &SUPPORTED_TCP_EXTENSIONS);
        let request = match read_message(&conn, &mut inbox, deadline, parse).await {
            Ok(request) => request,
            Err(error) => return Box::pin(malformed(conn, &error, since)).await,
        };
        let early = mem::take(&mut inbox);
        match Box::pin(answer(conn, request, settings, early, since)).await {
            Some(kept) => conn = kept,
            None => return,
        }
        if conn.context.is_outdated() || !asks_again(&conn, &mut inbox).await {
            conn.finish_gracefully();
            return conn.stream.send_and_linger(&CLOSING).await;
        }
    }
}

/// Says that all of the transfer before was passed on, and waits for the next request; false when none comes, or when other
/// settings are in force.
async fn asks_again(conn: &Conn, inbox: &mut Vec<u8>) -> bool {
    conn.stats().set_target("");
    let rest = Some(Instant::now() + REST);
    if conn.stream.send(&READY, rest).await.is_err() {
        return false;
    }
    tokio::select! {
        biased;
        read = conn.stream.read_more(inbox, PIECE, rest) => matches!(read, Ok(1..)),
        () = conn.context.outdated() => false,
    }
}

async fn malformed(conn: Box<Conn>, error: &ReadMessageError<Refusal>, since: Clock) {
    let reply = match error {
        ReadMessageError::Fault(refusal) => refusal.error.clone(),
        ReadMessageError::NoMemory => Some(ErrorTlv::ResourceExceeded { delay: SHORT }),
        ReadMessageError::ClientGone | ReadMessageError::TimedOut => None,
    };
    end(conn, error.name(), "", reply, since).await;
}

/// Answers a request, behind which `early` came. Returns the connection if there may be another one.
async fn answer(
    mut conn: Box<Conn>,
    request: Request,
    settings: config::Convert,
    early: Vec<u8>,
    since: Clock,
) -> Option<Box<Conn>> {
    let cookie_error = settings.cookies.then(|| unwelcome(&conn, &request));
    if let Some(error) = cookie_error.flatten() {
        end(conn, "cookie", "", Some(error), since).await;
        return None;
    }
    if let Some(connect) = request.connect.clone() {
        return convert(conn, &request, &connect, settings, early, since).await;
    }
    // RFC 8803 section 6.2.3: Info alone wants nothing but the list.
    let reply = request.reply(&[], &SUPPORTED_TCP_EXTENSIONS).encode();
    conn.record(&Summary::new("info", since));
    conn.stream.send_and_linger(&reply).await;
    None
}

/// The answer to a client without a valid cookie (RFC 8803 section 6.2.7).
fn unwelcome(conn: &Conn, request: &Request) -> Option<ErrorTlv> {
    let client = conn.client.ip();
    match &request.cookie {
        None => Some(ErrorTlv::MissingCookie(conn.context.shared.cookies.make(client))),
        Some(cookie) if conn.context.shared.cookies.check(client, cookie) => None,
        Some(_) => Some(ErrorTlv::NotAuthorized),
    }
}

async fn convert(
    mut conn: Box<Conn>,
    request: &Request,
    connect: &Connect,
    settings: config::Convert,
    early: Vec<u8>,
    since: Clock,
) -> Option<Box<Conn>> {
    let name = connect.target.to_string();
    if let Some((outcome, error)) = refused(&conn, request) {
        end(conn, outcome, &name, Some(error), since).await;
        return None;
    }
    let early = if request.reuse {
        // Behind its end nothing comes before our READY.
        let Ok(early) = Early::in_frames(early, 0) else {
            end(conn, "malformed", &name, None, since).await;
            return None;
        };
        early
    } else {
        early.into()
    };
    let spare = conn.context.dialer.fd_permit().filter(|_| connect.extended());
    let watch = spare.map(|spare| (SynAckWatch::open(connect.target), spare));
    let dial_options = DialOptions {
        mptcp: connect.wants_mptcp(),
        icmp: true,
        early_syn: settings.early_syn,
        path_trace: request.path_trace.clone(),
        source_route: request.source_route.clone(),
        ..DialOptions::for_relay()
    };
    let target = connect.target.into();
    match upstream::connect(&conn, &target, &name, dial_options, &early.bytes).await {
        Ok(upstream) => {
            let options = watch
                .map(|(watch, _)| watch.options(&upstream.stream))
                .unwrap_or_default();
            let reply = request.reply(&options, &SUPPORTED_TCP_EXTENSIONS).encode();
            let summary = Summary::of(&upstream, &name, since);
            let ended = relay(&mut conn, upstream, &reply, early).await;
            let summary = summary.ended(ended);
            if request.reuse && ended == RelayResult::Completed {
                conn.record_request(&summary);
                return Some(conn);
            }
            conn.record(&summary);
        }
        Err(error) => end(conn, error.name(), &name, Some(tlv(&error)), since).await,
    }
    None
}

/// The outcome and the error of a request that names what it may not, or has been here before.
fn refused(conn: &Conn, request: &Request) -> Option<(&'static str, ErrorTlv)> {
    let gateway = conn.config.gateway.as_ref();
    let source_route = request.source_route.as_deref();
    if source_route.is_some_and(|named| !may_name(conn.client.ip(), named, gateway)) {
        return Some(("chain-forbidden", ErrorTlv::NotAuthorized));
    }
    let to_come = source_route.map_or(0, <[_]>::len);
    if conn.context.dialer.is_loop(&request.path_trace, to_come) {
        let icmp_code = IcmpError::NETWORK.code;
        return Some(("loop", ErrorTlv::DestinationUnreachable { icmp_code }));
    }
    None
}

/// The line, the Error TLV, and an orderly close: a reset could overtake the TLV (RFC 8803 section 6.2.2). Without a
/// TLV, and when there were too many of late (section 6.2.5), a reset.
async fn end(mut conn: Box<Conn>, name: &str, target: &str, error: Option<ErrorTlv>, since: Clock) {
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
        DialError::Unreachable(icmp) => ErrorTlv::DestinationUnreachable { icmp_code: icmp.code },
        DialError::Exhausted => ErrorTlv::ResourceExceeded { delay: SHORT },
        // Of this server: without a delay, so that others are asked for as before.
        DialError::NoSuchName
        | DialError::NamesFailed
        | DialError::TimedOut
        | DialError::NoPort
        | DialError::GatewayUnavailable
        | DialError::GatewayFailed
        | DialError::System => ErrorTlv::NetworkFailure { delay: 0 },
    }
}
