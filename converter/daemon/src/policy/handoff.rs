//! Which back end answers a request, and how the request gets there. Pure.

use std::hash::Hasher as _;

use siphasher::sip::SipHasher13;
use tributary_wire::http::{Body, Method, Request, RequestTarget};

use crate::config::{Handoff, HandoffRule};

/// What becomes of a request. Back ends go by their numbers in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The client's connection goes to this back end.
    HandOver(usize),
    /// The request does.
    Relay(usize),
    /// No rule is for it.
    Nobody,
}

/// Who gets `request`, of whose content so many bytes have come. `is_up`: whether connections can be handed to a back end.
pub fn choose(
    request: &Request,
    came: usize,
    handoff: &Handoff,
    is_up: impl Fn(usize) -> bool,
) -> Choice {
    let Some(path) = path(request) else {
        return Choice::Nobody;
    };
    let Some(rule) = handoff
        .rules
        .iter()
        .find(|rule| is_for(rule, request, path))
    else {
        return Choice::Nobody;
    };
    let number = |name: &String| handoff.back_ends.iter().position(|each| each.name == *name);
    let mut ranked: Vec<_> = rule.to.iter().filter_map(number).collect();
    ranked.sort_by_key(|each| std::cmp::Reverse(weight(&handoff.back_ends[*each].name, path)));
    let first_up = ranked.iter().copied().find(|each| is_up(*each));
    match (first_up, ranked.first()) {
        (Some(to), _) if !rule.relay && fits(request, came) => Choice::HandOver(to),
        (Some(to), _) | (None, Some(&to)) => Choice::Relay(to),
        (None, None) => Choice::Nobody,
    }
}

/// With its query.
fn path(request: &Request) -> Option<&str> {
    match &request.target {
        RequestTarget::Origin { path } => Some(path),
        RequestTarget::Absolute { path_and_query, .. } => Some(path_and_query),
        RequestTarget::Connect(_) | RequestTarget::Asterisk => None,
    }
}

fn is_for(rule: &HandoffRule, request: &Request, path: &str) -> bool {
    let method = request.method.as_str();
    path.starts_with(&rule.path)
        && (rule.methods.is_empty() || rule.methods.iter().any(|each| each == method))
        && rule.host.as_deref().is_none_or(|host| is_to(request, host))
}

/// By the request's Host, without its port.
fn is_to(request: &Request, host: &str) -> bool {
    let Some(Ok(named)) = request.field("host").map(std::str::from_utf8) else {
        return false;
    };
    let port = named.rfind(':').filter(|at| !named[*at..].contains(']'));
    named[..port.unwrap_or(named.len())].eq_ignore_ascii_case(host)
}

/// Whether nothing of it is on its way: what comes while a connection is handed over is lost and sent again, later. Another
/// protocol is none that could be given back.
fn fits(request: &Request, came: usize) -> bool {
    let is_here = match request.body {
        Body::None => true,
        Body::Length(length) => came as u64 >= length,
        Body::Chunked | Body::UntilClose => false,
    };
    (is_here || request.expect_continue) && !request.upgrade && request.method != Method::Connect
}

/// The back end with the greatest one is the path's (rendezvous hashing, Thaler and Ravishankar 1998): one that comes or
/// goes moves its own paths alone. The same in every front.
fn weight(name: &str, path: &str) -> u64 {
    let path = path.split('?').next().unwrap_or(path);
    let mut hasher = SipHasher13::new();
    hasher.write(name.as_bytes());
    hasher.write_u8(0);
    hasher.write(path.as_bytes());
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use tributary_wire::http::{HeadLimits, parse_request};

    use super::*;
    use crate::config;

    fn handoff() -> Handoff {
        let back_end = |name: &str, last: u8| {
            format!(
                "[[handoff.back_ends]]\nname = \"{name}\"\nfronts = \"10.0.2.{last}:7401\"\n\
                 hand_off = \"10.0.2.{last}:7400\"\nhttp = \"10.0.2.{last}:80\"\n"
            )
        };
        let text = format!(
            "[targets]\nallow = [\"10.0.2.0/24\"]\n\
             [handoff]\nswitch = \"/run/switch\"\nidentity = \"front\"\n{}{}{}\
             [[handoff.rules]]\npath = \"/small/\"\nto = [\"a\"]\nrelay = true\n\
             [[handoff.rules]]\nhost = \"B.example\"\nmethods = [\"GET\"]\nto = [\"b\"]\n\
             [[handoff.rules]]\npath = \"/objects/\"\nto = [\"a\", \"b\", \"c\"]\n",
            back_end("a", 1),
            back_end("b", 2),
            back_end("c", 3)
        );
        let config = config::parse(&text, "c.toml").expect("a configuration");
        config.handoff.expect("it has one")
    }

    fn request(head: &str) -> Request {
        let head = format!("{head}\r\n\r\n").replace('|', "\r\n");
        let parsed = parse_request(head.as_bytes(), &HeadLimits::default());
        parsed.expect("accepted").expect("whole").0
    }

    #[test]
    fn the_first_rule_that_matches_counts() {
        let handoff = handoff();
        for (head, expected) in [
            ("GET /small/x HTTP/1.1|Host: b.example", Choice::Relay(0)),
            ("GET /x HTTP/1.1|Host: b.example:8080", Choice::HandOver(1)),
            (
                "GET http://b.example/x HTTP/1.1|Host: b.example",
                Choice::HandOver(1),
            ),
            ("HEAD /x HTTP/1.1|Host: b.example", Choice::Nobody),
            ("GET /x HTTP/1.1|Host: c.example", Choice::Nobody),
            ("GET /x HTTP/1.0", Choice::Nobody),
            ("OPTIONS * HTTP/1.1|Host: b.example", Choice::Nobody),
            (
                "CONNECT b.example:80 HTTP/1.1|Host: b.example:80",
                Choice::Nobody,
            ),
        ] {
            let chosen = choose(&request(head), 0, &handoff, |_| true);
            assert_eq!(chosen, expected, "{head}");
        }
    }

    #[test]
    fn a_request_whose_content_is_on_its_way_is_relayed() {
        let handoff = handoff();
        for (fields, came, handed) in [
            ("Content-Length: 5", 4, false),
            ("Content-Length: 5", 5, true),
            ("Content-Length: 5|Expect: 100-continue", 0, true),
            ("Transfer-Encoding: chunked", 9, false),
            ("Upgrade: websocket|Connection: upgrade", 0, false),
        ] {
            let head = format!("PUT /objects/x HTTP/1.1|Host: a|{fields}");
            let chosen = choose(&request(&head), came, &handoff, |_| true);
            assert_eq!(matches!(chosen, Choice::HandOver(_)), handed, "{fields}");
        }
    }

    #[test]
    fn paths_are_spread_and_move_only_when_their_own_back_end_is_away() {
        let handoff = handoff();
        let mut shares = [0; 3];
        for number in 0..3000 {
            let one = request(&format!("GET /objects/{number}?q HTTP/1.1|Host: a"));
            let Choice::HandOver(at) = choose(&one, 0, &handoff, |_| true) else {
                panic!("{one:?}");
            };
            shares[at] += 1;
            let without = choose(&one, 0, &handoff, |each| each != 2);
            assert_eq!(without == Choice::HandOver(at), at != 2);
            assert!(
                matches!(choose(&one, 0, &handoff, |_| false), Choice::Relay(first) if first == at)
            );
        }
        assert!(
            shares.iter().all(|share| (900..1100).contains(share)),
            "{shares:?}"
        );
    }
}
