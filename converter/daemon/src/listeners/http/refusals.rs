//! Refusals of requests.

use std::time::Instant as Clock;

use tributary_wire::http::Refused;

use crate::dial::DialError;
use crate::policy::admission::NotAdmitted;
use crate::session::{Outcome, Session};

/// The response to a client that is not let in.
pub fn refusal(refusal: NotAdmitted) -> Vec<u8> {
    let refused = match refusal {
        NotAdmitted::UnknownClient => Refused::new(403, "this client may not use the converter"),
        NotAdmitted::Full | NotAdmitted::ClientFull => Refused::new(503, "too many connections"),
        NotAdmitted::Buffered => Refused::new(503, "out of memory for connections"),
        NotAdmitted::ClientBuffered => {
            Refused::new(503, "out of memory for this client's connections")
        }
    };
    written(refused)
}

fn written(refused: Refused) -> Vec<u8> {
    let mut out = Vec::new();
    refused.write(&mut out);
    out
}

/// There is no server.
pub async fn refuse_dial(
    session: Session,
    error: &DialError,
    to_head: bool,
    target: &str,
    since: Clock,
) {
    let refused = match error {
        DialError::Forbidden(_) => Refused::new(403, "this target may not be reached"),
        DialError::NoSuchName => Refused::new(502, "there is no such name"),
        DialError::NamesFailed => Refused::new(502, "the name servers do not answer"),
        DialError::Reset => Refused::new(502, "the server refuses the connection"),
        DialError::Unreachable(_) => Refused::new(502, "the server cannot be reached"),
        DialError::TimedOut => Refused::new(504, "the server did not answer in time"),
        DialError::Exhausted(_) => Refused::new(503, "out of descriptors, ports or memory"),
        DialError::GatewayUnavailable => Refused::new(502, "the gateway is unavailable"),
        DialError::GatewayFailed => Refused::new(502, "the gateway could not serve this request"),
        DialError::System(_) => Refused::new(502, "the connection to the server failed"),
    };
    end(
        session,
        refused.to_head(to_head),
        error.name(),
        target,
        since,
    )
    .await;
}

/// The request, or the server's response, cannot be served.
pub async fn refuse(session: Session, refused: Refused, target: &str, since: Clock) {
    let name = outcome_of(refused.status);
    end(session, refused, name, target, since).await;
}

async fn end(mut session: Session, refused: Refused, name: &str, target: &str, since: Clock) {
    session.log_close(&Outcome {
        target,
        status: Some(refused.status),
        ..Outcome::new(name, since)
    });
    session.stream.send_and_linger(&written(refused)).await;
}

/// For logs and metrics.
fn outcome_of(status: u16) -> &'static str {
    match status {
        408 => "request-timed-out",
        502 | 504 => "bad-gateway",
        _ => "bad-request",
    }
}
