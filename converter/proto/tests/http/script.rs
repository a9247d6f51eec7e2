//! Scripts of exchanges: the messages in them, what happens, and what is done about it.

use tributary_proto::http::exchange::{
    Action, ClientAfter, Completed, Event, Exchange, ExchangeResult, Fault, Input, ServerAfter,
};
use tributary_proto::http::{HeadLimits, Refused, parse_request};

use super::{clock, limits};

pub const GET: &str = "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n";
pub const LAST_GET: &str = "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";
pub const PUT: &str = "PUT http://a.example/ HTTP/1.1\r\nHost: a.example\r\nContent-Length: 10\r\n\r\n";
pub const LAST_PUT: &str =
    "PUT http://a.example/ HTTP/1.1\r\nHost: a.example\r\nContent-Length: 10\r\nConnection: close\r\n\r\n";
pub const OLD_PUT: &str = "PUT http://a.example/ HTTP/1.0\r\nContent-Length: 10\r\n\r\n";
pub const POST: &str = "POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n";
pub const HEAD: &str = "HEAD http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n";
pub const UPGRADE: &str =
    "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
pub const DELETE: &str = "DELETE http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n";
pub const EMPTY_POST: &str = "POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\nContent-Length: 0\r\n\r\n";

pub const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n";
pub const EMPTY: &[u8] = b"HTTP/1.1 204 No Content\r\n\r\n";
pub const TO_THE_END: &[u8] = b"HTTP/1.1 200 OK\r\n\r\n";
pub const CHUNKED: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
pub const TOO_LARGE: &[u8] = b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n";
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
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

/// What happens, and what is done about it.
pub type Step<'a> = (Event<'a>, Action);

/// The server has taken what was passed on to it so far.
pub const FLUSHED: Step<'_> = (Event::RequestFlushed, Action::Wait);
/// The client has.
pub const SENT: Step<'_> = (Event::ResponseFlushed, Action::Wait);

/// Nothing is done about it.
pub fn waits(event: Event<'_>) -> Step<'_> {
    (event, Action::Wait)
}

/// The client has taken everything, and this is the end.
pub fn sent(end: Action) -> Step<'static> {
    (Event::ResponseFlushed, end)
}

/// The client sends some of its content, of which so many bytes are passed on.
pub fn up(bytes: &[u8], used: usize) -> Step<'_> {
    (client(bytes), pass(used))
}

/// The server sends some of its content, of which so many bytes are passed on.
pub fn down(bytes: &[u8], used: usize) -> Step<'_> {
    (server(bytes), pass(used))
}

/// The server sends a head.
pub fn answer(head: &[u8]) -> Step<'_> {
    (server(head), Action::Head(head.len()))
}

fn pass(used: usize) -> Action {
    Action::Pass { used, data: 0..used }
}

pub fn completed(status: u16, client: ClientAfter, server: ServerAfter) -> Action {
    Action::End(ExchangeResult::Completed(Completed { status, client, server }))
}

pub fn kept(status: u16) -> Action {
    completed(status, ClientAfter::Keep, ServerAfter::Keep)
}

/// Behind content, which a server that does not read it would take for the next request.
pub fn kept_for_client(status: u16) -> Action {
    completed(status, ClientAfter::Keep, ServerAfter::KeepForClient)
}

pub fn refused(status: u16, reason: &'static str) -> Action {
    Action::End(ExchangeResult::Refused(Refused::new(status, reason)))
}

/// `status`: of a response that had begun; 0 if none had.
pub fn broken(status: u16, fault: Fault) -> Action {
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
pub fn play(request: &str, is_kept: bool, script: &[Step<'_>]) {
    let steps = script.iter().cloned();
    let at_once: Vec<_> = steps.flat_map(|step| [FLUSHED, step]).collect();
    play_slowly(request, is_kept, &at_once);
}

/// Plays a script whose server takes its request when the script says so. What goes to the client.
pub fn play_slowly(request: &str, is_kept: bool, script: &[Step<'_>]) -> String {
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
