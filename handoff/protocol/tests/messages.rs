//! Messages are written and parsed, whole and byte by byte, with trailing bytes.

use handoff_protocol::{
    MAX_CLIENT_BYTES, MAX_MESSAGE_LENGTH, Message, ParseError, Parsed, Payload, Rejection, Rule, parse,
};
use proptest::prelude::*;
use tributary_offload::{Checkpoint, InvalidCheckpoint};

/// The state of its own tests: version 1, all options, scales 7 and 8, the rest counts up.
fn checkpoint() -> Checkpoint {
    let mut bytes: [u8; Checkpoint::LENGTH] = std::array::from_fn(|at| u8::try_from(at).expect("small"));
    bytes[..4].copy_from_slice(&[1, 7, 7, 8]);
    Checkpoint::from_bytes(&bytes).expect("a state")
}

fn rule() -> Rule {
    Rule {
        client: "10.0.0.1:40000".parse().expect("an address"),
        service: "10.0.1.1:80".parse().expect("an address"),
        back_end: "10.0.2.1:7400".parse().expect("an address"),
        number: 258,
    }
}

/// Each kind, and the bytes after its number.
fn cases() -> Vec<(u8, Payload, Vec<u8>)> {
    let state = checkpoint().to_bytes().to_vec();
    let ends = b"\x0a\0\0\x01\x9c\x40\x0a\0\x01\x01\0\x50\x0a\0\x02\x01\x1c\xe8\0\0\0\0\0\0\x01\x02";
    let boxed = || Box::new(checkpoint());
    let hand = |bytes: &[u8]| Payload::HandOver {
        checkpoint: boxed(),
        bytes: bytes.to_vec(),
    };
    let returned = Payload::Returned {
        sent: 5,
        checkpoint: boxed(),
        bytes: b"GET".to_vec(),
    };
    let undetachable = Payload::Undetachable {
        sent: 5,
        bytes: b"GET".to_vec(),
    };
    let [two_five_eight, five] = [b"\0\0\0\0\0\0\x01\x02", b"\0\0\0\0\0\0\0\x05"];
    let rejected = |code, rejection| (5, Payload::Rejected(rejection), vec![code]);
    vec![
        (1, Payload::Hello { acknowledged: 258 }, two_five_eight.to_vec()),
        (2, Payload::Heartbeat { acknowledged: 5 }, five.to_vec()),
        (3, hand(b"GET / "), [&state[..], b"GET / "].concat()),
        (3, hand(b""), state.clone()),
        (4, Payload::Accepted, vec![]),
        rejected(1, Rejection::Full),
        rejected(2, Rejection::NotConfigured),
        rejected(3, Rejection::System),
        rejected(4, Rejection::Draining),
        rejected(5, Rejection::Late),
        rejected(99, Rejection::Unknown(99)),
        (6, returned, [&five[..], &state, b"GET"].concat()),
        (7, Payload::Keep, vec![]),
        (8, Payload::Release, vec![]),
        (9, Payload::Abort, vec![]),
        (10, Payload::Closed { sent: 258 }, two_five_eight.to_vec()),
        (11, Payload::Install(rule()), ends.to_vec()),
        (12, Payload::Remove(rule()), ends.to_vec()),
        (13, Payload::Done, vec![]),
        (14, undetachable, [&five[..], b"GET"].concat()),
        (15, Payload::Close, vec![]),
        (16, Payload::Draining, vec![]),
        (17, Payload::Serve, vec![]),
    ]
}

fn bytes(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(18 + body.len()).expect("small");
    let head = [5, kind, 0, 0, 0, 0, 0, 0, 3, 9, 0, 0, 0, 0, 0, 0, 1, 4];
    [&length.to_be_bytes()[..], &head, body].concat()
}

#[test]
fn every_message_is_its_bytes_and_its_bytes_are_it() {
    for (kind, payload, body) in cases() {
        let message = Message { id: 777, payload };
        let mut written = b"before".to_vec();
        message.write(260, &mut written);
        let expected = bytes(kind, &body);
        assert_eq!(written, [b"before", &expected[..]].concat());
        for behind in [&b""[..], b"\0", &expected] {
            let all = [&expected, behind].concat();
            let parsed = Parsed {
                number: 260,
                message: message.clone(),
                length: expected.len(),
            };
            assert_eq!(parse(&all), Ok(Some(parsed)));
        }
    }
}

#[test]
fn a_part_of_a_message_wants_more() {
    for (kind, _, body) in cases() {
        let whole = bytes(kind, &body);
        for length in 0..whole.len() {
            assert_eq!(parse(&whole[..length]), Ok(None), "{kind}: {length}");
        }
    }
}

#[test]
fn a_body_that_is_too_short_or_too_long_is_refused() {
    for (kind, payload, body) in cases() {
        let ends_with_bytes = matches!(
            payload,
            Payload::HandOver { .. } | Payload::Returned { .. } | Payload::Undetachable { .. }
        );
        if !ends_with_bytes {
            let longer = bytes(kind, &[&body[..], &[0]].concat());
            assert_eq!(parse(&longer), Err(ParseError::Length(longer.len())), "{kind}");
        }
        if let [most @ .., _] = &body[..] {
            let shorter = bytes(kind, most);
            let parsed = parse(&shorter);
            let still_one = ends_with_bytes && parsed.as_ref().is_ok_and(Option::is_some);
            assert!(still_one || parsed == Err(ParseError::Length(shorter.len())), "{kind}");
        }
    }
}

#[test]
fn what_is_not_known_is_refused_by_name() {
    assert_eq!(parse(&bytes(18, &[])), Err(ParseError::Kind(18)));
    let mut other = bytes(1, &[0; 8]);
    other[4] = 2;
    assert_eq!(parse(&other), Err(ParseError::Version(2)));
    assert_eq!(parse(&other[..5]), Err(ParseError::Version(2)));
    let mut state = checkpoint().to_bytes();
    state[0] = 3;
    let refused = Err(ParseError::Checkpoint(InvalidCheckpoint::Version(3)));
    assert_eq!(parse(&bytes(3, &state)), refused);
}

#[test]
fn lengths_are_bounded_before_anything_is_waited_for() {
    let longest = u32::try_from(MAX_MESSAGE_LENGTH - 4).expect("small");
    assert_eq!(parse(&longest.to_be_bytes()), Ok(None));
    assert_eq!(
        parse(&(longest + 1).to_be_bytes()),
        Err(ParseError::Length(MAX_MESSAGE_LENGTH + 1))
    );
    assert_eq!(parse(&[0; 4]), Err(ParseError::Length(4)));
    let hand = |length| bytes(3, &[&checkpoint().to_bytes()[..], &vec![0; length]].concat());
    assert!(parse(&hand(MAX_CLIENT_BYTES)).is_ok_and(|message| message.is_some()));
    assert!(parse(&hand(MAX_CLIENT_BYTES + 1)).is_err());
}

proptest! {
    #[test]
    fn any_bytes_want_more_are_refused_or_are_what_they_become(kind in 0..20_u8, body in prop::collection::vec(any::<u8>(), 0..120)) {
        let given = bytes(kind, &body);
        if let Ok(Some(parsed)) = parse(&given) {
            let mut again = vec![];
            parsed.message.write(parsed.number, &mut again);
            prop_assert_eq!(parse(&again), Ok(Some(parsed)));
        }
    }

    #[test]
    fn no_bytes_make_it_panic(given in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&given);
    }
}
