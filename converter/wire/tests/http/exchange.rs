//! Exchanges as scripts: what happens, and what is done about it.

use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use tributary_wire::http::exchange::{
    Action, ClientAfter, Completed, Ending, Event, Exchange, Fault, Input, ServerAfter,
};
use tributary_wire::http::{HeadLimits, Refused, parse_request};

use super::limits;

const GET: &str = "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n";
const LAST_GET: &str =
    "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";
const PUT: &str = "PUT http://a.example/ HTTP/1.1\r\nHost: a.example\r\nContent-Length: 10\r\n\r\n";
const LAST_PUT: &str = "PUT http://a.example/ HTTP/1.1\r\nHost: a.example\r\nContent-Length: 10\r\nConnection: close\r\n\r\n";
const OLD_PUT: &str = "PUT http://a.example/ HTTP/1.0\r\nContent-Length: 10\r\n\r\n";
const POST: &str =
    "POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n";
const HEAD: &str = "HEAD http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n";
const UPGRADE: &str = "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n";
const EMPTY: &[u8] = b"HTTP/1.1 204 No Content\r\n\r\n";
const TO_THE_END: &[u8] = b"HTTP/1.1 200 OK\r\n\r\n";
const CHUNKED: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
const TOO_LARGE: &[u8] = b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n";
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
const SWITCH: &[u8] =
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";

const CLIENT_END: Event<'_> = Event::Client(Input::End);
const CLIENT_RESET: Event<'_> = Event::Client(Input::Reset);
const SERVER_END: Event<'_> = Event::Server(Input::End);
const SERVER_RESET: Event<'_> = Event::Server(Input::Reset);
const SILENCE: Event<'_> = Event::Silence {
    server_clogged: false,
};

fn client(bytes: &[u8]) -> Event<'_> {
    Event::Client(Input::Bytes(bytes))
}

fn server(bytes: &[u8]) -> Event<'_> {
    Event::Server(Input::Bytes(bytes))
}

fn all(bytes: &[u8]) -> Action {
    pass(bytes.len())
}

fn pass(used: usize) -> Action {
    Action::Pass {
        used,
        data: 0..used,
    }
}

fn head(bytes: &[u8]) -> Action {
    Action::Head(bytes.len())
}

fn completed(status: u16, client: ClientAfter, server: ServerAfter) -> Action {
    Action::End(Ending::Completed(Completed {
        status,
        client,
        server,
    }))
}

fn kept(status: u16) -> Action {
    completed(status, ClientAfter::Keep, ServerAfter::Keep)
}

fn refused(status: u16, reason: &'static str) -> Action {
    Action::End(Ending::Refused(Refused::new(status, reason)))
}

fn broken(status: u16, fault: Fault) -> Action {
    let status = (status != 0).then_some(status);
    Action::End(Ending::Broken { status, fault })
}

fn clock() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777) // RFC 9110 section 5.6.7
}

fn begin<'a>(request: &str, is_kept: bool, limits: &'a HeadLimits) -> Exchange<'a> {
    let (request, _) = parse_request(request.as_bytes(), limits)
        .expect("a request")
        .expect("a whole one");
    Exchange::begin(&request, is_kept, limits, clock, &mut Vec::new()).expect("forwarded")
}

