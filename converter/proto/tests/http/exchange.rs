//! Exchanges as scripts: what happens, and what is done about it.

use tributary_proto::http::exchange::{
    Action, ClientAfter, Completed, Event, Exchange, ExchangeResult, Fault, Input, ServerAfter,
};
use tributary_proto::http::{HeadLimits, MalformedFields, Refused, parse_request};

use super::{clock, limits};

pub const GET: &str = "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n";
pub const LAST_GET: &str = "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";
pub const PUT: &str = "PUT http://a.example/ HTTP/1.1\r\nHost: a.example\r\nContent-Length: 10\r\n\r\n";
const LAST_PUT: &str =
    "PUT http://a.example/ HTTP/1.1\r\nHost: a.example\r\nContent-Length: 10\r\nConnection: close\r\n\r\n";
pub const OLD_PUT: &str = "PUT http://a.example/ HTTP/1.0\r\nContent-Length: 10\r\n\r\n";
pub const POST: &str = "POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n";
pub const HEAD: &str = "HEAD http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n";
pub const UPGRADE: &str =
    "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";

const DELETE: &str = "DELETE http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n";
const EMPTY_POST: &str = "POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\nContent-Length: 0\r\n\r\n";

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n";
const EMPTY: &[u8] = b"HTTP/1.1 204 No Content\r\n\r\n";
const TO_THE_END: &[u8] = b"HTTP/1.1 200 OK\r\n\r\n";
const CHUNKED: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
const TOO_LARGE: &[u8] = b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n";
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
pub const SWITCH: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";

pub const CLIENT_END: Event<'_> = Event::Client(Input::End);
pub const CLIENT_RESET: Event<'_> = Event::Client(Input::Reset);
pub const SERVER_END: Event<'_> = Event::Server(Input::End);
pub const SERVER_RESET: Event<'_> = Event::Server(Input::Reset);
pub const SILENCE: Event<'_> = Event::IdleTimeout {
    upstream_blocked: false,
};
/// It had ended its own direction in order, if it has.
pub const DEAF: Event<'_> = Event::UpstreamWriteFailed { broke: false };
pub const BROKE: Event<'_> = Event::UpstreamWriteFailed { broke: true };

pub fn client(bytes: &[u8]) -> Event<'_> {
    Event::Client(Input::Bytes(bytes))
}

pub fn server(bytes: &[u8]) -> Event<'_> {
    Event::Server(Input::Bytes(bytes))
}

fn all(bytes: &[u8]) -> Action {
    pass(bytes.len())
}

fn pass(used: usize) -> Action {
    Action::Pass { used, data: 0..used }
}

fn head(bytes: &[u8]) -> Action {
    Action::Head(bytes.len())
}

fn completed(status: u16, client: ClientAfter, server: ServerAfter) -> Action {
    Action::End(ExchangeResult::Completed(Completed { status, client, server }))
}

fn kept(status: u16) -> Action {
    completed(status, ClientAfter::Keep, ServerAfter::Keep)
}

/// Behind content, which a server that does not read it would take for the next request.
fn kept_for_client(status: u16) -> Action {
    completed(status, ClientAfter::Keep, ServerAfter::KeepForClient)
}

fn refused(status: u16, reason: &'static str) -> Action {
    Action::End(ExchangeResult::Refused(Refused::new(status, reason)))
}

fn broken(status: u16, fault: Fault) -> Action {
    let status = (status != 0).then_some(status);
    Action::End(ExchangeResult::Aborted { status, fault })
}

/// An exchange, and the head that goes to its server.
pub fn begin<'a>(request: &str, is_kept: bool, limits: &'a HeadLimits) -> (Exchange<'a>, Vec<u8>) {
    let (request, _) = parse_request(request.as_bytes(), limits)
        .expect("a request")
        .expect("a whole one");
    let (_, head) = request.forwarded().expect("forwarded");
    let exchange = Exchange::begin(&request, is_kept, limits, clock);
    (exchange, head.to_vec())
}

/// Plays a script: a response is sent as soon as there is something of it, and the server takes its request at once.
fn play(request: &str, is_kept: bool, script: &[(Event<'_>, Action)]) {
    play_slowly(request, is_kept, &at_once(script));
}

/// `script`, with a server that takes at once what is passed on to it.
fn at_once<'a>(script: &[(Event<'a>, Action)]) -> Vec<(Event<'a>, Action)> {
    let taken = (Event::RequestFlushed, Action::Wait);
    let steps = script.iter().cloned();
    steps.flat_map(|step| [taken.clone(), step]).collect()
}

