//! Exchanges whose events come in any order, beside a server that takes its request as slowly as it likes.

use proptest::prelude::*;
use tributary_proto::http::exchange::{Action, ClientAfter, Event, Exchange, ExchangeResult, ServerAfter};

use super::limits;
use super::script::{
    CLIENT_END, CLIENT_RESET, GET, HEAD, LAST_GET, OLD_PUT, POST, PUT, SERVER_END, SERVER_RESET, SILENCE, SWITCH,
    UPGRADE, begin, client, server,
};

/// What happens next, without bytes of its own.
#[derive(Clone, Copy, Debug)]
enum Happens {
    ClientSends(usize),
    ClientEnds,
    ClientResets,
    ServerSends(usize),
    ServerEnds,
    ServerResets,
    ServerTakes(usize),
    ServerIsDeaf { broke: bool },
    ResponseFlushed,
    IdleTimeout,
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        4 => (1..40_usize).prop_map(Happens::ClientSends),
        1 => Just(Happens::ClientEnds),
        1 => Just(Happens::ClientResets),
        8 => (1..60_usize).prop_map(Happens::ServerSends),
        1 => Just(Happens::ServerEnds),
        1 => Just(Happens::ServerResets),
        4 => (1..200_usize).prop_map(Happens::ServerTakes),
        1 => any::<bool>().prop_map(|broke| Happens::ServerIsDeaf { broke }),
        6 => Just(Happens::ResponseFlushed),
        1 => Just(Happens::IdleTimeout),
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
    /// What is passed on to the server and waits for it, and what its connection has taken.
    unsent: Vec<u8>,
    taken: Vec<u8>,
    passed: Vec<u8>,
    most_held: usize,
    /// Of `passed`, what goes to the client, and what it has.
    sent: usize,
    delivered: usize,
}

