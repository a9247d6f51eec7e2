//! The kernel's program does as the arithmetic says. `tests/netns/test_offload.py` runs this, as root in a network
//! namespace of its own.

mod cases;

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::process::Command;
use std::thread;
use std::time::Duration;

use cases::segment::{Ip, Segment, checksum, sack, timestamps};
use cases::{both_ways, cases, from_client};
use tributary_offload::{Action, Connection, Devices, Flow, Translation, Translator, checkpoint, drop_all};
use tributary_sys::device_number;

#[test]
#[ignore = "needs root"]
fn every_packet_of_the_table_becomes_what_it_should() {
    let translator = Translator::load().expect("loaded");
    for mut case in cases() {
        let name = format!("{:?}: {}", case.ip, case.name);
        let inserted = translator.insert(&case.translation, Devices::to(1));
        inserted.expect("there");
        let action = translator.try_on(&mut case.packet).expect(&name);
        assert_eq!(action, case.action, "{name}");
        assert_eq!(case.packet, case.result, "{name}");
        let seen = translator.seen(case.translation.from);
        let seen = seen.expect("asked").expect("there");
        assert_eq!(seen.refused, u32::from(action == Action::Drop), "{name}");
        assert_eq!(seen.last.is_some(), action == Action::Redirect, "{name}");
    }
}

#[test]
#[ignore = "needs root"]
fn any_options_become_what_the_arithmetic_makes_of_them() {
    let (translator, way_out) = (for_drivers(), WayOut::open());
    let mut random = Random(1);
    for round in 0..20_000 {
        let ip = [Ip::V4, Ip::V6][round % 2];
        let (translation, packet) = (random.translation(ip), random.packet(ip));
        let case = format!("{round}: {packet:?}");
        let inserted = translator.insert(&translation, Devices::to(way_out.0));
        inserted.expect("there");
        let (mut here, mut kernel) = (packet.clone(), packet.clone());
        let action = translation.apply(&mut here);
        assert_eq!(translator.try_on(&mut kernel).expect("run"), action, "{case}");
        assert_eq!(kernel, here, "{case}");
        if ip == Ip::V4 {
            let mut driver = packet;
            let done = translator.try_drivers_on(&mut driver).expect("run");
            let is_sent = done == Action::Redirect;
            assert_eq!(is_sent, action == Action::Redirect, "{case}");
            assert_eq!(driver, here, "{case}");
        }
    }
}

/// A device by which everything in IPv4 goes to a next hop that is known, and its number. It is there as long as this lives.
struct WayOut(u32);

impl WayOut {
    fn open() -> Self {
        for command in [
            "link add way-out type veth peer name way-in",
            "link set way-in up",
            "address add 10.255.0.1/24 dev way-out",
            "link set way-out up",
            "neighbour add 10.255.0.2 lladdr 02:00:00:00:00:02 nud permanent dev way-out",
            "route add default via 10.255.0.2",
        ] {
            ip(command);
        }
        let forwarding = "/proc/sys/net/ipv4/conf/way-out/forwarding";
        fs::write(forwarding, "1").expect("a setting");
        Self(device_number("way-out").expect("a number"))
    }
}

impl Drop for WayOut {
    fn drop(&mut self) {
        ip("link delete way-out");
    }
}

fn ip(command: &str) {
    let status = Command::new("ip").args(command.split(' ')).status();
    assert!(status.expect("ip").success(), "{command}");
}

/// A translator whose program for drivers can be run.
fn for_drivers() -> Translator {
    let mut translator = Translator::load().expect("loaded");
    translator.load_for_drivers().expect("loaded");
    translator
}

#[test]
#[ignore = "needs root"]
fn the_drivers_program_makes_of_plain_packets_what_it_should_and_leaves_all_others() {
    let (translator, way_out) = (for_drivers(), WayOut::open());
    for case in cases() {
        let name = format!("{:?}: {}", case.ip, case.name);
        let inserted = translator.insert(&case.translation, Devices::to(way_out.0));
        inserted.expect("there");
        let mut packet = case.packet.clone();
        let action = translator.try_drivers_on(&mut packet).expect(&name);
        let seen = translator.seen(case.translation.from);
        let seen = seen.expect("asked").expect("there");
        if case.ip == Ip::V4 && case.action == Action::Redirect {
            assert_eq!((action, packet), (Action::Redirect, case.result), "{name}");
            assert!(seen.last.is_some(), "{name}");
        } else {
            assert_eq!((action, packet), (Action::Unspecified, case.packet), "{name}");
            assert_eq!((seen.last, seen.refused), (None, 0), "{name}");
        }
    }
}

