//! HTTP/1.1 to an origin server whose answers do not come this way: the client's connection is handed to a back end together
//! with its request, and comes back behind the answer. What cannot be handed over is relayed, and what is so small that it does
//! not pay.

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant as Clock;

use handoff_front::{AnswerEnd, Guide, Links, Lost, Outcome as Journey, hand_over};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tributary_wire::host::Host;
use tributary_wire::http::{Authority, HTTP2_HEAD, HeadReader, Refused, Request, parse_request};

use super::http::{
    ClientBuffer, Kept, Left, Next, end, exchange, next_request, refuse, relay_unasked,
    while_watching,
};
use crate::accounting::handoff_counters::HandoffDecision;
use crate::bytes::stream::ResetOnDrop;
use crate::config::Handoff;
use crate::kernel::sockets;
use crate::policy::handoff::{Choice, Learned, Question, choose, choose_unseen};
use crate::session::{Outcome, Session};

/// Serves one client.
pub async fn serve(session: Session) {
    let config = Arc::clone(&session.config);
    let (Some(handoff), Some(context)) = (&config.handoff, session.handoff()) else {
        // The configuration was checked: a listener has both.
        return session.log_close(&Outcome::new("not-configured", Clock::now()));
    };
    let mut deadline = Some(Instant::now() + config.timeouts.request);
    let mut draining = pin!(session.draining());
    let mut client = Client {
        session,
        buffer: ClientBuffer::default(),
        kept: None,
        handoff,
        links: &context.links,
        learned: &context.learned,
    };
    loop {
        let (session, buffer) = (&client.session, &mut client.buffer);
        let until = deadline.take();
        let asks = next_request(session, buffer, until, draining.as_mut());
        let next = while_watching(&mut client.kept, pin!(asks)).await;
        let (request, head) = match next {
            Next::Request(request, head) => (request, head),
            Next::End => return client.session.finish_gracefully(),
            // Nothing but a connection's beginning is HTTP/2's.
            Next::Refused(refused) if until.is_some() => return client.begin(refused).await,
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
    buffer: ClientBuffer,
    kept: Kept,
    handoff: &'a Handoff,
    links: &'a Rc<Links>,
    learned: &'a Learned,
}

/// A request, with whose head of so many bytes the client's inbox begins.
struct Asked {
    request: Request,
    head: usize,
    question: Question,
    since: Clock,
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
        let asked = Asked {
            question: self.learned.question(&request, self.handoff),
            request,
            head,
            since: Clock::now(),
        };
        let expected = asked.question.expected;
        match self.choose(&asked) {
            Choice::HandOver(to) if self.learned.is_small(expected) => {
                self.relay(asked, to, HandoffDecision::Small).await
            }
            Choice::HandOver(to) => match self.hand_over(&asked, to).await {
                Handed::Back(client) => Some(client),
                Handed::Stayed(client) => client.relay(asked, to, HandoffDecision::Relayed).await,
                Handed::Gone => None,
            },
            Choice::Relay(to) => self.relay(asked, to, HandoffDecision::Relayed).await,
            Choice::Nobody => {
                let refused = Refused::new(404, "no back end is for this request");
                self.refuse(refused, asked.since).await;
                None
            }
        }
    }

    fn choose(&self, asked: &Asked) -> Choice {
        let came = self.buffer.inbox.len() - asked.head;
        let expected = asked.question.expected;
        choose(&asked.request, came, expected, self.handoff, |back_end| {
            let load = self.links.load(back_end);
            load.filter(|_| !self.session.is_draining())
        })
    }

    /// What came first is no request that can be read. It may be HTTP/2's, which is relayed as it is, if there is a rule for
    /// whatever it asks.
    async fn begin(self, refused: Refused) {
        let client = self.session.client.ip();
        let load = |back_end| self.links.load(back_end);
        match choose_unseen(client, self.handoff, load) {
            Some(to) if self.buffer.inbox.starts_with(HTTP2_HEAD) => {
                self.session.count_handoff(HandoffDecision::Relayed);
                relay_unasked(self.session, &http(self.handoff, to), self.buffer.inbox).await;
            }
            _ => self.refuse(refused, Clock::now()).await,
        }
    }

    async fn refuse(mut self, refused: Refused, since: Clock) {
        self.buffer.discard(&self.session);
        refuse(self.session, refused, "", since).await;
    }

    async fn relay(mut self, asked: Asked, to: usize, decision: HandoffDecision) -> Option<Self> {
        // More of it may have come while it was to be handed over.
        if let Err(refused) = self.buffer.reserve(&self.session, &asked.request, 0) {
            self.refuse(refused, asked.since).await;
            return None;
        }
        self.buffer.consume(asked.head);
        let request = match asked.request.for_origin() {
            Ok(request) => request,
            Err(refused) => {
                self.refuse(refused, asked.since).await;
                return None;
            }
        };
        self.session.count_handoff(decision);
        let server = http(self.handoff, to);
        let before = self.session.bytes().1;
        let (session, buffer, kept) = (&self.session, &mut self.buffer, &mut self.kept);
        let left = exchange(session, buffer, kept, &request, Some(&server), asked.since).await;
        if matches!(left, Left::Nothing | Left::Close) {
            let down = self.session.bytes().1 - before;
            self.learned.answered(&asked.question, down, true);
        }
        if matches!(left, Left::Nothing) {
            return Some(self);
        }
        end(self.session, self.buffer, request, left, asked.since).await;
        None
    }

    /// With all that came.
    async fn hand_over(mut self, asked: &Asked, to: usize) -> Handed<'a> {
        let away = Away {
            session: &self.session,
            handoff: self.handoff,
            links: self.links,
            learned: self.learned,
            question: Cell::new(asked.question),
            since: Cell::new(asked.since),
        };
        away.set_target(to);
        let stream = &self.session.stream;
        let journey = hand_over(self.links, stream, &mut self.buffer.inbox, to, &away);
        let journey = while_watching(&mut self.kept, pin!(journey)).await;
        match journey {
            Journey::Stayed(lost) => {
                away.session.count_handoff_failure(lost.why());
                away.say(&lost);
                Handed::Stayed(self)
            }
            Journey::Back { stream, bytes } => {
                self.is_back(stream, bytes);
                Handed::Back(self)
            }
            Journey::Over => {
                self.session.record_subflows();
                Handed::Gone
            }
            Journey::Lost(lost, at) => {
                away.say(&lost);
                self.session.log_close(&away.outcome(lost.name(), at));
                Handed::Gone
            }
        }
    }

    fn is_back(&mut self, stream: TcpStream, bytes: Vec<u8>) {
        sockets::set_up_for_clients(&stream);
        self.session.stream = ResetOnDrop::new(stream);
        self.buffer.inbox = bytes;
        self.buffer.reader = HeadReader::default();
    }
}

