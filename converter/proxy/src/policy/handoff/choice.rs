//! Which back end answers a request, and whether its client's connection can go there. Pure.

use std::cmp::Reverse;
use std::hash::Hasher as _;
use std::net::IpAddr;

use siphasher::sip::SipHasher13;
use tributary_proto::http::{Body, Method, Request};

use super::Expected;
use crate::config::{Choose, Handoff, HandoffRule};

/// What becomes of a request. Back ends go by their numbers in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The client's connection goes to this back end.
    HandOver(usize),
    /// The request does.
    Relay(usize),
    Nobody,
}

/// Who gets `request`, of whose content so many bytes have come, and which is expected to be so large. `load`: how many
/// connections are at a back end; `None` if none can be handed to it.
pub fn choose(
    request: &Request,
    came: usize,
    expected: Expected,
    handoff: &Handoff,
    load: impl Fn(usize) -> Option<usize>,
) -> Choice {
    let Some(path) = path(request) else {
        return Choice::Nobody;
    };
    let is_it = |rule: &&HandoffRule| is_for(rule, request, path) && has_size(rule, expected);
    let Some(rule) = handoff.rules.iter().find(is_it) else {
        return Choice::Nobody;
    };
    match best(rule, handoff, path, load) {
        Some(to) if !rule.relay && fits(request, came) => Choice::HandOver(to),
        Some(to) => Choice::Relay(to),
        None => first(rule, handoff, path).map_or(Choice::Nobody, Choice::Relay),
    }
}

/// Who gets all requests of a connection on which they are not seen: of the first rule that is for every request, the back
/// end that is the client's. `None` without such a rule: any other one is for some requests only.
pub fn choose_unseen(client: IpAddr, handoff: &Handoff, load: impl Fn(usize) -> Option<usize>) -> Option<usize> {
    let rule = handoff.rules.iter().find(|rule| is_for_every(rule))?;
    let client = client.to_string();
    best(rule, handoff, &client, load).or_else(|| first(rule, handoff, &client))
}

/// The back end of a rule that is asked for `path`, or for what stands in its place, if one is there: the path's own of those,
/// or of those that have least to do.
fn best(rule: &HandoffRule, handoff: &Handoff, path: &str, load: impl Fn(usize) -> Option<usize>) -> Option<usize> {
    let numbers = rule.numbers.iter().copied();
    let up = numbers.filter_map(|each| Some((each, load(each)?)));
    let weight = |each: usize| weight(&handoff.back_ends[each].name, path);
    match rule.choose {
        Choose::Hash => up.max_by_key(|(each, _)| weight(*each)),
        Choose::LeastLoaded => up.min_by_key(|(each, load)| (*load, Reverse(weight(*each)))),
    }
    .map(|(each, _)| each)
}

/// The path's own, whether it is there or not.
fn first(rule: &HandoffRule, handoff: &Handoff, path: &str) -> Option<usize> {
    let numbers = rule.numbers.iter().copied();
    numbers.max_by_key(|each| weight(&handoff.back_ends[*each].name, path))
}

fn is_for_every(rule: &HandoffRule) -> bool {
    rule.host.is_none()
        && rule.path == "/"
        && rule.methods.is_empty()
        && rule.min_size.is_none()
        && rule.max_size.is_none()
}

/// The first rule for `request`, whatever the size: what it is for is seen as of one kind. With the request's path.
pub fn kind<'r>(request: &'r Request, handoff: &Handoff) -> Option<(usize, &'r str)> {
    let path = path(request)?;
    let mut rules = handoff.rules.iter();
    let first = rules.position(|rule| is_for(rule, request, path))?;
    Some((first, without_query(path)))
}

/// Of a size that is not known, nobody can say that it is within bounds.
fn has_size(rule: &HandoffRule, expected: Expected) -> bool {
    let is_within =
        |size| rule.min_size.is_none_or(|least| size >= least) && rule.max_size.is_none_or(|most| size <= most);
    (rule.min_size.is_none() && rule.max_size.is_none()) || expected.known.is_some_and(is_within)
}

/// With its query.
fn path(request: &Request) -> Option<&str> {
    Some(request.path()).filter(|path| !path.is_empty())
}