#[test]
#[ignore = "needs root"]
fn the_drivers_program_leaves_packets_that_have_no_checksum_yet_or_no_next_hop() {
    let (translator, way_out) = (for_drivers(), WayOut::open());
    let upward = cases::upward(Ip::V4);
    let whole = from_client(Ip::V4).encode();
    let mut partial = whole.clone();
    let tcp = u16::try_from(whole.len() - 20).expect("short").to_be_bytes();
    // Of the addresses, the protocol and the length, as the kernel leaves it to a device that computes the rest.
    let sum = !checksum(&[&whole[12..20], &[0, 6], &tcp].concat());
    partial[36..38].copy_from_slice(&sum.to_be_bytes());
    let tried = |translator: &Translator, packet: &[u8]| {
        let mut packet = packet.to_vec();
        translator.try_drivers_on(&mut packet).expect("run")
    };
    translator.insert(&upward, Devices::to(way_out.0)).expect("there");
    assert_eq!(tried(&translator, &whole), Action::Redirect);
    assert_eq!(tried(&translator, &partial), Action::Unspecified);
    ip("link set way-out mtu 68");
    let long = from_client(Ip::V4).with(|s| s.payload = vec![1; 100]);
    assert_eq!(tried(&translator, &long.encode()), Action::Unspecified);
    ip("link set way-out mtu 1500");
    assert_eq!(tried(&translator, &long.encode()), Action::Redirect);
    let elsewhere = Devices {
        comes_by: Some(way_out.0),
        goes_by: way_out.0,
    };
    translator.insert(&upward, elsewhere).expect("there");
    assert_eq!(tried(&translator, &whole), Action::Unspecified);
    let devices = Devices::to(way_out.0);
    translator.insert(&upward, devices).expect("there");
    assert_eq!(tried(&translator, &whole), Action::Redirect);
    ip("neighbour delete 10.255.0.2 dev way-out");
    assert_eq!(tried(&translator, &whole), Action::Unspecified);
}

#[test]
#[ignore = "needs root"]
fn tc_has_one_packet_in_a_second_but_not_the_first() {
    let (translator, way_out) = (for_drivers(), WayOut::open());
    let upward = cases::upward(Ip::V4);
    translator.insert(&upward, Devices::to(way_out.0)).expect("there");
    let tried = || {
        let mut packet = from_client(Ip::V4).encode();
        translator.try_drivers_on(&mut packet).expect("run")
    };
    assert_eq!([tried(), tried()], [Action::Redirect; 2]);
    thread::sleep(Duration::from_millis(1010));
    assert_eq!([tried(), tried()], [Action::Unspecified, Action::Redirect]);
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
    for (listens, address) in [("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("::", "127.0.0.1")] {
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
    drop_all(&[here.as_fd(), there.as_fd()]).expect("a filter");
    for (socket, incoming) in [(&here, to_there), (&there, to_there.reversed())] {
        let last = translator.last_timestamp(incoming).expect("there");
        let clock = checkpoint(socket).expect("a checkpoint").clock;
        let gone = clock.expect("timestamps").wrapping_sub(last);
        assert!(gone < 10_000, "{incoming:?}: {last} and {gone} ticks since");
    }
    let nobody = Flow {
        source: SocketAddr::new(ip(address), 1),
        ..to_there.reversed()
    };
    let error = translator.last_timestamp(nobody).expect_err("no connection");
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
#[ignore = "needs root"]
fn what_is_removed_is_left_alone_again() {
    let translator = Translator::load().expect("loaded");
    let translation = cases::upward(Ip::V6);
    translator.insert(&translation, Devices::to(1)).expect("there");
    translator.remove(translation.from).expect("gone");
    let mut packet = from_client(Ip::V6).encode();
    assert_eq!(translator.try_on(&mut packet).expect("run"), Action::Unspecified);
    assert_eq!(translator.seen(translation.from).expect("asked"), None);
}

#[test]
#[ignore = "needs root"]
fn a_connection_that_is_dropped_is_in_the_table_no_more() {
    let translator = Translator::load().expect("loaded");
    let both = both_ways(Ip::V4);
    let there = || both.map(|each| translator.seen(each.from).expect("asked").is_some());
    let connection = Connection::begin(&translator, both.map(|each| (each, 1)));
    let connection = connection.expect("begun");
    assert_eq!(there(), [true, true]);
    drop(connection);
    assert_eq!(there(), [false, false]);
}

#[test]
#[ignore = "needs root"]
fn a_packet_is_timed_as_often_as_its_time_to_live_allows() {
    let (translator, way_out) = (for_drivers(), WayOut::open());
    let upward = cases::upward(Ip::V4);
    let round = Translation {
        to: upward.from,
        ..upward
    };
    translator.insert(&round, Devices::to(way_out.0)).expect("there");
    // 64 hops.
    let packet = from_client(Ip::V4).encode();
    let time = translator.time_on(&packet, 63).expect("sent out each time");
    assert!((1..100_000).contains(&time.as_nanos()), "{time:?}");
    translator
        .time_on(&packet, 65)
        .expect_err("it has been on its way for too long");
    let mut times = (0..3).filter_map(|_| translator.time_drivers_on(&packet, 60).expect("run"));
    let time = times.next().expect("sent out");
    assert!((1..100_000).contains(&time.as_nanos()), "{time:?}");
    assert_eq!(translator.time_drivers_on(&packet, 70).expect("run"), None);
}