impl Played<'_> {
    fn happen(&mut self, what: Happens) -> Option<ExchangeResult> {
        match what {
            Happens::ClientSends(count) => self.client_sends(count),
            Happens::ServerSends(count) => self.server_sends(count),
            Happens::ClientEnds => self.show(CLIENT_END),
            Happens::ClientResets => self.show(CLIENT_RESET),
            Happens::ServerEnds => self.show(SERVER_END),
            Happens::ServerResets => self.show(SERVER_RESET),
            Happens::ServerTakes(count) => self.server_takes(count),
            Happens::ServerIsDeaf { broke } => {
                self.unsent.clear();
                self.show(Event::UpstreamWriteFailed { broke })
            }
            Happens::ResponseFlushed => {
                self.delivered = self.sent;
                self.show(Event::ResponseFlushed)
            }
            Happens::IdleTimeout => self.show(SILENCE),
        }
    }

    fn show(&mut self, event: Event<'_>) -> Option<ExchangeResult> {
        match self.exchange.handle(event, &mut self.passed) {
            Action::End(ending) => Some(ending),
            _ => None,
        }
    }

    fn client_sends(&mut self, count: usize) -> Option<ExchangeResult> {
        if !self.exchange.reads_client() {
            return None;
        }
        let (now, later) = self.from_client.split_at(count.min(self.from_client.len()));
        self.from_client = later;
        self.client_inbox.extend_from_slice(now);
        if self.client_inbox.is_empty() {
            return None;
        }
        match self.exchange.handle(client(&self.client_inbox), &mut self.passed) {
            Action::End(ending) => return Some(ending),
            Action::Pass { used, .. } => self.unsent.extend(self.client_inbox.drain(..used)),
            Action::Wait | Action::Head(_) => {}
        }
        None
    }

    /// A connection that takes nothing more has taken everything that waits: there is nothing.
    fn server_takes(&mut self, count: usize) -> Option<ExchangeResult> {
        let now = count.min(self.unsent.len());
        self.taken.extend(self.unsent.drain(..now));
        if self.unsent.is_empty() {
            self.show(Event::RequestFlushed)
        } else {
            None
        }
    }

    fn server_sends(&mut self, count: usize) -> Option<ExchangeResult> {
        if !self.exchange.reads_server() {
            return None;
        }
        let (now, later) = self.from_server.split_at(count.min(self.from_server.len()));
        self.from_server = later;
        self.server_inbox.extend_from_slice(now);
        while !self.server_inbox.is_empty() {
            match self.exchange.handle(server(&self.server_inbox), &mut self.passed) {
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

const UPGRADE_WITH_BODY: &str = "POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\nContent-Length: 10\r\nConnection: upgrade\r\nUpgrade: tcp\r\n\r\n";

/// Requests, each with its body and what the client sends behind it.
const REQUESTS: [(&str, &[u8], &[u8]); 8] = [
    (GET, b"", b""),
    (LAST_GET, b"", b""),
    (HEAD, b"", b""),
    (PUT, b"0123456789", b"GET"),
    (OLD_PUT, b"0123456789", b""),
    (POST, b"3\r\nabc\r\n0\r\n\r\n", b"GET"),
    (UPGRADE, b"", b"frames"),
    (UPGRADE_WITH_BODY, b"0123456789", b"frames"),
];

const TO_THE_END: &[u8] = b"HTTP/1.1 200 OK\r\n\r\nabcde";

const REFUSED_TO_THE_END: &[u8] = b"HTTP/1.1 413 Too Large\r\n\r\nabcde";

const RESPONSES: [&[u8]; 9] = [
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: Transfer-Encoding\r\n\r\n5\r\nabcde\r\n0\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
    TO_THE_END,
    REFUSED_TO_THE_END,
    b"HTTP/1.0 413 Too Large\r\nContent-Length: 0\r\n\r\nsurplus",
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
    b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n",
    SWITCH,
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Any order of events: memory is bounded, silence ends what nothing else did, a response that is called whole is, and
    /// of a request no byte is dropped on a connection that is used again, nor behind a success.
    #[test]
    fn every_exchange_ends_and_tells_the_truth(
        request in proptest::sample::select(&REQUESTS[..]),
        response in proptest::sample::select(&RESPONSES[..]),
        is_kept in any::<bool>(),
        events in proptest::collection::vec(happens(), 0..40),
    ) {
        let limits = limits();
        let (request_head, body, behind) = request;
        let from_client = [body, behind].concat();
        let (exchange, unsent) = begin(request_head, is_kept, &limits);
        let whole_request = [&unsent, body].concat();
        let mut played = Played {
            exchange,
            from_client: &from_client,
            from_server: response,
            client_inbox: Vec::new(),
            server_inbox: Vec::new(),
            unsent,
            taken: Vec::new(),
            passed: Vec::new(),
            most_held: 0,
            sent: 0,
            delivered: 0,
        };
        let (mut server_ended, mut server_broke) = (false, false);
        let mut ending = None;
        for event in events.iter().chain([&Happens::ResponseFlushed, &Happens::IdleTimeout]) {
            server_broke |= matches!(event, Happens::ServerIsDeaf { broke: true });
            server_ended |= matches!(event, Happens::ServerEnds) && !server_broke;
            ending = played.happen(*event);
            if ending.is_some() {
                break;
            }
        }
        prop_assert!(played.most_held <= response.len());
        let server_has_it = played.taken == whole_request;
        match ending {
            None => prop_assert!(false, "silence ends everything"),
            Some(ExchangeResult::Completed(whole)) => {
                let is_head = request_head.starts_with("HEAD");
                let until_the_end = [TO_THE_END, REFUSED_TO_THE_END].contains(&response) && !is_head;
                let has_body = played.passed.ends_with(b"abcde")
                    || played.passed.ends_with(b"0\r\n\r\n");
                let needs_none = is_head || whole.status != 200;
                prop_assert!(!until_the_end || server_ended);
                prop_assert!(until_the_end || has_body || needs_none);
                prop_assert!(!until_the_end || whole.client != ClientAfter::Keep);
                prop_assert!(server_has_it || whole.server == ServerAfter::Reset);
                prop_assert!(server_has_it || !(200..300).contains(&whole.status));
                // A client whose connection ends is told so, and one that still owes a part of its request keeps none.
                let says_close = String::from_utf8_lossy(&played.passed).contains("\r\nConnection: close\r\n");
                prop_assert_eq!(whole.client == ClientAfter::Keep, !says_close);
                prop_assert!(played.from_client.len() <= behind.len() || whole.client == ClientAfter::Linger);
            }
            Some(ExchangeResult::Refused(refused)) => {
                prop_assert!((400..600).contains(&refused.status));
                prop_assert_eq!(played.sent, played.delivered, "it would stand in the midst of something");
                let sent = String::from_utf8_lossy(&played.passed[..played.sent]);
                prop_assert!(!["1 101", "1 200", "1 204", "1 401", "1 413"].iter().any(|status| sent.contains(status)));
            }
            Some(ExchangeResult::Retry) => prop_assert!(is_kept && body.is_empty() && played.passed.is_empty()),
            Some(ExchangeResult::Aborted { .. }) => {}
            Some(ExchangeResult::Upgraded { .. }) => prop_assert!(server_has_it && request_head.contains("Upgrade")),
        }
    }
}