/// Plays a script whose server takes its request when the script says so. What goes to the client.
fn play_slowly(request: &str, is_kept: bool, script: &[(Event<'_>, Action)]) -> String {
    let limits = limits();
    let (mut exchange, _) = begin(request, is_kept, &limits);
    let mut out = Vec::new();
    for (number, (event, action)) in script.iter().enumerate() {
        let done = exchange.handle(*event, &mut out);
        assert_eq!(done, *action, "step {number} of {script:?}\nafter {request}");
        exchange.commit();
    }
    String::from_utf8(out).expect("heads are text")
}

#[test]
fn whole_exchanges() {
    for (request, script) in [
        (
            GET,
            vec![
                (server(OK), head(OK)),
                (Event::ResponseFlushed, Action::Wait),
                (server(b"ab"), pass(2)),
                (Event::ResponseFlushed, kept(200)),
            ],
        ),
        (HEAD, vec![(server(OK), head(OK)), (Event::ResponseFlushed, kept(200))]),
        (
            GET,
            vec![
                (server(CONTINUE), head(CONTINUE)),
                (Event::ResponseFlushed, Action::Wait),
                (server(EMPTY), head(EMPTY)),
                (Event::ResponseFlushed, kept(204)),
            ],
        ),
        (
            PUT,
            vec![
                (client(b"01234"), pass(5)),
                (client(b"56789GET"), pass(5)),
                (server(EMPTY), head(EMPTY)),
                (Event::ResponseFlushed, kept_for_client(204)),
            ],
        ),
        (
            POST,
            vec![
                (client(b"2\r\nab\r\n"), pass(7)),
                (client(b"0\r\n\r\nGET"), pass(5)),
                (server(EMPTY), head(EMPTY)),
                (Event::ResponseFlushed, kept_for_client(204)),
            ],
        ),
        (
            LAST_GET,
            vec![
                (server(EMPTY), head(EMPTY)),
                (
                    Event::ResponseFlushed,
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
                    Event::ResponseFlushed,
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
                    Event::ResponseFlushed,
                    Action::End(ExchangeResult::Upgraded { status: 101 }),
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
        play(request, false, &[(CLIENT_END, Action::Wait), (server(OK), head(OK))]);
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

/// What a kept connection goes by hangs: the request goes elsewhere, if it may be sent twice and nothing has come of an answer.
#[test]
fn a_request_leaves_a_connection_by_which_nothing_will_come() {
    let stays = (Event::ServerUnavailable, Action::Wait);
    let leaves = Action::End(ExchangeResult::Retry);
    for (request, is_kept, script) in [
        (GET, true, vec![(Event::ServerUnavailable, leaves)]),
        (GET, false, vec![stays.clone()]),
        (PUT, true, vec![stays.clone()]),
        (GET, true, vec![(server(b"HTTP/1.1 2"), Action::Wait), stays.clone()]),
        (GET, true, vec![(server(CONTINUE), head(CONTINUE)), stays]),
    ] {
        play(request, is_kept, &script);
    }
}

/// Whenever it resets: while it sends, while the server thinks, while the response is on its way.
#[test]
fn a_client_that_breaks_off_ends_the_exchange_at_once() {
    let reset = |status| broken(status, Fault::ClientReset);
    for (request, script) in [
        (GET, vec![(CLIENT_RESET, reset(0))]),
        (GET, vec![(CLIENT_END, Action::Wait), (CLIENT_RESET, reset(0))]),
        (PUT, vec![(CLIENT_RESET, reset(0))]),
        (PUT, vec![(CLIENT_END, reset(0))]),
        (PUT, vec![(client(b"01234"), pass(5)), (CLIENT_END, reset(0))]),
        (PUT, vec![(client(b"0123456789"), pass(10)), (CLIENT_RESET, reset(0))]),
        (POST, vec![(client(b"0\r\n\r\n"), pass(5)), (CLIENT_RESET, reset(0))]),
        (GET, vec![(server(CONTINUE), head(CONTINUE)), (CLIENT_RESET, reset(0))]),
        (GET, vec![(server(OK), head(OK)), (CLIENT_RESET, reset(200))]),
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
                    Event::ResponseFlushed,
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
                (DEAF, Action::Wait),
                (server(TOO_LARGE), head(TOO_LARGE)),
                (
                    Event::ResponseFlushed,
                    completed(413, ClientAfter::Linger, ServerAfter::Reset),
                ),
            ],
        );
    }
}

/// A server may answer before it has read its request. Its connection serves another one only if all of this one was written
/// to it (RFC 9112 section 9.3): what is missing there would be made up of the next request's bytes.
#[test]
fn a_server_that_did_not_get_the_whole_request_is_not_asked_again() {
    let unauthorized = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n";
    let answered = (server(unauthorized), head(unauthorized));
    let whole = (client(b"0123456789"), pass(10));
    let flushed = (Event::RequestFlushed, Action::Wait);
    let ends = |client, server| (Event::ResponseFlushed, completed(401, client, server));
    for (script, closes) in [
        (
            vec![
                whole.clone(),
                flushed.clone(),
                answered.clone(),
                ends(ClientAfter::Keep, ServerAfter::KeepForClient),
            ],
            false,
        ),
        // The client has sent everything, and may go on.
        (
            vec![
                whole.clone(),
                answered.clone(),
                ends(ClientAfter::Keep, ServerAfter::Reset),
            ],
            false,
        ),
        (
            vec![
                whole.clone(),
                answered.clone(),
                flushed.clone(),
                ends(ClientAfter::Keep, ServerAfter::KeepForClient),
            ],
            false,
        ),
        (
            vec![
                whole.clone(),
                answered.clone(),
                (DEAF, Action::Wait),
                flushed.clone(),
                ends(ClientAfter::Keep, ServerAfter::Reset),
            ],
            false,
        ),
        // It is told that it may not, and what it sends after all goes by.
        (
            vec![
                flushed.clone(),
                answered.clone(),
                ends(ClientAfter::Linger, ServerAfter::Reset),
            ],
            true,
        ),
        (
            vec![
                (client(b"0123"), pass(4)),
                flushed.clone(),
                answered.clone(),
                ends(ClientAfter::Linger, ServerAfter::Reset),
            ],
            true,
        ),
        (
            vec![
                answered.clone(),
                whole.clone(),
                flushed.clone(),
                ends(ClientAfter::Linger, ServerAfter::KeepForClient),
            ],
            true,
        ),
        (
            vec![
                (DEAF, Action::Wait),
                answered,
                ends(ClientAfter::Linger, ServerAfter::Reset),
            ],
            true,
        ),
    ] {
        let sent = play_slowly(PUT, false, &script);
        assert_eq!(sent.contains("Connection: close\r\n"), closes, "{script:?}");
    }
    // Of a request without content the head may be what has not been taken.
    let script = [
        (server(EMPTY), head(EMPTY)),
        (Event::ResponseFlushed, Action::Wait),
        flushed,
        (Event::ResponseFlushed, kept(204)),
    ];
    play_slowly(GET, true, &script);
}

/// A server that says early that all is well goes on reading, and gets the rest of its request (RFC 9110 section 15.3): a part
/// of an upload is never reported as done.
#[test]
fn an_early_success_is_one_only_when_the_server_has_the_whole_request() {
    let flushed = (Event::RequestFlushed, Action::Wait);
    let early = [
        flushed.clone(),
        (server(EMPTY), head(EMPTY)),
        (Event::ResponseFlushed, Action::Wait),
    ];
    let rest = [
        (client(b"01234"), pass(5)),
        flushed.clone(),
        (Event::ResponseFlushed, Action::Wait),
        (client(b"56789GET"), pass(5)),
    ];
    let with = |last: &[(Event<'static>, Action)]| [&early[..], &rest[..], last].concat();
    let done = [flushed.clone(), (Event::ResponseFlushed, kept_for_client(204))];
    let sent = play_slowly(PUT, false, &with(&done));
    assert!(!sent.contains("Connection: close"), "{sent}");
    for last in [SERVER_RESET, DEAF, BROKE] {
        let cut = [(last, broken(204, Fault::ServerReset))];
        play_slowly(PUT, false, &[&early[..], &cut[..]].concat());
        play_slowly(PUT, false, &with(&cut));
    }
    // It ends its own direction, and may go on reading.
    play_slowly(PUT, false, &with(&[&[(SERVER_END, Action::Wait)], &done[..]].concat()));
    for (last, fault) in [
        (CLIENT_END, Fault::ClientReset),
        (CLIENT_RESET, Fault::ClientReset),
        (SILENCE, Fault::IdleTimeout),
    ] {
        play_slowly(PUT, false, &[&early[..], &[(last, broken(204, fault))]].concat());
    }
    let refused = refused(502, "the server did not take the whole request");
    play_slowly(PUT, false, &[(DEAF, Action::Wait), (server(EMPTY), refused)]);
}

/// What is left of the request is the server's to read before anything of the other protocol (RFC 9110 section 7.8).
#[test]
fn a_protocol_changes_when_the_server_has_the_whole_request() {
    let waits = [(server(SWITCH), head(SWITCH)), (Event::ResponseFlushed, Action::Wait)];
    let flushed = (Event::RequestFlushed, Action::Wait);
    let flushed_in_part = flushed.clone();
    let switched = (
        Event::ResponseFlushed,
        Action::End(ExchangeResult::Upgraded { status: 101 }),
    );
    let script = [&waits[..], &[flushed.clone(), switched.clone()]].concat();
    play_slowly(UPGRADE, false, &script);
    let cut = (DEAF, broken(101, Fault::ServerReset));
    play_slowly(UPGRADE, false, &[&waits[..], &[cut]].concat());
    let rest = (client(b"{}"), all(b"{}"));
    let with_content = UPGRADE.replace("\r\n\r\n", "\r\nContent-Length: 2\r\n\r\n");
    let script = [&waits[..], &[flushed_in_part, rest, flushed, switched]].concat();
    play_slowly(&with_content, false, &script);
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
    play(GET, true, &[(server(&OK[..9]), Action::Wait), (SERVER_END, within)]);
    // The write has the reset's error, and the read behind it none.
    let head = b"HTTP/1.1 413 Content Too Large\r\n\r\n";
    let whole = completed(413, ClientAfter::Linger, ServerAfter::Reset);
    for (deaf, last) in [
        (BROKE, vec![(SERVER_END, broken(413, Fault::ServerReset))]),
        (DEAF, vec![(SERVER_END, Action::Wait), (Event::ResponseFlushed, whole)]),
    ] {
        let script = [
            (deaf, Action::Wait),
            (server(head), self::head(head)),
            (server(b"abc"), pass(3)),
        ];
        play(PUT, false, &[&script[..], &last].concat());
    }
}

const TIMED_OUT: &[u8] = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n";

/// It speaks of the connection, and not of the request that crosses it (RFC 9110 section 15.5.9).
#[test]
fn a_server_that_has_waited_too_long_for_a_request_on_a_kept_connection() {
    let retry = Action::End(ExchangeResult::Retry);
    play(GET, true, &[(server(TIMED_OUT), retry.clone())]);
    play(
        GET,
        true,
        &[(server(&TIMED_OUT[..9]), Action::Wait), (server(TIMED_OUT), retry)],
    );
    for (request, is_kept) in [(GET, false), (EMPTY_POST, true)] {
        play(request, is_kept, &[(server(TIMED_OUT), head(TIMED_OUT))]);
    }
}

/// What is said on it later needs no credentials any more: it is another's only by mistake.
#[test]
fn a_connection_that_a_user_logs_in_to() {
    let anybodys = ServerAfter::Keep;
    let theirs = ServerAfter::KeepForClient;
    for (to_server, to_client, after) in [
        ("Authorization: NTLM TlRM", "", theirs),
        ("authorization: NEGOTIATE YII=", "", theirs),
        ("Authorization: NTLM\tTlRM", "", theirs),
        ("Authorization:\tKerberos YII=", "", theirs),
        ("Authorization: Bearer a.b=", "", anybodys),
        ("Authorization: Digest username=\"a\", nc = 1,qop=auth", "", anybodys),
        ("", "WWW-Authenticate: Negotiate\r\n", theirs),
        ("", "WWW-Authenticate: Basic realm=\"a\", NTLM TlRM\r\n", theirs),
        (
            "Authorization: Basic YTpi",
            "WWW-Authenticate: Digest realm=a\r\n",
            anybodys,
        ),
        ("Negotiate: NTLM", "Vary: negotiate\r\n", anybodys),
    ] {
        let field = if to_server.is_empty() { "A: b" } else { to_server };
        let request = format!("GET http://a.example/ HTTP/1.1\r\nHost: a\r\n{field}\r\n\r\n");
        let response = format!("HTTP/1.1 401 No\r\nContent-Length: 0\r\n{to_client}\r\n");
        let response = response.as_bytes();
        play(
            &request,
            false,
            &[
                (server(response), head(response)),
                (Event::ResponseFlushed, completed(401, ClientAfter::Keep, after)),
            ],
        );
    }
}

#[test]
fn a_server_that_does_not_answer() {
    let unanswered = refused(502, "the server ended without a response");
    for (request, is_kept, last, ending) in [
        (GET, false, SERVER_END, unanswered.clone()),
        (GET, false, SERVER_RESET, unanswered.clone()),
        (GET, true, SERVER_END, Action::End(ExchangeResult::Retry)),
        (GET, true, SERVER_RESET, Action::End(ExchangeResult::Retry)),
        (DELETE, true, SERVER_END, Action::End(ExchangeResult::Retry)),
        (EMPTY_POST, true, SERVER_END, unanswered.clone()),
        (PUT, true, SERVER_END, unanswered.clone()),
        (POST, true, SERVER_RESET, unanswered),
        (GET, true, SILENCE, refused(504, "the server did not respond in time")),
        (PUT, true, SILENCE, refused(408, "the content took too long")),
        (
            PUT,
            true,
            Event::IdleTimeout { upstream_blocked: true },
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
            (Event::ResponseFlushed, Action::Wait),
            (SERVER_END, refused(502, "the server ended within its response")),
        ],
    );
    // Where the client may have a part of it only, a refusal would stand in its midst.
    play(
        GET,
        true,
        &[
            (server(CONTINUE), head(CONTINUE)),
            (SERVER_END, broken(0, Fault::ServerReset)),
        ],
    );
}

#[test]
fn silence_within_a_response_breaks_it() {
    play(
        GET,
        false,
        &[(server(OK), head(OK)), (SILENCE, broken(200, Fault::IdleTimeout))],
    );
}

#[test]
fn malformed_content_is_refused_until_the_response_has_begun() {
    let bad = b"xyz\r\n";
    play(POST, false, &[(client(bad), refused(400, "malformed chunk size"))]);
    play(
        POST,
        false,
        &[(server(OK), head(OK)), (client(bad), broken(200, Fault::BadRequest))],
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
    let ((mut exchange, _), mut out) = (begin(GET, false, &limits), Vec::new());
    assert_eq!(exchange.handle(server(CHUNKED), &mut out), head(CHUNKED));
    let uncommitted = exchange.handle(server(bad), &mut out);
    assert_eq!(uncommitted, refused(502, "malformed content"));
}

/// However many a server sends, and in however many interim responses.
#[test]
fn malformed_fields_are_counted_and_only_the_beginning_of_the_first_is_kept() {
    let limits = limits();
    let (mut exchange, _) = begin(GET, false, &limits);
    let long = "a".repeat(60_000);
    let interim = format!("HTTP/1.1 103 Early Hints\r\n{long}\r\n\r\n");
    let last = format!("HTTP/1.1 200 OK\r\n{}\r\n", ":\r\n".repeat(20_000));
    let mut out = Vec::new();
    for head in [&interim, &interim, &last] {
        let done = exchange.handle(server(head.as_bytes()), &mut out);
        assert_eq!(done, Action::Head(head.len()));
    }
    let malformed = exchange.malformed_fields();
    assert_eq!(malformed.count, 20_002);
    assert_eq!(*malformed.first, long.as_bytes()[..MalformedFields::SHOWN]);
}

/// The server's connection is not used again: what comes there next might be taken for another answer.
#[test]
fn bytes_behind_a_response_are_dropped() {
    let ignored = Action::Pass { used: 5, data: 0..0 };
    play(
        GET,
        false,
        &[
            (server(OK), head(OK)),
            (server(b"abHTTP/"), pass(2)),
            (server(b"HTTP/"), ignored),
            (
                Event::ResponseFlushed,
                completed(200, ClientAfter::Keep, ServerAfter::Close),
            ),
        ],
    );
}

#[test]
fn a_drain_ends_the_connection_behind_the_response() {
    let limits = limits();
    let ((mut exchange, _), mut out) = (begin(GET, false, &limits), Vec::new());
    exchange.handle(Event::RequestFlushed, &mut out);
    exchange.drain();
    assert_eq!(exchange.handle(server(EMPTY), &mut out), head(EMPTY));
    assert!(String::from_utf8_lossy(&out).contains("Connection: close\r\n"));
    assert_eq!(
        exchange.handle(Event::ResponseFlushed, &mut out),
        completed(204, ClientAfter::Linger, ServerAfter::Keep)
    );
}