/// Plays a script: a response is sent as soon as there is something of it.
fn play(request: &str, is_kept: bool, script: &[(Event<'_>, Action)]) {
    let limits = limits();
    let mut exchange = begin(request, is_kept, &limits);
    let mut out = Vec::new();
    for (number, (event, action)) in script.iter().enumerate() {
        let done = exchange.handle(*event, &mut out);
        assert_eq!(
            done, *action,
            "step {number} of {script:?}\nafter {request}"
        );
        exchange.commit();
    }
}

#[test]
fn whole_exchanges() {
    for (request, script) in [
        (
            GET,
            vec![
                (server(OK), head(OK)),
                (Event::Delivered, Action::Wait),
                (server(b"ab"), pass(2)),
                (Event::Delivered, kept(200)),
            ],
        ),
        (
            HEAD,
            vec![(server(OK), head(OK)), (Event::Delivered, kept(200))],
        ),
        (
            GET,
            vec![
                (server(CONTINUE), head(CONTINUE)),
                (Event::Delivered, Action::Wait),
                (server(EMPTY), head(EMPTY)),
                (Event::Delivered, kept(204)),
            ],
        ),
        (
            PUT,
            vec![
                (client(b"01234"), pass(5)),
                (client(b"56789GET"), pass(5)),
                (server(EMPTY), head(EMPTY)),
                (Event::Delivered, kept(204)),
            ],
        ),
        (
            POST,
            vec![
                (client(b"2\r\nab\r\n"), pass(7)),
                (client(b"0\r\n\r\nGET"), pass(5)),
                (server(EMPTY), head(EMPTY)),
                (Event::Delivered, kept(204)),
            ],
        ),
        (
            LAST_GET,
            vec![
                (server(EMPTY), head(EMPTY)),
                (
                    Event::Delivered,
                    completed(204, ClientAfter::Close, ServerAfter::Keep),
                ),
            ],
        ),
        (
            GET,
            vec![
                (server(TO_THE_END), head(TO_THE_END)),
                (server(b"abc"), pass(3)),
                (SERVER_END, Action::Wait),
                (
                    Event::Delivered,
                    completed(200, ClientAfter::Linger, ServerAfter::Close),
                ),
            ],
        ),
        (
            UPGRADE,
            vec![
                (server(SWITCH), head(SWITCH)),
                (server(b"frames"), Action::Wait),
                (
                    Event::Delivered,
                    Action::End(Ending::Switched { status: 101 }),
                ),
            ],
        ),
    ] {
        play(request, false, &script);
    }
}

/// A client that ended its direction behind a whole request wants its response all the same.
#[test]
fn a_client_may_end_its_direction_behind_its_request() {
    for request in [GET, LAST_GET] {
        play(
            request,
            false,
            &[(CLIENT_END, Action::Wait), (server(OK), head(OK))],
        );
    }
    play(
        PUT,
        false,
        &[
            (client(b"0123456789"), pass(10)),
            (CLIENT_END, Action::Wait),
            (server(EMPTY), head(EMPTY)),
        ],
    );
}

/// Whenever it resets: while it sends, while the server thinks, while the response is on its way.
#[test]
fn a_client_that_breaks_off_ends_the_exchange_at_once() {
    let reset = |status| broken(status, Fault::ClientReset);
    for (request, script) in [
        (GET, vec![(CLIENT_RESET, reset(0))]),
        (
            GET,
            vec![(CLIENT_END, Action::Wait), (CLIENT_RESET, reset(0))],
        ),
        (PUT, vec![(CLIENT_RESET, reset(0))]),
        (PUT, vec![(CLIENT_END, reset(0))]),
        (
            PUT,
            vec![(client(b"01234"), pass(5)), (CLIENT_END, reset(0))],
        ),
        (
            PUT,
            vec![(client(b"0123456789"), pass(10)), (CLIENT_RESET, reset(0))],
        ),
        (
            POST,
            vec![(client(b"0\r\n\r\n"), pass(5)), (CLIENT_RESET, reset(0))],
        ),
        (
            GET,
            vec![(server(CONTINUE), head(CONTINUE)), (CLIENT_RESET, reset(0))],
        ),
        (
            GET,
            vec![(server(OK), head(OK)), (CLIENT_RESET, reset(200))],
        ),
        (
            GET,
            vec![
                (server(OK), head(OK)),
                (server(b"ab"), pass(2)),
                (CLIENT_RESET, reset(200)),
            ],
        ),
    ] {
        play(request, false, &script);
    }
}

/// What is left of the request is on its way: the client's connection lingers, so that no reset destroys the answer.
#[test]
fn an_early_answer_survives_what_the_client_still_sends() {
    for request in [PUT, LAST_PUT, OLD_PUT, POST] {
        let some: &[u8] = if request == POST { b"a\r\n01" } else { b"01" };
        play(
            request,
            false,
            &[
                (client(some), all(some)),
                (server(TOO_LARGE), head(TOO_LARGE)),
                (
                    Event::Delivered,
                    completed(413, ClientAfter::Linger, ServerAfter::Reset),
                ),
            ],
        );
    }
    for request in [PUT, LAST_PUT] {
        play(
            request,
            false,
            &[
                (Event::ServerDeaf, Action::Wait),
                (server(TOO_LARGE), head(TOO_LARGE)),
                (
                    Event::Delivered,
                    completed(413, ClientAfter::Linger, ServerAfter::Reset),
                ),
            ],
        );
    }
}

#[test]
fn what_is_cut_short_never_looks_whole() {
    let reset = broken(200, Fault::ServerReset);
    for (response, some, last) in [
        (OK, &b"a"[..], SERVER_END),
        (OK, b"a", SERVER_RESET),
        (CHUNKED, b"2\r\nab\r\n", SERVER_END),
        (CHUNKED, b"2\r\nab\r\n0\r\n", SERVER_END),
        (CHUNKED, b"2\r\nab\r\n", SERVER_RESET),
        (TO_THE_END, b"abc", SERVER_RESET),
    ] {
        play(
            GET,
            false,
            &[
                (server(response), head(response)),
                (server(some), all(some)),
                (last, reset.clone()),
            ],
        );
    }
    let within = refused(502, "the server ended within its response");
    play(
        GET,
        true,
        &[(server(&OK[..9]), Action::Wait), (SERVER_END, within)],
    );
}

#[test]
fn a_server_that_does_not_answer() {
    let unanswered = refused(502, "the server ended without a response");
    for (request, is_kept, last, ending) in [
        (GET, false, SERVER_END, unanswered.clone()),
        (GET, false, SERVER_RESET, unanswered.clone()),
        (GET, true, SERVER_END, Action::End(Ending::Repeat)),
        (GET, true, SERVER_RESET, Action::End(Ending::Repeat)),
        (PUT, true, SERVER_END, unanswered.clone()),
        (POST, true, SERVER_RESET, unanswered),
        (
            GET,
            true,
            SILENCE,
            refused(504, "the server did not respond in time"),
        ),
        (
            PUT,
            true,
            SILENCE,
            refused(408, "the content took too long"),
        ),
        (
            PUT,
            true,
            Event::Silence {
                server_clogged: true,
            },
            refused(504, "the server did not respond in time"),
        ),
    ] {
        play(request, is_kept, &[(last, ending)]);
    }
    // 1xx is no answer, and once it has come the request was read.
    play(
        GET,
        true,
        &[
            (server(CONTINUE), head(CONTINUE)),
            (
                SERVER_END,
                refused(502, "the server ended within its response"),
            ),
        ],
    );
}

#[test]
fn silence_within_a_response_breaks_it() {
    play(
        GET,
        false,
        &[
            (server(OK), head(OK)),
            (SILENCE, broken(200, Fault::Silent)),
        ],
    );
}

#[test]
fn malformed_content_is_refused_until_the_response_has_begun() {
    let bad = b"xyz\r\n";
    play(
        POST,
        false,
        &[(client(bad), refused(400, "malformed chunk size"))],
    );
    play(
        POST,
        false,
        &[
            (server(OK), head(OK)),
            (client(bad), broken(200, Fault::BadRequest)),
        ],
    );
    play(
        GET,
        false,
        &[
            (server(CHUNKED), head(CHUNKED)),
            (server(bad), broken(200, Fault::MalformedBody)),
        ],
    );
    let limits = limits();
    let (mut exchange, mut out) = (begin(GET, false, &limits), Vec::new());
    assert_eq!(exchange.handle(server(CHUNKED), &mut out), head(CHUNKED));
    let uncommitted = exchange.handle(server(bad), &mut out);
    assert_eq!(uncommitted, refused(502, "malformed content"));
}

/// The server's connection is not used again: what comes there next might be taken for another answer.
#[test]
fn bytes_behind_a_response_are_dropped() {
    let ignored = Action::Pass {
        used: 5,
        data: 0..0,
    };
    play(
        GET,
        false,
        &[
            (server(OK), head(OK)),
            (server(b"abHTTP/"), pass(2)),
            (server(b"HTTP/"), ignored),
            (
                Event::Delivered,
                completed(200, ClientAfter::Keep, ServerAfter::Close),
            ),
        ],
    );
}

#[test]
fn a_drain_ends_the_connection_behind_the_response() {
    let limits = limits();
    let (mut exchange, mut out) = (begin(GET, false, &limits), Vec::new());
    exchange.drain();
    assert_eq!(exchange.handle(server(EMPTY), &mut out), head(EMPTY));
    assert!(String::from_utf8_lossy(&out).contains("Connection: close\r\n"));
    assert_eq!(
        exchange.handle(Event::Delivered, &mut out),
        completed(204, ClientAfter::Linger, ServerAfter::Keep)
    );
}

/// What happens next, without bytes of its own.
#[derive(Clone, Copy, Debug)]
enum Happens {
    ClientSends(usize),
    ClientEnds,
    ClientResets,
    ServerSends(usize),
    ServerEnds,
    ServerResets,
    ServerIsDeaf,
    Delivered,
    Silence,
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        4 => (1..40_usize).prop_map(Happens::ClientSends),
        1 => Just(Happens::ClientEnds),
        1 => Just(Happens::ClientResets),
        8 => (1..60_usize).prop_map(Happens::ServerSends),
        1 => Just(Happens::ServerEnds),
        1 => Just(Happens::ServerResets),
        1 => Just(Happens::ServerIsDeaf),
        6 => Just(Happens::Delivered),
        1 => Just(Happens::Silence),
    ]
}

/// An exchange with all that a caller holds for it.
struct Played<'a> {
    exchange: Exchange<'a>,
    /// What comes from each side, and what of it was shown in vain.
    from_client: &'a [u8],
    from_server: &'a [u8],
    client_inbox: Vec<u8>,
    server_inbox: Vec<u8>,
    passed: Vec<u8>,
    most_held: usize,
    /// Of `passed`, what the client got.
    sent: usize,
}

