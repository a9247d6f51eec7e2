//! What the kernel's programs believe of segments that anybody may have forged who knows addresses and ports (RFC 5961).
//! `tests/netns/test_offload.py` runs this, as root in a network namespace of its own.

mod cases;

use cases::segment::{ACK, FIN, Ip, RST, SYN, Segment};
use cases::{both_ways, from_client, from_server};
use tributary_offload::{Action, Devices, Seen, Translation, Translator};

/// Loopback's number, by which packets come in that are tried.
const HERE: u32 = 1;

/// A connection whose two directions are in the kernel's table.
struct Connection {
    ip: Ip,
    translator: Translator,
    directions: [Translation; 2],
}

impl Connection {
    fn begin(ip: Ip) -> Self {
        Self::with(ip, &both_ways(ip))
    }

    /// Of which is not known yet how far it has come, as at a switch.
    fn unknown(ip: Ip) -> Self {
        Self::with(ip, &both_ways(ip).map(|each| Translation { sender: None, ..each }))
    }

    fn with(ip: Ip, directions: &[Translation; 2]) -> Self {
        let translator = Translator::load().expect("loaded");
        for each in directions {
            translator.insert(each, Devices::to(HERE)).expect("there");
        }
        Self {
            ip,
            translator,
            directions: *directions,
        }
    }

    /// So many bytes from the client, so far behind its next one, which acknowledge so much of what the server has sent.
    fn client(&self, flags: u8, seq: u32, ack: u32, length: usize) {
        self.try_on(from_client(self.ip), flags, [seq, ack], length);
    }

    fn server(&self, flags: u8, seq: u32, ack: u32, length: usize) {
        self.try_on(from_server(self.ip), flags, [seq, ack], length);
    }

    fn try_on(&self, from: Segment, flags: u8, [seq, ack]: [u32; 2], length: usize) {
        let segment = from.with(|s| {
            (s.seq, s.ack) = (s.seq.wrapping_add(seq), s.ack.wrapping_add(ack));
            (s.flags, s.payload) = (flags, vec![0; length]);
        });
        let action = self.translator.try_on(&mut segment.encode());
        assert_eq!(action.expect("run"), Action::Redirect);
    }

    fn seen(&self) -> [Seen; 2] {
        let seen = |each: &Translation| self.translator.seen(each.from).expect("asked");
        self.directions.each_ref().map(|each| seen(each).expect("there"))
    }

    /// Whether the client has ended, and whether the server has.
    fn fins(&self) -> [bool; 2] {
        self.seen().map(|direction| direction.fin)
    }

    fn resets(&self) -> [bool; 2] {
        self.seen().map(|direction| direction.reset)
    }
}

/// A number that is in no window.
const FAR: u32 = 1 << 30;

#[test]
#[ignore = "needs root"]
fn an_end_is_believed_once_the_other_one_has_acknowledged_it() {
    for ip in [Ip::V4, Ip::V6] {
        for connection in [Connection::begin(ip), Connection::unknown(ip)] {
            connection.client(ACK, 0, 0, 100);
            connection.server(ACK, 0, 100, 0);
            connection.client(FIN | ACK, 100, 0, 20);
            assert_eq!(connection.fins(), [false, false]);
            connection.server(ACK, 0, 120, 500);
            assert_eq!(connection.fins(), [false, false], "the data, and not the end");
            connection.server(ACK, 500, 121, 0);
            assert_eq!(connection.fins(), [true, false]);
            connection.server(FIN | ACK, 500, 121, 0);
            connection.client(ACK, 121, 501, 0);
            assert_eq!(connection.fins(), [true, true]);
        }
    }
}

