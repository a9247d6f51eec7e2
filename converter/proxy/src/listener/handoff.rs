//! HTTP/1.1 to an origin server whose answers do not come this way: the client's connection is handed to a back end together
//! with its request, and comes back behind the answer. What cannot be handed over is relayed, and what is so small that it does
//! not pay.

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant as Clock;

use handoff_front::{AnswerEnd, HandoffError, Links, Outcome as Transfer, RequestRouter, hand_over};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tributary_proto::http::{Authority, HTTP2_HEAD, HeadReader, Refused, Request, parse_request};

use super::http::{AfterExchange, ClientBuffer, Next, end, exchange, next_request, refuse, tunnel, while_watching};
use crate::config::Handoff;
use crate::io::conn::{Conn, DrainNotice};
use crate::io::stream::ResetOnDrop;
use crate::kernel::sockets;
use crate::observe::Summary;
use crate::observe::metrics::HandoffDecision;
use crate::policy::handoff::{Choice, SizeEstimate, SizeEstimator, choose, choose_unseen};
use crate::upstream::IdleUpstream;

pub async fn serve(conn: Box<Conn>) {
    let config = Arc::clone(&conn.config);
    let (Some(handoff), Some(context)) = (&config.handoff, conn.context.handoff.clone()) else {
        // The configuration was checked: a listener has both.
        return conn.record(&Summary::new("not-configured", Clock::now()));
    };
    let mut deadline = Some(Instant::now() + config.timeouts.request);
    let draining = pin!(conn.context.draining());
    let mut draining = DrainNotice::by(draining);
    let idle_upstream = IdleUpstream::of(&conn.listener.idle_pool);
    let mut client = Client {
        conn,
        buffer: ClientBuffer::default(),
        idle_upstream,
        handoff,
        links: &context.links,
        estimator: &context.estimator,
    };
    loop {
        let (conn, buffer) = (&client.conn, &mut client.buffer);
        let until = deadline.take();
        let asks = next_request(conn, buffer, until, &mut draining);
        let next = while_watching(&mut client.idle_upstream, pin!(asks)).await;
        let (request, head) = match next {
            Next::Request(request, head) => (request, head),
            Next::End => return client.conn.finish_gracefully(),
            // Nothing but a connection's beginning is HTTP/2's.
            Next::Refused(refused) if until.is_some() => {
                return Box::pin(client.begin(refused)).await;
            }
            Next::Refused(refused) => return Box::pin(client.refuse(refused, Clock::now())).await,
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
    conn: Box<Conn>,
    buffer: ClientBuffer,
    idle_upstream: IdleUpstream,
    handoff: &'a Handoff,
    links: &'a Rc<Links>,
    estimator: &'a SizeEstimator,
}

/// A request, with whose head of so many bytes the client's inbox begins.
struct ClientRequest {
    request: Request,
    head: usize,
    estimate: SizeEstimate,
    since: Clock,
}

/// What became of a client whose connection was to be handed over.
enum HandoffState<'a> {
    /// It was handed over, and is back.
    Back(Client<'a>),
    /// It has not left.
    Stayed(Client<'a>),
    /// Its connection is over.
    Gone,
}

impl<'a> Client<'a> {
    /// Has a request answered, with whose head of so many bytes the inbox begins. The client, if it may ask for more.
    async fn answer(self, request: Request, head: usize) -> Option<Self> {
        let request = ClientRequest {
            estimate: self.estimator.estimate(&request, self.handoff),
            request,
            head,
            since: Clock::now(),
        };
        let expected = request.estimate.expected;
        match self.choose(&request) {
            Choice::HandOver(to) if self.estimator.is_small(expected) => {
                self.relay(request, to, HandoffDecision::Small).await
            }
            Choice::HandOver(to) => match self.hand_over(&request, to).await {
                HandoffState::Back(client) => Some(client),
                HandoffState::Stayed(client) => client.relay(request, to, HandoffDecision::Relayed).await,
                HandoffState::Gone => None,
            },
            Choice::Relay(to) => self.relay(request, to, HandoffDecision::Relayed).await,
            Choice::Nobody => {
                let refused = Refused::new(404, "no back end is for this request");
                self.refuse(refused, request.since).await;
                None
            }
        }
    }

    fn choose(&self, request: &ClientRequest) -> Choice {
        let came = self.buffer.inbox.len() - request.head;
        let expected = request.estimate.expected;
        choose(&request.request, came, expected, self.handoff, |back_end| {
            let load = self.links.load(back_end);
            load.filter(|_| !self.conn.context.is_draining())
        })
    }

    /// What came first is no request that can be read. It may be HTTP/2's, which is relayed as it is, if there is a rule for
    /// whatever it asks.
    async fn begin(self, refused: Refused) {
        let client = self.conn.client.ip();
        let load = |back_end| self.links.load(back_end);
        match choose_unseen(client, self.handoff, load) {
            Some(to) if self.buffer.inbox.starts_with(HTTP2_HEAD) => {
                self.conn.metrics().count_handoff(HandoffDecision::Relayed);
                tunnel(self.conn, &http(self.handoff, to), self.buffer.inbox, &[], None).await;
            }
            _ => self.refuse(refused, Clock::now()).await,
        }
    }

    async fn refuse(mut self, refused: Refused, since: Clock) {
        self.buffer.discard(&self.conn);
        refuse(self.conn, refused, "", since).await;
    }

    async fn relay(mut self, request: ClientRequest, to: usize, decision: HandoffDecision) -> Option<Self> {
        // More of it may have come while it was to be handed over.
        if let Err(refused) = self.buffer.reserve(&self.conn, &request.request) {
            self.refuse(refused, request.since).await;
            return None;
        }
        self.buffer.consume(request.head);
        let for_origin = match request.request.for_origin() {
            Ok(request) => request,
            Err(refused) => {
                self.refuse(refused, request.since).await;
                return None;
            }
        };
        self.conn.metrics().count_handoff(decision);
        let server = http(self.handoff, to);
        let before = self.conn.bytes().1;
        let (conn, buffer, idle_upstream) = (&self.conn, &mut self.buffer, &mut self.idle_upstream);
        let left = exchange(conn, buffer, idle_upstream, &for_origin, Some(&server), request.since).await;
        if matches!(left, AfterExchange::KeepAlive | AfterExchange::Close) {
            let down = self.conn.bytes().1 - before;
            self.estimator.answered(&request.estimate, down, true);
        }
        if matches!(left, AfterExchange::KeepAlive) {
            return Some(self);
        }
        end(self.conn, self.buffer, for_origin, left, request.since).await;
        None
    }

    /// With all that came.
    async fn hand_over(mut self, request: &ClientRequest, to: usize) -> HandoffState<'a> {
        let client_away = HandedOffClient {
            conn: &self.conn,
            handoff: self.handoff,
            links: self.links,
            estimator: self.estimator,
            estimate: Cell::new(request.estimate),
            since: Cell::new(request.since),
        };
        client_away.set_target(to);
        let stream = &self.conn.stream;
        let transfer = hand_over(self.links, stream, &mut self.buffer.inbox, to, &client_away);
        let transfer = while_watching(&mut self.idle_upstream, pin!(transfer)).await;
        match transfer {
            Transfer::NotHanded(lost) => {
                client_away.conn.metrics().count_handoff_failure(lost.why());
                client_away.say(&lost);
                HandoffState::Stayed(self)
            }
            Transfer::Returned { stream, bytes } => {
                self.is_back(stream, bytes);
                HandoffState::Back(self)
            }
            Transfer::Closed => {
                self.conn.record_subflows();
                HandoffState::Gone
            }
            Transfer::Lost(lost, at) => {
                client_away.say(&lost);
                self.conn.record(&client_away.outcome(lost.name(), at));
                HandoffState::Gone
            }
        }
    }

    fn is_back(&mut self, stream: TcpStream, bytes: Vec<u8>) {
        sockets::set_up_for_clients(&stream);
        self.conn.stream = ResetOnDrop::new(stream);
        self.buffer.inbox = bytes;
        self.buffer.reader = HeadReader::default();
    }
}

/// The address that a back end relays at.
fn http(handoff: &Handoff, back_end: usize) -> Authority {
    handoff.back_ends[back_end].http.into()
}

/// A client's connection while it is with back ends.
struct HandedOffClient<'a> {
    conn: &'a Conn,
    handoff: &'a Handoff,
    links: &'a Links,
    estimator: &'a SizeEstimator,
    /// The request that is being answered, and when it began.
    estimate: Cell<SizeEstimate>,
    since: Cell<Clock>,
}

impl RequestRouter for HandedOffClient<'_> {
    fn handed_over(&self) {
        self.conn.permit.reserve(0);
    }

    fn answered(&self, by: usize, sent: u64, end: AnswerEnd) {
        // They went to the client, though not this way.
        let down = &self.conn.stats().down;
        down.fetch_add(sent, Ordering::Relaxed);
        self.conn.record_request(&self.outcome("handed-over", by));
        self.conn.metrics().count_handoff(HandoffDecision::HandedOver);
        let is_whole = end == AnswerEnd::Whole;
        self.estimator.answered(&self.estimate.get(), sent, is_whole);
        self.since.set(Clock::now());
    }

    fn route(&self, from: usize, bytes: &[u8]) -> Option<usize> {
        // Back here the connection ends behind the answer.
        if self.conn.context.is_draining() {
            return None;
        }
        let (request, head): (Request, usize) = parse_request(bytes, &self.conn.context.http).ok()??;
        let estimate = self.estimator.estimate(&request, self.handoff);
        let (came, expected) = (bytes.len() - head, estimate.expected);
        let chosen = choose(&request, came, expected, self.handoff, |back_end| {
            let itself = usize::from(back_end == from);
            Some(self.links.load(back_end)?.saturating_sub(itself))
        });
        let Choice::HandOver(to) = chosen else {
            return None;
        };
        // To stay where it is costs the front least, however small the answer is.
        if to != from && self.estimator.is_small(expected) {
            return None;
        }
        self.estimate.set(estimate);
        self.set_target(to);
        Some(to)
    }
}

impl HandedOffClient<'_> {
    fn set_target(&self, back_end: usize) {
        self.conn.stats().set_target(self.name(back_end));
    }

    fn name(&self, back_end: usize) -> &str {
        &self.handoff.back_ends[back_end].name
    }

    fn outcome<'o>(&'o self, name: &'o str, back_end: usize) -> Summary<'o> {
        Summary {
            target: self.name(back_end),
            ..Summary::new(name, self.since.get())
        }
    }

    fn say(&self, lost: &HandoffError) {
        let client = self.conn.config.log.clients.socket_address(self.conn.client);
        tracing::debug!("the connection of {client} is not handed over: {lost}");
    }
}
