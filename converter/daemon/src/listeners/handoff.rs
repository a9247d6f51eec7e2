//! HTTP/1.1 to an origin server whose answers do not come this way: the client's connection is handed to a back end together
//! with its request, and comes back behind the answer. What cannot be handed over is relayed.

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant as Clock;

use handoff_front::{AnswerEnd, Guide, Links, Lost, Outcome as Journey, hand_over};
use tokio::time::Instant;
use tributary_wire::host::Host;
use tributary_wire::http::{Authority, HeadReader, Refused, Request, parse_request};

use super::http::{Front, Kept, Left, Next, end, exchange, next_request, refuse};
use crate::bytes::stream::Stream;
use crate::config::Handoff;
use crate::kernel::sockets;
use crate::policy::handoff::{Choice, choose};
use crate::session::{Outcome, Session};

/// Serves one client.
pub async fn serve(session: Session) {
    let config = Arc::clone(&session.config);
    let (Some(handoff), Some(links)) = (&config.handoff, session.handoff()) else {
        // The configuration was checked: a listener has both.
        return session.close(&Outcome::new("not-configured", Clock::now()));
    };
    let mut deadline = Some(Instant::now() + config.timeouts.request);
    let mut draining = pin!(session.draining());
    let mut client = Client {
        session,
        front: Front::default(),
        kept: None,
        handoff,
        links: &links,
    };
    loop {
        let (session, front) = (&client.session, &mut client.front);
        let (request, head) =
            match next_request(session, front, deadline.take(), draining.as_mut()).await {
                Next::Request(request, head) => (request, head),
                Next::End => return client.session.leave(),
                Next::Refused(refused) => return client.refuse(refused, Clock::now()).await,
            };
        // In a box, so that a client that asks for nothing takes little memory.
        match Box::pin(client.answer(request, head)).await {
            Some(again) => client = again,
            None => return,
        }
    }
}

/// One client, while its connection is here.
struct Client<'a> {
    session: Session,
    front: Front,
    kept: Kept,
    handoff: &'a Handoff,
    links: &'a Rc<Links>,
}

/// What became of a client whose connection was to be handed over.
enum Handed<'a> {
    /// It was away, and is here again.
    Back(Client<'a>),
    /// It has not left.
    Stayed(Client<'a>),
    /// Its connection is over.
    Gone,
}

impl<'a> Client<'a> {
    /// Has a request answered, with whose head of so many bytes the inbox begins. The client, if it may ask for more.
    async fn answer(self, request: Request, head: usize) -> Option<Self> {
        let since = Clock::now();
        let came = self.front.inbox.len() - head;
        let is_up = |back_end| !self.session.is_draining() && self.links.is_up(back_end);
        match choose(&request, came, self.handoff, is_up) {
            Choice::HandOver(to) => match self.hand_over(to, since).await {
                Handed::Back(client) => Some(client),
                Handed::Stayed(client) => client.relay(request, head, to, since).await,
                Handed::Gone => None,
            },
            Choice::Relay(to) => self.relay(request, head, to, since).await,
            Choice::Nobody => {
                let refused = Refused::new(404, "no back end is for this request");
                self.refuse(refused, since).await;
                None
            }
        }
    }

    async fn refuse(mut self, refused: Refused, since: Clock) {
        self.front.forget(&self.session);
        refuse(self.session, refused, "", since).await;
    }

    async fn relay(
        mut self,
        request: Request,
        head: usize,
        to: usize,
        since: Clock,
    ) -> Option<Self> {
        self.front.pass(head);
        let request = match request.for_origin() {
            Ok(request) => request,
            Err(refused) => {
                self.refuse(refused, since).await;
                return None;
            }
        };
        let http = self.handoff.back_ends[to].http;
        let server = Authority {
            host: Host::from(http.ip()),
            port: http.port(),
        };
        let (session, front, kept) = (&self.session, &mut self.front, &mut self.kept);
        match exchange(session, front, kept, &request, Some(&server), since).await {
            Left::Nothing => Some(self),
            left => {
                end(self.session, self.front, &request, left, since).await;
                None
            }
        }
    }

    /// With all that came.
    async fn hand_over(mut self, to: usize, since: Clock) -> Handed<'a> {
        // The bytes travel, and wait nowhere here.
        self.session.may_hold(0);
        let away = Away {
            session: &self.session,
            handoff: self.handoff,
            links: self.links,
            since: Cell::new(since),
        };
        away.serves(to);
        let stream = &self.session.stream;
        match hand_over(self.links, stream, &mut self.front.inbox, to, &away).await {
            Journey::Stayed(lost) => {
                away.say(&lost);
                Handed::Stayed(self)
            }
            Journey::Back { stream, bytes } => {
                // To set it up fails only where it has broken, which the next read will find.
                let _ = sockets::set_up_for_clients(&stream);
                self.session.stream = Stream::new(stream);
                self.front.inbox = bytes;
                self.front.reader = HeadReader::default();
                Handed::Back(self)
            }
            Journey::Over => {
                self.session.paths();
                Handed::Gone
            }
            Journey::Lost(lost, at) => {
                away.say(&lost);
                self.session.close(&away.outcome(lost.name(), at));
                Handed::Gone
            }
        }
    }
}

/// A client's connection while it is with back ends.
struct Away<'a> {
    session: &'a Session,
    handoff: &'a Handoff,
    links: &'a Links,
    /// When the request that is being answered began.
    since: Cell<Clock>,
}

impl Guide for Away<'_> {
    fn answered(&self, by: usize, sent: u64, _: AnswerEnd) {
        // They went to the client, though not this way.
        let down = &self.session.live().down;
        down.fetch_add(sent, Ordering::Relaxed);
        self.session.note(&self.outcome("handed-over", by));
        self.since.set(Clock::now());
    }

    fn next(&self, _: usize, bytes: &[u8]) -> Option<usize> {
        let (request, head): (Request, usize) =
            parse_request(bytes, self.session.http_limits()).ok()??;
        let is_up = |back_end| self.links.is_up(back_end);
        match choose(&request, bytes.len() - head, self.handoff, is_up) {
            Choice::HandOver(to) => {
                self.serves(to);
                Some(to)
            }
            Choice::Relay(_) | Choice::Nobody => None,
        }
    }
}

impl Away<'_> {
    fn serves(&self, back_end: usize) {
        self.session.live().serves(self.name(back_end));
    }

    fn name(&self, back_end: usize) -> &str {
        &self.handoff.back_ends[back_end].name
    }

    fn outcome<'o>(&'o self, name: &'o str, back_end: usize) -> Outcome<'o> {
        Outcome {
            target: self.name(back_end),
            ..Outcome::new(name, self.since.get())
        }
    }

    fn say(&self, lost: &Lost) {
        let client = self.session.client;
        tracing::debug!("the connection of {client} is not handed over: {lost}");
    }
}