#[test]
#[ignore = "needs root"]
fn an_end_that_is_forged_is_not_believed_whoever_acknowledges_it() {
    let connection = Connection::begin(Ip::V4);
    for number in [FAR, FAR / 2, 0_u32.wrapping_sub(FAR)] {
        connection.client(FIN | ACK, number, 0, 0);
        connection.server(ACK, 0, number.wrapping_add(1), 0);
        connection.server(FIN | ACK, number, 0, 0);
        connection.client(ACK, 0, number.wrapping_add(1), 0);
    }
    assert_eq!(connection.fins(), [false, false]);
    // In the window, as one in some ten thousand is: the true acknowledgements show better.
    connection.client(FIN | ACK, 700, 0, 0);
    connection.server(ACK, 0, 0, 0);
    assert_eq!(connection.fins(), [false, false]);
    connection.client(ACK, 0, 0, 701);
    connection.server(ACK, 0, 701, 0);
    connection.client(ACK, 701, 0, 100);
    connection.server(ACK, 0, 801, 0);
    assert_eq!(connection.fins(), [false, false]);
}

#[test]
#[ignore = "needs root"]
fn a_reset_is_believed_with_the_number_that_is_expected_next() {
    for (sent, number, believed) in [
        (0, 0, true),
        (0, 1, false),
        (0, u32::MAX, false),
        (0, FAR, false),
        // Behind what is not acknowledged yet, and before that.
        (1000, 1000, true),
        (1000, 0, true),
        (1000, 500, false),
    ] {
        let connection = Connection::begin(Ip::V4);
        connection.client(ACK, 0, 0, sent);
        connection.client(RST, number, 0, 0);
        let case = format!("{number} behind {sent} bytes");
        assert_eq!(connection.resets(), [believed, false], "{case}");
    }
}

#[test]
#[ignore = "needs root"]
fn what_is_forged_both_ways_moves_no_window_to_where_a_reset_would_be_believed() {
    let connection = Connection::begin(Ip::V6);
    connection.client(ACK, FAR, 0, 10);
    connection.client(ACK, 0, FAR, 10);
    connection.server(ACK, 0, FAR + 10, 0);
    connection.server(ACK, FAR, 0, 10);
    for number in [FAR, FAR + 10] {
        connection.client(RST, number, 0, 0);
        connection.server(RST | ACK, number, number, 0);
    }
    assert_eq!(connection.resets(), [false, false]);
    // The true ones go on.
    connection.server(ACK, 0, 10, 0);
    connection.client(RST | ACK, 10, 0, 0);
    assert_eq!(connection.resets(), [true, false]);
}

#[test]
#[ignore = "needs root"]
fn a_new_beginning_is_believed_behind_the_ends_of_both() {
    let connection = Connection::begin(Ip::V4);
    connection.client(SYN, FAR, 0, 0);
    connection.client(FIN | ACK, 0, 0, 0);
    connection.server(FIN | ACK, 0, 1, 0);
    connection.client(SYN, FAR, 0, 0);
    assert!(!connection.seen()[0].syn, "one end is not acknowledged");
    connection.client(ACK, 1, 1, 0);
    connection.client(SYN, FAR, 0, 0);
    assert!(connection.seen()[0].syn);
}

#[test]
#[ignore = "needs root"]
fn what_comes_by_another_device_is_dropped_and_counted() {
    let translator = Translator::load().expect("loaded");
    let [upward, _] = both_ways(Ip::V4);
    let packet = from_client(Ip::V4).encode();
    for (comes_by, action) in [(HERE, Action::Redirect), (HERE + 1, Action::Drop)] {
        let devices = Devices {
            comes_by: Some(comes_by),
            goes_by: HERE,
        };
        translator.insert(&upward, devices).expect("there");
        assert_eq!(translator.try_on(&mut packet.clone()).expect("run"), action);
    }
    let seen = translator.seen(upward.from).expect("asked").expect("there");
    assert_eq!((seen.refused, seen.last, seen.bytes), (1, None, 0));
}

#[test]
#[ignore = "needs root"]
fn a_direction_is_led_elsewhere_and_keeps_what_was_seen_of_it() {
    let connection = Connection::begin(Ip::V4);
    connection.client(ACK, 0, 0, 100);
    let flow = connection.directions[0].from;
    connection.translator.lead(flow, HERE + 1).expect("there");
    assert_eq!(connection.seen()[0].bytes, 100);
    let error = connection.translator.lead(flow.reversed(), HERE);
    let error = error.expect_err("no such direction");
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
}
