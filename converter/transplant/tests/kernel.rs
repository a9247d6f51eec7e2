//! The kernel's program does as the arithmetic says. `tests/netns/test_transplant.py` runs this, as root in a network
//! namespace of its own.

mod cases;

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;

use cases::segment::{Ip, Segment, sack, timestamps};
use cases::{Case, REFUSED_SYN, cases, from_client};
use tributary_transplant::{Action, Event, Flow, Outcome, Translation, Translator, freeze, hold};

fn action(outcome: Outcome) -> Action {
    match outcome {
        Outcome::Forward(_) => Action::Redirect,
        Outcome::NotOurs => Action::Unspecified,
        Outcome::Refuse(_) => Action::Drop,
    }
}

#[test]
#[ignore = "needs root"]
fn every_packet_of_the_table_becomes_what_it_should() {
    let mut translator = Translator::load().expect("loaded");
    for Case {
        ip,
        name,
        translation,
        mut packet,
        outcome,
        result,
    } in cases()
    {
        let name = format!("{ip:?}: {name}");
        translator.insert(&translation, 1).expect("there");
        assert_eq!(
            translator.try_on(&mut packet).expect(&name),
            action(outcome),
            "{name}"
        );
        assert_eq!(packet, result, "{name}");
        let seen = translator
            .seen(translation.from)
            .expect("asked")
            .expect("there");
        assert_eq!(seen.fin, outcome == Outcome::Forward(Event::Fin), "{name}");
        let begins = outcome == Outcome::Forward(Event::Syn) || name.ends_with(REFUSED_SYN);
        assert_eq!(seen.syn, begins, "{name}");
        assert_eq!(
            seen.reset,
            outcome == Outcome::Forward(Event::Reset),
            "{name}"
        );
        assert_eq!(
            seen.refused,
            u32::from(matches!(outcome, Outcome::Refuse(_))),
            "{name}"
        );
        assert_eq!(
            seen.last.is_some(),
            matches!(outcome, Outcome::Forward(_)),
            "{name}"
        );
    }
}

#[test]
#[ignore = "needs root"]
fn any_options_become_what_the_arithmetic_makes_of_them() {
    let mut translator = Translator::load().expect("loaded");
    let mut random = Random(1);
    for round in 0..20_000 {
        let ip = [Ip::V4, Ip::V6][round % 2];
        let (translation, packet) = (random.translation(ip), random.packet(ip));
        translator.insert(&translation, 1).expect("there");
        let (mut here, mut kernel) = (packet.clone(), packet.clone());
        let outcome = translation.apply(&mut here);
        assert_eq!(
            translator.try_on(&mut kernel).expect("run"),
            action(outcome),
            "{round}: {packet:?}"
        );
        assert_eq!(kernel, here, "{round}: {packet:?}");
    }
}

/// Numbers that are the same in each run (xorshift, Marsaglia 2003).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: u64) -> usize {
        usize::try_from((self.next() >> 20) % limit).expect("small")
    }

    #[allow(clippy::cast_possible_truncation)]
    fn bits<const SIZE: usize>(&mut self) -> [u8; SIZE] {
        std::array::from_fn(|_| (self.next() >> 30) as u8)
    }

    fn translation(&mut self, ip: Ip) -> Translation {
        let mut number = || u32::from_ne_bytes(self.bits());
        let (sequence, acknowledgement, tsval, tsecr) = (number(), number(), number(), number());
        let [scale_in, scale_out] = self.bits().map(|byte: u8| byte % 15);
        Translation {
            sequence,
            acknowledgement,
            tsval,
            tsecr,
            scale_in,
            scale_out,
            ..cases::upward(ip)
        }
    }

    /// One with options that are mostly whole, and now and then with a byte changed.
    fn packet(&mut self, ip: Ip) -> Vec<u8> {
        let mut options = vec![];
        while options.len() < 40 && self.below(6) != 0 {
            match self.below(8) {
                0..3 => options.push(1),
                3..5 => options.extend(&timestamps(u32::from(self.bits::<1>()[0]), 7)[2..]),
                5 | 6 => {
                    let blocks = vec![(u32::from_ne_bytes(self.bits()), 9); 1 + self.below(4)];
                    options.extend(&sack(&blocks)[2..]);
                }
                _ => options.extend(self.bits::<3>()),
            }
        }
        options.resize(options.len().min(40).next_multiple_of(4), 0);
        let payload = vec![3; self.below(5)];
        let [flags] = self.bits();
        let window = u16::from_ne_bytes(self.bits());
        let mut packet = Segment {
            flags,
            window,
            options,
            payload,
            ..from_client(ip)
        }
        .encode();
        if self.below(4) == 0 {
            let at = self.below(packet.len() as u64);
            [packet[at]] = self.bits();
        }
        packet
    }
}

#[test]
#[ignore = "needs root"]
fn the_last_timestamp_of_a_connection_is_its_other_ends() {
    let translator = Translator::load().expect("loaded");
    for (listens, address) in [
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "::1"),
        ("::", "127.0.0.1"),
    ] {
        has_the_last_timestamp(&translator, listens, address);
    }
}

/// That of a connection to `address` at both of its ends.
fn has_the_last_timestamp(translator: &Translator, listens: &str, address: &str) {
    let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
    let listener = TcpListener::bind((ip(listens), 0)).expect("a listener");
    let port = listener.local_addr().expect("an address").port();
    let mut here = TcpStream::connect((ip(address), port)).expect("connect");
    let (mut there, _) = listener.accept().expect("accept");
    there.write_all(b"a").expect("written");
    here.read_exact(&mut [0]).expect("read");
    let to_there = Flow {
        source: here.local_addr().expect("an address"),
        destination: here.peer_addr().expect("an address"),
    };
    hold(&[here.as_fd(), there.as_fd()]).expect("held");
    for (socket, incoming) in [(&here, to_there), (&there, to_there.reversed())] {
        let last = translator.last_timestamp(incoming).expect("there");
        let clock = freeze(socket).expect("frozen").clock;
        let gone = clock.expect("timestamps").wrapping_sub(last);
        assert!(gone < 10_000, "{incoming:?}: {last} and {gone} ticks since");
    }
    let nobody = Flow {
        source: SocketAddr::new(ip(address), 1),
        ..to_there.reversed()
    };
    let error = translator
        .last_timestamp(nobody)
        .expect_err("no connection");
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
#[ignore = "needs root"]
fn what_is_removed_is_left_alone_again() {
    let mut translator = Translator::load().expect("loaded");
    let translation = cases::upward(Ip::V6);
    translator.insert(&translation, 1).expect("there");
    translator.remove(translation.from).expect("gone");
    let mut packet = from_client(Ip::V6).encode();
    assert_eq!(
        translator.try_on(&mut packet).expect("run"),
        Action::Unspecified
    );
    assert_eq!(translator.seen(translation.from).expect("asked"), None);
}

#[test]
#[ignore = "needs root"]
fn a_packet_is_timed_as_often_as_its_time_to_live_allows() {
    let mut translator = Translator::load().expect("loaded");
    let upward = cases::upward(Ip::V4);
    let round = Translation {
        to: upward.from,
        ..upward
    };
    translator.insert(&round, 1).expect("there");
    // 64 hops.
    let packet = from_client(Ip::V4).encode();
    let time = translator.time_on(&packet, 63).expect("sent out each time");
    assert!((1..100_000).contains(&time.as_nanos()), "{time:?}");
    translator
        .time_on(&packet, 65)
        .expect_err("it has been on its way for too long");
}
