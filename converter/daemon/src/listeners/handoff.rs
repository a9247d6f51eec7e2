//! HTTP/1.1 to an origin server whose answers do not come this way: the client's connection is handed to a back end together
//! with its request, and comes back behind the answer. What cannot be handed over is relayed.

use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Instant as Clock;

use handoff_front::{Links, Lost, Outcome as Journey, hand_over};
use tokio::time::Instant;
use tributary_wire::host::Host;
use tributary_wire::http::{Authority, HeadLimits, HeadReader, Refused, Request, parse_request};

use super::http::{Front, Kept, Left, Next, end, exchange, next_request, refuse};
use crate::bytes::stream::Stream;
use crate::config::Handoff;
use crate::kernel::sockets;
use crate::policy::handoff::{Choice, choose};
use crate::session::{Outcome, Session};

/// Serves one client.
pub async fn serve(mut session: Session) {
    let config = std::sync::Arc::clone(&session.config);
    let (Some(handoff), Some(links)) = (&config.handoff, session.handoff()) else {
        // The configuration was checked: a listener has both.
        return session.close(&Outcome::new("not-configured", Clock::now()));
    };
    let mut front = Front::default();
    let mut kept: Kept = None;
    let mut deadline = Some(Instant::now() + config.timeouts.request);
    let mut draining = pin!(session.draining());
    loop {
        let next = next_request(&session, &mut front, deadline.take(), draining.as_mut()).await;
        let (request, head) = match next {
            Next::Request(request, head) => (request, head),
            Next::End => return session.leave(),
            Next::Refused(refused) => {
                front.forget(&session);
                return refuse(session, refused, "", Clock::now()).await;
            }
        };
        let since = Clock::now();
        let came = front.inbox.len() - head;
        let is_up = |back_end| !session.is_draining() && links.is_up(back_end);
        let to = match choose(&request, came, handoff, is_up) {
            Choice::HandOver(to) => {
                let away = Away {
                    handoff,
                    links: &links,
                    since,
                };
                match Box::pin(away.hand_over(session, &mut front, to)).await {
                    Some((back, true)) => {
                        session = back;
                        continue;
                    }
                    Some((stayed, false)) => session = stayed,
                    None => return,
                }
                to
            }
            Choice::Relay(to) => to,
            Choice::Nobody => {
                front.forget(&session);
                let refused = Refused::new(404, "no back end is for this request");
                return refuse(session, refused, "", since).await;
            }
        };
        front.pass(head);
        let request = match request.for_origin() {
            Ok(request) => request,
            Err(refused) => return refuse(session, refused, "", since).await,
        };
        let server = authority(handoff, to);
        let relay = exchange(
            &session,
            &mut front,
            &mut kept,
            &request,
            Some(&server),
            since,
        );
        match Box::pin(relay).await {
            Left::Nothing => {}
            left => return Box::pin(end(session, front, &request, left, since)).await,
        }
    }
}

fn authority(handoff: &Handoff, back_end: usize) -> Authority {
    let http = handoff.back_ends[back_end].http;
    Authority {
        host: Host::from(http.ip()),
        port: http.port(),
    }
}

/// A connection that is handed over.
struct Away<'a> {
    handoff: &'a Handoff,
    links: &'a Rc<Links>,
    since: Clock,
}

impl Away<'_> {
    /// The session, if its client is still here or here again; whether it was away. What came is in the front's inbox.
    async fn hand_over(
        &self,
        mut session: Session,
        front: &mut Front,
        to: usize,
    ) -> Option<(Session, bool)> {
        let name = &self.handoff.back_ends[to].name;
        session.live().serves(name);
        // The bytes travel, and wait nowhere here.
        session.may_hold(0);
        let limits = session.http_limits().clone();
        let next = |bytes: &[u8]| self.next(bytes, &limits);
        let journey = hand_over(self.links, &session.stream, &mut front.inbox, to, next);
        match journey.await {
            Journey::Stayed(lost) => {
                Self::say(&session, &lost);
                Some((session, false))
            }
            Journey::Back {
                stream,
                bytes,
                sent,
            } => {
                // To set it up fails only where it has broken, which the next read will find.
                let _ = sockets::set_up_for_clients(&stream);
                session.stream = Stream::new(stream);
                front.inbox = bytes;
                front.reader = HeadReader::default();
                session.note(&self.outcome(&session, name, "handed-over", sent));
                Some((session, true))
            }
            Journey::Over { sent } => {
                session.close(&self.outcome(&session, name, "handed-over", sent));
                None
            }
            Journey::Lost(lost, sent) => {
                Self::say(&session, &lost);
                session.close(&self.outcome(&session, name, lost.name(), sent));
                None
            }
        }
    }

    /// To whom a connection goes that was given back with these bytes.
    fn next(&self, bytes: &[u8], limits: &HeadLimits) -> Option<usize> {
        let (request, head): (Request, usize) = parse_request(bytes, limits).ok()??;
        let is_up = |back_end| self.links.is_up(back_end);
        match choose(&request, bytes.len() - head, self.handoff, is_up) {
            Choice::HandOver(to) => Some(to),
            Choice::Relay(_) | Choice::Nobody => None,
        }
    }

    /// Its bytes went to the client, though not this way.
    fn outcome<'o>(
        &self,
        session: &Session,
        target: &'o str,
        name: &'o str,
        sent: u64,
    ) -> Outcome<'o> {
        session.live().down.fetch_add(sent, Ordering::Relaxed);
        Outcome {
            target,
            ..Outcome::new(name, self.since)
        }
    }

    fn say(session: &Session, lost: &Lost) {
        tracing::debug!(
            "the connection of {} is not handed over: {lost}",
            session.client
        );
    }
}
