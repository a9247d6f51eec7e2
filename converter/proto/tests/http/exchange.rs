//! Exchanges as scripts: what happens, and what is done about it.

use tributary_proto::http::exchange::{Action, ClientAfter, Event, ExchangeResult, Fault, ServerAfter};
use tributary_proto::http::{HeadLimits, MalformedFields};

use super::limits;
use super::script::{
    BROKE, CHUNKED, CLIENT_END, CLIENT_RESET, CONTINUE, DEAF, DELETE, EMPTY, EMPTY_POST, FLUSHED, GET, HEAD, LAST_GET,
    LAST_PUT, OK, OLD_PUT, POST, PUT, SENT, SERVER_END, SERVER_RESET, SILENCE, SWITCH, Step, TO_THE_END, TOO_LARGE,
    UPGRADE, answer, begin, broken, client, completed, down, kept, kept_for_client, play, play_slowly, refused, sent,
    server, up, waits,
};

#[test]
fn whole_exchanges() {
    for (request, script) in [
        (GET, vec![answer(OK), SENT, down(b"ab", 2), sent(kept(200))]),
        (HEAD, vec![answer(OK), sent(kept(200))]),
        (GET, vec![answer(CONTINUE), SENT, answer(EMPTY), sent(kept(204))]),
        (
            PUT,
            vec![
                up(b"01234", 5),
                up(b"56789GET", 5),
                answer(EMPTY),
                sent(kept_for_client(204)),
            ],
        ),
        (
            POST,
            vec![
                up(b"2\r\nab\r\n", 7),
                up(b"0\r\n\r\nGET", 5),
                answer(EMPTY),
                sent(kept_for_client(204)),
            ],
        ),
        (
            LAST_GET,
            vec![
                answer(EMPTY),
                sent(completed(204, ClientAfter::Close, ServerAfter::Close)),
            ],
        ),
        (
            GET,
            vec![
                answer(TO_THE_END),
                down(b"abc", 3),
                waits(SERVER_END),
                sent(completed(200, ClientAfter::Linger, ServerAfter::Close)),
            ],
        ),
        (UPGRADE, vec![answer(SWITCH), waits(server(b"frames")), sent(UPGRADED)]),
    ] {
        play(request, false, &script);
    }
}

/// It may not get another one, though it does not say that it ends its connection (RFC 9112 section 9.6).
#[test]
fn a_server_that_was_told_of_the_last_request_is_not_asked_again() {
    let limits = HeadLimits {
        outlives_client: true,
        ..limits()
    };
    let last_post = EMPTY_POST.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    for (request, is_told, after) in [
        (LAST_GET, false, ServerAfter::Keep),
        (last_post.as_str(), true, ServerAfter::Close),
    ] {
        let ((mut exchange, head), mut out) = (begin(request, false, &limits), Vec::new());
        assert_eq!(String::from_utf8_lossy(&head).contains("Connection: close"), is_told);
        for (event, action) in [FLUSHED, answer(EMPTY), sent(completed(204, ClientAfter::Close, after))] {
            assert_eq!(exchange.handle(event, &mut out), action, "{request}");
        }
    }
}

const UPGRADED: Action = Action::End(ExchangeResult::Upgraded { status: 101 });

/// A client that ended its direction behind a whole request wants its response all the same.
#[test]
fn a_client_may_end_its_direction_behind_its_request() {
    for request in [GET, LAST_GET] {
        play(request, false, &[waits(CLIENT_END), answer(OK)]);
    }
    play(PUT, false, &[up(b"0123456789", 10), waits(CLIENT_END), answer(EMPTY)]);
}

/// What a kept connection goes by hangs: the request goes elsewhere, if it may be sent twice and nothing has come of an answer.
#[test]
fn a_request_leaves_a_connection_by_which_nothing_will_come() {
    let stays = waits(Event::ServerUnavailable);
    let leaves = (Event::ServerUnavailable, Action::End(ExchangeResult::Retry));
    for (request, is_kept, script) in [
        (GET, true, vec![leaves]),
        (GET, false, vec![stays.clone()]),
        (PUT, true, vec![stays.clone()]),
        (GET, true, vec![waits(server(b"HTTP/1.1 2")), stays.clone()]),
        (GET, true, vec![answer(CONTINUE), stays]),
    ] {
        play(request, is_kept, &script);
    }
}

/// Whenever it resets: while it sends, while the server thinks, while the response is on its way.
#[test]
fn a_client_that_breaks_off_ends_the_exchange_at_once() {
    let reset = |status| (CLIENT_RESET, broken(status, Fault::ClientReset));
    let ended = (CLIENT_END, broken(0, Fault::ClientReset));
    for (request, script) in [
        (GET, vec![reset(0)]),
        (GET, vec![waits(CLIENT_END), reset(0)]),
        (PUT, vec![reset(0)]),
        (PUT, vec![ended.clone()]),
        (PUT, vec![up(b"01234", 5), ended]),
        (PUT, vec![up(b"0123456789", 10), reset(0)]),
        (POST, vec![up(b"0\r\n\r\n", 5), reset(0)]),
        (GET, vec![answer(CONTINUE), reset(0)]),
        (GET, vec![answer(OK), reset(200)]),
        (GET, vec![answer(OK), down(b"ab", 2), reset(200)]),
    ] {
        play(request, false, &script);
    }
}