impl Played<'_> {
    fn happen(&mut self, what: Happens) -> Option<Ending> {
        match what {
            Happens::ClientSends(count) => self.client_sends(count),
            Happens::ServerSends(count) => self.server_sends(count),
            Happens::ClientEnds => self.show(CLIENT_END),
            Happens::ClientResets => self.show(CLIENT_RESET),
            Happens::ServerEnds => self.show(SERVER_END),
            Happens::ServerResets => self.show(SERVER_RESET),
            Happens::ServerIsDeaf => self.show(Event::ServerDeaf),
            Happens::Delivered => self.show(Event::Delivered),
            Happens::Silence => self.show(SILENCE),
        }
    }

    fn show(&mut self, event: Event<'_>) -> Option<Ending> {
        match self.exchange.handle(event, &mut self.passed) {
            Action::End(ending) => Some(ending),
            _ => None,
        }
    }

    fn client_sends(&mut self, count: usize) -> Option<Ending> {
        if !self.exchange.reads_client() {
            return None;
        }
        let (now, later) = self.from_client.split_at(count.min(self.from_client.len()));
        self.from_client = later;
        self.client_inbox.extend_from_slice(now);
        if self.client_inbox.is_empty() {
            return None;
        }
        match self
            .exchange
            .handle(client(&self.client_inbox), &mut self.passed)
        {
            Action::End(ending) => return Some(ending),
            Action::Pass { used, .. } => drop(self.client_inbox.drain(..used)),
            Action::Wait | Action::Head(_) => {}
        }
        None
    }

    fn server_sends(&mut self, count: usize) -> Option<Ending> {
        if !self.exchange.reads_server() {
            return None;
        }
        let (now, later) = self.from_server.split_at(count.min(self.from_server.len()));
        self.from_server = later;
        self.server_inbox.extend_from_slice(now);
        while !self.server_inbox.is_empty() {
            match self
                .exchange
                .handle(server(&self.server_inbox), &mut self.passed)
            {
                Action::End(ending) => return Some(ending),
                Action::Wait => break,
                Action::Head(used) => drop(self.server_inbox.drain(..used)),
                Action::Pass { used, data } => {
                    self.passed.extend_from_slice(&self.server_inbox[data]);
                    drop(self.server_inbox.drain(..used));
                }
            }
        }
        self.exchange.commit();
        self.sent = self.passed.len();
        self.most_held = self.most_held.max(self.server_inbox.len());
        None
    }
}