fn is_for(rule: &HandoffRule, request: &Request, path: &str) -> bool {
    let method = request.method.as_str();
    path.starts_with(&rule.path)
        && (rule.methods.is_empty() || rule.methods.iter().any(|each| each == method))
        && rule.host.as_deref().is_none_or(|host| is_to(request, host))
}

/// By the target's authority, or where it has none by the request's Host, without its port (RFC 9112 section 3.2.2).
fn is_to(request: &Request, host: &str) -> bool {
    let authority = request.target.authority();
    authority.is_some_and(|to| to.host.to_string().eq_ignore_ascii_case(host))
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
    let path = without_query(path);
    let mut hasher = SipHasher13::new();
    hasher.write(name.as_bytes());
    hasher.write_u8(0);
    hasher.write(path.as_bytes());
    hasher.finish()
}

fn without_query(path: &str) -> &str {
    path.split('?').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use tributary_proto::http::{HeadLimits, parse_request};

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
             [[handoff.rules]]\npath = \"/mixed/\"\nmax_size = \"50kB\"\nto = [\"a\"]\n\
             [[handoff.rules]]\npath = \"/mixed/\"\nmin_size = \"1MB\"\nto = [\"b\"]\n\
             [[handoff.rules]]\npath = \"/mixed/\"\nto = [\"c\"]\n\
             [[handoff.rules]]\npath = \"/busy/\"\nto = [\"a\", \"b\", \"c\"]\nchoose = \"least-loaded\"\n\
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

    fn chosen(request: &Request, handoff: &Handoff, load: impl Fn(usize) -> Option<usize>) -> Choice {
        choose(request, 0, Expected::default(), handoff, load)
    }

    /// A rule that names so many back ends.
    fn of_many(count: usize) -> Handoff {
        let mut handoff = handoff();
        let one = handoff.back_ends[0].clone();
        let named = |number| format!("back-end-{number}");
        let each = (0..count).map(|number| config::BackEnd {
            name: named(number),
            ..one.clone()
        });
        handoff.back_ends = each.collect();
        handoff.rules.drain(..handoff.rules.len() - 1);
        handoff.rules[0].to = (0..count).map(named).collect();
        handoff.number();
        handoff
    }

    #[test]
    fn to_choose_among_eight_times_as_many_back_ends_takes_as_many_times_as_long() {
        let asked = request("GET /objects/x HTTP/1.1|Host: a");
        let [few, many] = [500, 4000].map(|count| {
            let handoff = of_many(count);
            let time = |_| {
                let since = std::time::Instant::now();
                let chosen = chosen(&asked, &handoff, |_| Some(0));
                assert!(matches!(chosen, Choice::HandOver(_)));
                since.elapsed()
            };
            (0..9).map(time).min().expect("nine times")
        });
        // Of each with each there would be 64 times as many.
        assert!(many < 24 * few, "{few:?}, {many:?}");
    }

    #[test]
    fn the_first_rule_that_matches_counts() {
        let handoff = handoff();
        for (head, expected) in [
            ("GET /small/x HTTP/1.1|Host: b.example", Choice::Relay(0)),
            ("GET /x HTTP/1.1|Host: b.example:8080", Choice::HandOver(1)),
            ("GET http://b.example/x HTTP/1.1|Host: b.example", Choice::HandOver(1)),
            // A target in absolute form says alone whose it is, as the back end will read it.
            (
                "GET http://B.example:8080/x HTTP/1.1|Host: c.example",
                Choice::HandOver(1),
            ),
            ("GET http://c.example/x HTTP/1.1|Host: b.example", Choice::Nobody),
            ("HEAD /x HTTP/1.1|Host: b.example", Choice::Nobody),
            ("GET /x HTTP/1.1|Host: c.example", Choice::Nobody),
            ("GET /x HTTP/1.0", Choice::Nobody),
            ("OPTIONS * HTTP/1.1|Host: b.example", Choice::Nobody),
            ("CONNECT b.example:80 HTTP/1.1|Host: b.example:80", Choice::Nobody),
        ] {
            let chosen = choose(&request(head), 0, Expected::default(), &handoff, |_| Some(0));
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
            let chosen = choose(&request(&head), came, Expected::default(), &handoff, |_| Some(0));
            assert_eq!(matches!(chosen, Choice::HandOver(_)), handed, "{fields}");
        }
    }

    #[test]
    fn paths_are_spread_and_move_only_when_their_own_back_end_is_away() {
        let handoff = handoff();
        let mut shares = [0; 3];
        for number in 0..3000 {
            let one = request(&format!("GET /objects/{number}?q HTTP/1.1|Host: a"));
            let Choice::HandOver(at) = chosen(&one, &handoff, |_| Some(0)) else {
                panic!("{one:?}");
            };
            shares[at] += 1;
            let without = chosen(&one, &handoff, |each| (each != 2).then_some(0));
            assert_eq!(without == Choice::HandOver(at), at != 2);
            assert!(matches!(chosen(&one, &handoff, |_| None), Choice::Relay(first) if first == at));
        }
        assert!(shares.iter().all(|share| (900..1100).contains(share)), "{shares:?}");
    }

    #[test]
    fn requests_that_are_not_seen_go_by_a_rule_for_every_request_alone() {
        let mut handoff = handoff();
        let client = |last: u8| IpAddr::from([10, 0, 0, last]);
        assert_eq!(choose_unseen(client(1), &handoff, |_| Some(0)), None);
        let mut every = handoff.rules[6].clone();
        every.path = "/".to_owned();
        for narrow in [
            |rule: &mut HandoffRule| rule.host = Some("a".to_owned()),
            |rule: &mut HandoffRule| rule.methods = vec!["GET".to_owned()],
            |rule: &mut HandoffRule| rule.min_size = Some(1),
            |rule: &mut HandoffRule| rule.max_size = Some(1),
        ] {
            let mut rule = every.clone();
            narrow(&mut rule);
            handoff.rules = vec![rule];
            assert_eq!(choose_unseen(client(1), &handoff, |_| Some(0)), None);
        }
        handoff.rules.push(every);
        let mut shares = [0; 3];
        for last in 0..=255 {
            let to = choose_unseen(client(last), &handoff, |_| Some(0)).expect("one");
            shares[to] += 1;
            // It is asked even if nothing can be handed to any of them.
            assert_eq!(choose_unseen(client(last), &handoff, |_| None), Some(to));
            let others = choose_unseen(client(last), &handoff, |each| (each != to).then_some(0));
            assert_ne!(others, Some(to));
        }
        assert!(shares.iter().all(|share| *share > 50), "{shares:?}");
        handoff.rules[1].choose = Choose::LeastLoaded;
        for least in 0..3 {
            let load = |each| Some(usize::from(each != least));
            assert_eq!(choose_unseen(client(1), &handoff, load), Some(least));
        }
    }

    #[test]
    fn a_rule_for_sizes_is_for_those_that_are_known() {
        let handoff = handoff();
        let request = request("GET /mixed/x?q HTTP/1.1|Host: a");
        assert_eq!(kind(&request, &handoff), Some((2, "/mixed/x")));
        let guessed = Some(10);
        for (known, to) in [
            (Some(0), 0),
            (Some(50_000), 0),
            (Some(50_001), 2),
            (Some(999_999), 2),
            (Some(1_000_000), 1),
            (None, 2),
        ] {
            let expected = Expected { known, guessed };
            let chosen = choose(&request, 0, expected, &handoff, |_| Some(0));
            assert_eq!(chosen, Choice::HandOver(to), "{known:?}");
        }
    }

    #[test]
    fn the_least_loaded_one_is_that_with_the_fewest_connections_and_else_the_paths_own() {
        let handoff = handoff();
        let mut shares = [0; 3];
        for number in 0..300 {
            let one = request(&format!("GET /busy/{number} HTTP/1.1|Host: a"));
            for (loads, to) in [
                ([Some(2), Some(1), Some(2)], Choice::HandOver(1)),
                ([Some(2), None, Some(1)], Choice::HandOver(2)),
                ([Some(7), None, None], Choice::HandOver(0)),
            ] {
                assert_eq!(chosen(&one, &handoff, |each| loads[each]), to);
            }
            let Choice::HandOver(at) = chosen(&one, &handoff, |_| Some(4)) else {
                panic!("{one:?}");
            };
            shares[at] += 1;
        }
        assert!(shares.iter().all(|share| *share > 70), "{shares:?}");
    }
}