/// What is left of the request is on its way: the client's connection lingers, so that no reset destroys the answer.
#[test]
fn an_early_answer_survives_what_the_client_still_sends() {
    let lingers = || sent(completed(413, ClientAfter::Linger, ServerAfter::Reset));
    for request in [PUT, LAST_PUT, OLD_PUT, POST] {
        let some: &[u8] = if request == POST { b"a\r\n01" } else { b"01" };
        play(request, false, &[up(some, some.len()), answer(TOO_LARGE), lingers()]);
    }
    for request in [PUT, LAST_PUT] {
        play(request, false, &[waits(DEAF), answer(TOO_LARGE), lingers()]);
    }
}

/// A server may answer before it has read its request. Its connection serves another one only if all of this one was written
/// to it (RFC 9112 section 9.3): what is missing there would be made up of the next request's bytes.
#[test]
fn a_server_that_did_not_get_the_whole_request_is_not_asked_again() {
    let answered = || answer(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n");
    let whole = || up(b"0123456789", 10);
    let ends = |client, server| sent(completed(401, client, server));
    let keeps_both = ends(ClientAfter::Keep, ServerAfter::KeepForClient);
    let resets = ends(ClientAfter::Keep, ServerAfter::Reset);
    let lingers = ends(ClientAfter::Linger, ServerAfter::Reset);
    for (script, closes) in [
        (vec![whole(), FLUSHED, answered(), keeps_both.clone()], false),
        // The client has sent everything, and may go on.
        (vec![whole(), answered(), resets.clone()], false),
        (vec![whole(), answered(), FLUSHED, keeps_both], false),
        (vec![whole(), answered(), waits(DEAF), FLUSHED, resets], false),
        // It is told that it may not, and what it sends after all goes by.
        (vec![FLUSHED, answered(), lingers.clone()], true),
        (vec![up(b"0123", 4), FLUSHED, answered(), lingers.clone()], true),
        (
            vec![
                answered(),
                whole(),
                FLUSHED,
                ends(ClientAfter::Linger, ServerAfter::KeepForClient),
            ],
            true,
        ),
        (vec![waits(DEAF), answered(), lingers], true),
    ] {
        let sent = play_slowly(PUT, false, &script);
        assert_eq!(sent.contains("Connection: close\r\n"), closes, "{script:?}");
    }
    // Of a request without content the head may be what has not been taken.
    play_slowly(GET, true, &[answer(EMPTY), SENT, FLUSHED, sent(kept(204))]);
}

/// A server that says early that all is well goes on reading, and gets the rest of its request (RFC 9110 section 15.3): a part
/// of an upload is never reported as done.
#[test]
fn an_early_success_is_one_only_when_the_server_has_the_whole_request() {
    let early = [FLUSHED, answer(EMPTY), SENT];
    let rest = [up(b"01234", 5), FLUSHED, SENT, up(b"56789GET", 5)];
    let with = |last: &[Step<'static>]| [&early[..], &rest[..], last].concat();
    let done = [FLUSHED, sent(kept_for_client(204))];
    let sent = play_slowly(PUT, false, &with(&done));
    assert!(!sent.contains("Connection: close"), "{sent}");
    for last in [SERVER_RESET, DEAF, BROKE] {
        let cut = [(last, broken(204, Fault::ServerReset))];
        play_slowly(PUT, false, &[&early[..], &cut[..]].concat());
        play_slowly(PUT, false, &with(&cut));
    }
    // It ends its own direction, and may go on reading.
    play_slowly(PUT, false, &with(&[&[waits(SERVER_END)], &done[..]].concat()));
    for (last, fault) in [
        (CLIENT_END, Fault::ClientReset),
        (CLIENT_RESET, Fault::ClientReset),
        (SILENCE, Fault::IdleTimeout),
    ] {
        play_slowly(PUT, false, &[&early[..], &[(last, broken(204, fault))]].concat());
    }
    let refused = refused(502, "the server did not take the whole request");
    play_slowly(PUT, false, &[waits(DEAF), (server(EMPTY), refused)]);
}

/// What is left of the request is the server's to read before anything of the other protocol (RFC 9110 section 7.8).
#[test]
fn a_protocol_changes_when_the_server_has_the_whole_request() {
    let switched = || sent(UPGRADED);
    play_slowly(UPGRADE, false, &[answer(SWITCH), SENT, FLUSHED, switched()]);
    let cut = (DEAF, broken(101, Fault::ServerReset));
    play_slowly(UPGRADE, false, &[answer(SWITCH), SENT, cut]);
    let with_content = UPGRADE.replace("\r\n\r\n", "\r\nContent-Length: 2\r\n\r\n");
    let script = [answer(SWITCH), SENT, FLUSHED, up(b"{}", 2), FLUSHED, switched()];
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
        let script = [answer(response), down(some, some.len()), (last, reset.clone())];
        play(GET, false, &script);
    }
    let within = refused(502, "the server ended within its response");
    play(GET, true, &[waits(server(&OK[..9])), (SERVER_END, within)]);
    // The write has the reset's error, and the read behind it none.
    let whole = completed(413, ClientAfter::Linger, ServerAfter::Reset);
    for (deaf, last) in [
        (BROKE, vec![(SERVER_END, broken(413, Fault::ServerReset))]),
        (DEAF, vec![waits(SERVER_END), sent(whole)]),
    ] {
        let head = answer(b"HTTP/1.1 413 Content Too Large\r\n\r\n");
        play(PUT, false, &[&[waits(deaf), head, down(b"abc", 3)], &last[..]].concat());
    }
}

const TIMED_OUT: &[u8] = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n";

/// It speaks of the connection, and not of the request that crosses it (RFC 9110 section 15.5.9).
#[test]
fn a_server_that_has_waited_too_long_for_a_request_on_a_kept_connection() {
    let retry = || (server(TIMED_OUT), Action::End(ExchangeResult::Retry));
    play(GET, true, &[retry()]);
    play(GET, true, &[waits(server(&TIMED_OUT[..9])), retry()]);
    for (request, is_kept) in [(GET, false), (EMPTY_POST, true)] {
        play(request, is_kept, &[answer(TIMED_OUT)]);
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
        let end = sent(completed(401, ClientAfter::Keep, after));
        play(&request, false, &[answer(response.as_bytes()), end]);
    }
}

#[test]
fn a_server_that_does_not_answer() {
    let unanswered = refused(502, "the server ended without a response");
    let retry = Action::End(ExchangeResult::Retry);
    let slow = refused(504, "the server did not respond in time");
    for (request, is_kept, last, ending) in [
        (GET, false, SERVER_END, unanswered.clone()),
        (GET, false, SERVER_RESET, unanswered.clone()),
        (GET, true, SERVER_END, retry.clone()),
        (GET, true, SERVER_RESET, retry.clone()),
        (DELETE, true, SERVER_END, retry),
        (EMPTY_POST, true, SERVER_END, unanswered.clone()),
        (PUT, true, SERVER_END, unanswered.clone()),
        (POST, true, SERVER_RESET, unanswered),
        (GET, true, SILENCE, slow.clone()),
        (PUT, true, SILENCE, refused(408, "the content took too long")),
        (PUT, true, Event::IdleTimeout { upstream_blocked: true }, slow),
    ] {
        play(request, is_kept, &[(last, ending)]);
    }
    // 1xx is no answer, and once it has come the request was read.
    let within = refused(502, "the server ended within its response");
    play(GET, true, &[answer(CONTINUE), SENT, (SERVER_END, within)]);
    // Where the client may have a part of it only, a refusal would stand in its midst.
    let cut = (SERVER_END, broken(0, Fault::ServerReset));
    play(GET, true, &[answer(CONTINUE), cut]);
}

#[test]
fn silence_within_a_response_breaks_it() {
    let silence = (SILENCE, broken(200, Fault::IdleTimeout));
    play(GET, false, &[answer(OK), silence]);
}

#[test]
fn malformed_content_is_refused_until_the_response_has_begun() {
    let bad = b"xyz\r\n";
    play(POST, false, &[(client(bad), refused(400, "malformed chunk size"))]);
    let late = (client(bad), broken(200, Fault::BadRequest));
    play(POST, false, &[answer(OK), late]);
    let of_the_server = (server(bad), broken(200, Fault::MalformedBody));
    play(GET, false, &[answer(CHUNKED), of_the_server]);
    let limits = limits();
    let ((mut exchange, _), mut out) = (begin(GET, false, &limits), Vec::new());
    assert_eq!(exchange.handle(server(CHUNKED), &mut out), answer(CHUNKED).1);
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
    let script = [
        answer(OK),
        down(b"abHTTP/", 2),
        (server(b"HTTP/"), ignored),
        sent(completed(200, ClientAfter::Keep, ServerAfter::Close)),
    ];
    play(GET, false, &script);
}

#[test]
fn a_drain_ends_the_connection_behind_the_response() {
    let limits = limits();
    let ((mut exchange, _), mut out) = (begin(GET, false, &limits), Vec::new());
    exchange.handle(Event::RequestFlushed, &mut out);
    exchange.drain();
    assert_eq!(exchange.handle(server(EMPTY), &mut out), answer(EMPTY).1);
    assert!(String::from_utf8_lossy(&out).contains("Connection: close\r\n"));
    assert_eq!(
        exchange.handle(Event::ResponseFlushed, &mut out),
        completed(204, ClientAfter::Linger, ServerAfter::Keep)
    );
}
