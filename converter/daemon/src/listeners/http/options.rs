//! OPTIONS for the proxy itself (RFC 9110 section 9.3.7).

use std::time::Instant as Clock;

use tokio::time::Instant;
use tributary_wire::http::refused::write_options;
use tributary_wire::http::{Refused, Request};

use super::refusals::refuse;
use crate::session::{Outcome, Session};

/// Answers; the session, if another request may follow.
pub async fn answer_options(mut session: Session, request: &Request) -> Option<Session> {
    let since = Clock::now();
    if request.body.has_content() {
        let refused = Refused::new(400, "OPTIONS for the proxy with content");
        refuse(session, refused, "", since).await;
        return None;
    }
    let mut out = Vec::new();
    let keep_alive = request.keep_alive && !session.is_draining();
    let status = write_options(keep_alive, &mut out);
    session.log_request(&Outcome {
        status: Some(status),
        ..Outcome::new("options", since)
    });
    if !keep_alive {
        session.finish_gracefully();
        session.stream.send_and_linger(&out).await;
        return None;
    }
    let deadline = Some(Instant::now() + session.config.timeouts.request);
    let sent = session.stream.send(&out, deadline).await;
    if sent.is_err() {
        session.finish_gracefully();
        return None;
    }
    Some(session)
}