const REQUESTS: [(&str, &[u8]); 6] = [
    (GET, b""),
    (LAST_GET, b""),
    (HEAD, b""),
    (PUT, b"0123456789GET"),
    (OLD_PUT, b"0123456789"),
    (POST, b"3\r\nabc\r\n0\r\n\r\nGET"),
];

const RESPONSES: [&[u8]; 6] = [
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: Transfer-Encoding\r\n\r\n5\r\nabcde\r\n0\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n\r\nabcde",
    b"HTTP/1.0 413 Too Large\r\nContent-Length: 0\r\n\r\nsurplus",
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
];

proptest! {
    /// Any order of events: memory is bounded, silence ends what nothing else did, and a response that is called whole is.
    #[test]
    fn every_exchange_ends_and_tells_the_truth(
        request in proptest::sample::select(&REQUESTS[..]),
        response in proptest::sample::select(&RESPONSES[..]),
        is_kept in any::<bool>(),
        events in proptest::collection::vec(happens(), 0..40),
    ) {
        let limits = limits();
        let mut played = Played {
            exchange: begin(request.0, is_kept, &limits),
            from_client: request.1,
            from_server: response,
            client_inbox: Vec::new(),
            server_inbox: Vec::new(),
            passed: Vec::new(),
            most_held: 0,
            sent: 0,
        };
        let mut server_ended = false;
        let mut ending = None;
        for event in events.iter().chain([&Happens::Delivered, &Happens::Silence]) {
            server_ended |= matches!(event, Happens::ServerEnds);
            ending = played.happen(*event);
            if ending.is_some() {
                break;
            }
        }
        prop_assert!(played.most_held <= response.len());
        match ending {
            None => prop_assert!(false, "silence ends everything"),
            Some(Ending::Completed(whole)) => {
                let until_the_end = response == RESPONSES[3] && !request.0.starts_with("HEAD");
                let has_body = played.passed.ends_with(b"abcde")
                    || played.passed.ends_with(b"0\r\n\r\n");
                let needs_none = request.0.starts_with("HEAD") || whole.status != 200;
                prop_assert!(until_the_end && server_ended || has_body || needs_none);
                prop_assert!(!until_the_end || whole.client != ClientAfter::Keep);
                // A request that the server did not get whole leaves neither connection to another one.
                if !played.client_inbox.is_empty() || !played.from_client.is_empty() {
                    let at_the_next = played.from_client.len() <= 3;
                    prop_assert!(at_the_next || whole.client == ClientAfter::Linger);
                    prop_assert!(at_the_next || whole.server == ServerAfter::Reset);
                }
            }
            Some(Ending::Refused(refused)) => {
                prop_assert!((400..600).contains(&refused.status));
                let sent = String::from_utf8_lossy(&played.passed[..played.sent]);
                prop_assert!(!["1 200", "1 204", "1 413"].iter().any(|status| sent.contains(status)));
            }
            Some(Ending::Repeat) => prop_assert!(is_kept && request.1.is_empty() && played.passed.is_empty()),
            Some(Ending::Broken { .. }) => {}
            Some(Ending::Switched { .. }) => prop_assert!(false, "nobody asked for it"),
        }
    }
}
