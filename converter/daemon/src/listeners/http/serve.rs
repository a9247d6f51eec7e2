//! One client's requests, one after the other.

use std::pin::pin;
use std::time::Instant as Clock;

use tokio::time::Instant;
use tributary_wire::http::RequestTarget;

use super::exchange::exchange;
use super::front::Front;
use super::options::answer_options;
use super::refusals::refuse;
use super::request::{Next, next_request};
use super::server::Kept;
use super::tunnel::tunnel;
use crate::session::Session;

/// Serves one client.
pub async fn serve(mut session: Session) {
    let mut front = Front::default();
    let mut kept: Kept = None;
    let mut deadline = Some(Instant::now() + session.config.timeouts.request);
    let mut draining = pin!(session.draining());
    loop {
        let next = next_request(&session, &mut front, deadline.take(), draining.as_mut()).await;
        let request = match next {
            Next::Request(request) => request,
            Next::End => return session.leave(),
            Next::Refused(refused) => return refuse(session, refused, "", Clock::now()).await,
        };
        // In boxes, so that a client that asks for nothing, or has a tunnel, takes little memory.
        let still_here = if request.is_for_proxy() {
            Box::pin(answer_options(session, &request)).await
        } else if let RequestTarget::Connect(authority) = &request.target {
            // A tunnel lasts: the server of the request before is not kept for its time.
            drop(kept.take());
            return Box::pin(tunnel(session, authority, front.inbox)).await;
        } else {
            Box::pin(exchange(session, &mut front, &mut kept, &request)).await
        };
        match still_here {
            Some(client) => session = client,
            None => return,
        }
    }
}
