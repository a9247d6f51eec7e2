//! Messages become bytes and themselves again, whole and byte by byte, with others behind them.

use handoff_protocol::{Bad, Denial, LONGEST, MOST_BYTES, Message, Parsed, Rule, What, parse};
use proptest::prelude::*;
use tributary_offload::{Checkpoint, InvalidCheckpoint};

/// A state as its own tests have it: version 1, all agreed on, scales 7 and 8, the rest counts up.
fn frozen() -> Checkpoint {
    let mut bytes: [u8; Checkpoint::LENGTH] =
        std::array::from_fn(|at| u8::try_from(at).expect("small"));
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

/// Each kind, and the bytes behind its number.
fn cases() -> Vec<(u8, What, Vec<u8>)> {
    let state = frozen().to_bytes().to_vec();
    let ends = vec![
        10, 0, 0, 1, 0x9c, 0x40, 10, 0, 1, 1, 0, 80, 10, 0, 2, 1, 0x1c, 0xe8, 0, 0, 0, 0, 0, 0, 1,
        2,
    ];
    let hand = |bytes: &[u8]| What::Hand {
        frozen: Box::new(frozen()),
        bytes: bytes.to_vec(),
    };
    let returned = What::Returned {
        sent: 5,
        frozen: Box::new(frozen()),
        bytes: b"GET".to_vec(),
    };
    vec![
        (1, What::Hello { taken: 258 }, vec![0, 0, 0, 0, 0, 0, 1, 2]),
        (2, What::Alive { taken: 3 }, vec![0, 0, 0, 0, 0, 0, 0, 3]),
        (3, hand(b"GET / "), [&state[..], b"GET / "].concat()),
        (3, hand(b""), state.clone()),
        (4, What::Taken, vec![]),
        (5, What::Denied(Denial::Full), vec![1]),
        (5, What::Denied(Denial::NotConfigured), vec![2]),
        (5, What::Denied(Denial::System), vec![3]),
        (5, What::Denied(Denial::Leaving), vec![4]),
        (5, What::Denied(Denial::Late), vec![5]),
        (5, What::Denied(Denial::Unknown(99)), vec![99]),
        (
            6,
            returned,
            [&[0, 0, 0, 0, 0, 0, 0, 5], &state[..], b"GET"].concat(),
        ),
        (7, What::Keep, vec![]),
        (8, What::Released, vec![]),
        (9, What::Abort, vec![]),
        (10, What::Ended { sent: 258 }, vec![0, 0, 0, 0, 0, 0, 1, 2]),
        (11, What::Install(rule()), ends.clone()),
        (12, What::Remove(rule()), ends),
        (13, What::Done, vec![]),
        (
            14,
            What::Stuck {
                sent: 5,
                bytes: b"GET".to_vec(),
            },
            b"\0\0\0\0\0\0\0\x05GET".to_vec(),
        ),
        (15, What::Close, vec![]),
        (16, What::Leaving, vec![]),
    ]
}

fn bytes(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(18 + body.len()).expect("small");
    let head = [4, kind, 0, 0, 0, 0, 0, 0, 3, 9, 0, 0, 0, 0, 0, 0, 1, 4];
    [&length.to_be_bytes()[..], &head, body].concat()
}

#[test]
fn every_message_is_its_bytes_and_its_bytes_are_it() {
    for (kind, what, body) in cases() {
        let message = Message { id: 777, what };
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
    for (kind, what, body) in cases() {
        let ends_with_bytes = matches!(
            what,
            What::Hand { .. } | What::Returned { .. } | What::Stuck { .. }
        );
        if !ends_with_bytes {
            let longer = bytes(kind, &[&body[..], &[0]].concat());
            assert_eq!(parse(&longer), Err(Bad::Length(longer.len())), "{kind}");
        }
        if let [most @ .., _] = &body[..] {
            let shorter = bytes(kind, most);
            let parsed = parse(&shorter);
            let still_one = ends_with_bytes && parsed.as_ref().is_ok_and(Option::is_some);
            assert!(
                still_one || parsed == Err(Bad::Length(shorter.len())),
                "{kind}"
            );
        }
    }
}

#[test]
fn what_is_not_known_is_refused_by_name() {
    assert_eq!(parse(&bytes(17, &[])), Err(Bad::Kind(17)));
    let mut other = bytes(1, &[0; 8]);
    other[4] = 2;
    assert_eq!(parse(&other), Err(Bad::Version(2)));
    assert_eq!(parse(&other[..5]), Err(Bad::Version(2)));
    let mut state = frozen().to_bytes();
    state[0] = 3;
    let refused = Err(Bad::Checkpoint(InvalidCheckpoint::Version(3)));
    assert_eq!(parse(&bytes(3, &state)), refused);
}

#[test]
fn lengths_are_bounded_before_anything_is_waited_for() {
    let longest = u32::try_from(LONGEST - 4).expect("small");
    assert_eq!(parse(&longest.to_be_bytes()), Ok(None));
    assert_eq!(
        parse(&(longest + 1).to_be_bytes()),
        Err(Bad::Length(LONGEST + 1))
    );
    assert_eq!(parse(&[0; 4]), Err(Bad::Length(4)));
    let hand = |length| bytes(3, &[&frozen().to_bytes()[..], &vec![0; length]].concat());
    assert!(parse(&hand(MOST_BYTES)).is_ok_and(|message| message.is_some()));
    assert!(parse(&hand(MOST_BYTES + 1)).is_err());
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