/// Where a back end is asked by relaying.
fn http(handoff: &Handoff, back_end: usize) -> Authority {
    let http = handoff.back_ends[back_end].http;
    Authority {
        host: Host::from(http.ip()),
        port: http.port(),
    }
}

/// A client's connection while it is with back ends.
struct Away<'a> {
    session: &'a Session,
    handoff: &'a Handoff,
    links: &'a Links,
    learned: &'a Learned,
    /// The request that is being answered, and when it began.
    question: Cell<Question>,
    since: Cell<Clock>,
}

impl Guide for Away<'_> {
    fn left(&self) {
        self.session.reserve(0);
    }

    fn answered(&self, by: usize, sent: u64, end: AnswerEnd) {
        // They went to the client, though not this way.
        let down = &self.session.stats().down;
        down.fetch_add(sent, Ordering::Relaxed);
        self.session.log_request(&self.outcome("handed-over", by));
        self.session.count_handoff(HandoffDecision::HandedOver);
        let is_whole = end == AnswerEnd::Whole;
        self.learned.answered(&self.question.get(), sent, is_whole);
        self.since.set(Clock::now());
    }

    fn next(&self, from: usize, bytes: &[u8]) -> Option<usize> {
        // Back here the connection ends behind the answer.
        if self.session.is_draining() {
            return None;
        }
        let (request, head): (Request, usize) =
            parse_request(bytes, self.session.http_limits()).ok()??;
        let question = self.learned.question(&request, self.handoff);
        let (came, expected) = (bytes.len() - head, question.expected);
        let chosen = choose(&request, came, expected, self.handoff, |back_end| {
            let itself = usize::from(back_end == from);
            Some(self.links.load(back_end)?.saturating_sub(itself))
        });
        let Choice::HandOver(to) = chosen else {
            return None;
        };
        // To stay where it is costs the front least, however small the answer is.
        if to != from && self.learned.is_small(expected) {
            return None;
        }
        self.question.set(question);
        self.set_target(to);
        Some(to)
    }
}

impl Away<'_> {
    fn set_target(&self, back_end: usize) {
        self.session.stats().set_target(self.name(back_end));
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
