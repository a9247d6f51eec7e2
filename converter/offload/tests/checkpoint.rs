//! Connections over loopback out of their sockets and into others. `tests/netns/test_offload.py` runs this, as root in a
//! network namespace of its own.

mod common;

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::process::Command;
use std::thread::{self, sleep};
use std::time::Duration;

use common::{eventually, pattern};
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tributary_offload::{
    NotQuiescent, Pause, check_quiescent, checkpoint, checkpoint_both, drop_all, drop_incoming_data, is_unchanged,
    release, restore, restore_dropping_all,
};
use tributary_sys::unacknowledged;

/// Where one end listens, and where the other one looks for it: with IPv4, with IPv6, and with IPv4 where both can come.
const WAYS: [(&str, &str); 3] = [("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("::", "127.0.0.1")];

/// Both ends of a connection.
fn connected() -> (TcpStream, TcpStream) {
    connected_by(WAYS[0])
}

/// Both ends, the one that listened last.
fn connected_by((listens, address): (&str, &str)) -> (TcpStream, TcpStream) {
    let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
    let listener = TcpListener::bind((ip(listens), 0)).expect("a listener");
    let port = listener.local_addr().expect("an address").port();
    let client = TcpStream::connect((ip(address), port)).expect("connect");
    let (server, _) = listener.accept().expect("accept");
    (client, server)
}

fn nft(commands: &str) {
    let status = Command::new("nft").args([commands]).status();
    assert!(status.expect("nft").success(), "{commands}");
}

/// A rule of the packet filter that drops what comes in, for as long as this lives.
struct Dropping;

impl Dropping {
    fn what(matches: &str) -> Self {
        nft(&format!(
            "add table inet test; add chain inet test in {{ type filter hook input priority 0; }}; \
             add rule inet test in {matches} drop"
        ));
        Self
    }
}

impl Drop for Dropping {
    fn drop(&mut self) {
        nft("delete table inet test");
    }
}

/// All that can be read without waiting.
fn drain(socket: &mut TcpStream, into: &mut Vec<u8>) {
    socket.set_nonblocking(true).expect("non-blocking");
    match socket.read_to_end(into) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => {}
        other => panic!("the connection goes on: {other:?}"),
    }
    socket.set_nonblocking(false).expect("blocking");
}

#[test]
#[ignore = "needs root and a network namespace of its own"]
fn a_connection_goes_on_in_another_socket_and_every_byte_arrives() {
    for way in WAYS {
        goes_on(connected_by(way));
    }
}

/// Has a connection's second end go on in another socket in mid-transfer.
fn goes_on((mut there, mut here): (TcpStream, TcpStream)) {
    // It does not grow, so no more than this is read at a try.
    SockRef::from(&here).set_recv_buffer_size(1 << 18).expect("set");
    let sent = pattern(20_000_000);
    let expected = sent.clone();
    let far = thread::spawn(move || {
        there.write_all(&sent).expect("all is written");
        there.shutdown(Shutdown::Write).expect("no more");
        let mut answer = vec![];
        there.read_to_end(&mut answer).expect("an answer");
        answer
    });
    let mut got = vec![0; 3_000_001];
    here.read_exact(&mut got).expect("the first part");
    here.write_all(b"before").expect("written");
    let state = eventually(|| {
        drop_all(&[here.as_fd()]).expect("a filter");
        drain(&mut here, &mut got);
        match checkpoint(&here) {
            Ok(state) => Some(state),
            Err(NotQuiescent::InFlight(_) | NotQuiescent::Unread(_) | NotQuiescent::OutOfOrder) => {
                release(&here).expect("goes on");
                // What was dropped is sent again. Sooner, that is dropped as well, and each time later by the sender's timer.
                sleep(Duration::from_millis(50));
                None
            }
            Err(other) => panic!("{other}"),
        }
    });
    assert!(got.len() < expected.len(), "in mid-transfer");

    let gap = Dropping::what("meta l4proto tcp"); // without a socket the kernel would send a reset
    drop(here);
    let again = TcpStream::from(restore(&state).expect("restored"));
    drop(gap);
    let mut again = again;
    again.write_all(b" and after").expect("written");
    again.read_to_end(&mut got).expect("the rest");
    drop(again);
    assert!(got == expected, "{} bytes of {}", got.len(), expected.len());
    assert_eq!(far.join().expect("no error"), b"before and after");
}

#[test]
#[ignore = "needs root and a network namespace of its own"]
fn what_was_agreed_on_is_had_and_agreed_on_again() {
    for way in WAYS {
        is_agreed_on_again(connected_by(way));
    }
}

fn is_agreed_on_again((there, here): (TcpStream, TcpStream)) {
    drop_all(&[here.as_fd(), there.as_fd()]).expect("a filter");
    let near = checkpoint(&here).expect("a checkpoint");
    let far = checkpoint(&there).expect("a checkpoint");
    assert_eq!((near.local, near.remote), (far.remote, far.local));
    assert_eq!((near.snd_nxt, near.rcv_nxt), (far.rcv_nxt, far.snd_nxt));
    let (scales, others) = (near.scales.expect("scales"), far.scales.expect("scales"));
    assert_eq!((scales.snd, scales.rcv), (others.rcv, others.snd));
    assert!(near.sack && near.clock.is_some());
    assert_eq!((near.mss_in, near.path_mtu), (far.mss_out, far.path_mtu));
    drop(here);
    let again = restore(&near).expect("restored");
    drop_all(&[again.as_fd()]).expect("a filter");
    let restored = checkpoint(&again).expect("a checkpoint");
    assert_eq!((restored.snd_nxt, restored.rcv_nxt), (near.snd_nxt, near.rcv_nxt));
    assert_eq!((restored.scales, restored.sack), (near.scales, near.sack));
    assert_eq!(restored.mss_out, near.mss_out);
    let gone = restored
        .clock
        .expect("a clock")
        .wrapping_sub(near.clock.expect("a clock"));
    assert!(gone < 10_000_000, "the clock went on by {gone} ticks");
}

/// As where it waits until packets are led there: closed before, it leaves no trace.
#[test]
#[ignore = "needs root and a network namespace of its own"]
fn a_socket_that_is_restored_dropping_all_takes_and_sends_nothing_until_it_is_released() -> io::Result<()> {
    for way in WAYS {
        let (mut there, here) = connected_by(way);
        drop_all(&[here.as_fd()])?;
        let state = checkpoint(&here).expect("a checkpoint");
        drop(here);
        drop(restore_dropping_all(&state)?);
        let mut again = TcpStream::from(restore_dropping_all(&state)?);
        there.write_all(b"early")?;
        sleep(Duration::from_millis(50));
        assert!(is_unchanged(&again, &state)?, "{way:?}");
        state.release(&again)?;
        again.read_exact(&mut [0; 5])?;
        again.write_all(b"answer")?;
        there.read_exact(&mut [0; 6])?;
    }
    Ok(())
}

/// The longest segment that goes out has room on the way.
#[test]
#[ignore = "needs root and a network namespace of its own"]
fn no_segment_is_longer_than_what_the_way_takes() {
    for (way, headers) in WAYS.into_iter().zip([40, 60, 40]) {
        let (_client, server) = connected_by(way);
        drop_all(&[server.as_fd()]).expect("a filter");
        let mut state = checkpoint(&server).expect("a checkpoint");
        state.path_mtu = 1500;
        assert_eq!(state.leg(0).mss_out, 1500 - headers, "{way:?}");
        drop(server);
        let restored = restore(&state).expect("restored");
        drop_all(&[restored.as_fd()]).expect("a filter");
        let longest = checkpoint(&restored).expect("a checkpoint").mss_out;
        assert_eq!(longest, u32::from(1500 - headers), "{way:?}");
    }
}

/// What the kernel has counted in this network namespace (`/proc/net/netstat`).
fn counted(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/net/netstat").expect("proc(5)");
    let mut lines = text.lines();
    while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
        let mut both = names.split(' ').zip(values.split(' '));
        if let Some((_, value)) = both.find(|(each, _)| *each == name) {
            return value.parse().expect("a number");
        }
    }
    panic!("no counter {name}")
}

/// A socket with keep-alive probes after a second, three of them in as many, is checkpointed for longer than they take: its other
/// end, whose answers are dropped, is not reset. When it is released it has them again.
#[test]
#[ignore = "needs root and a network namespace of its own"]
fn a_socket_in_repair_mode_sends_no_probes_and_a_released_one_has_those_that_it_had() -> io::Result<()> {
    let second = Duration::from_secs(1);
    let probes = TcpKeepalive::new().with_time(second).with_interval(second);
    let (mut here, mut there) = connected();
    SockRef::from(&here).set_tcp_keepalive(&probes.with_retries(2))?;
    drop_all(&[here.as_fd()])?;
    let state = checkpoint(&here).expect("a checkpoint");
    let sent = counted("TCPKeepAlive");
    sleep(5 * second);
    assert_eq!(counted("TCPKeepAlive"), sent);
    state.release(&here)?;
    let socket = SockRef::from(&here);
    assert!(socket.keepalive()?);
    assert_eq!(
        (socket.tcp_keepalive_time()?, socket.tcp_keepalive_interval()?),
        (second, second)
    );
    eventually(|| (counted("TCPKeepAlive") > sent).then_some(()));
    there.write_all(b"a")?;
    here.read_exact(&mut [0])?;
    Ok(())
}

#[test]
#[ignore = "needs root and a network namespace of its own"]
fn a_socket_without_probes_has_none_when_it_is_released() -> io::Result<()> {
    let (here, _there) = connected();
    drop_all(&[here.as_fd()])?;
    checkpoint(&here).expect("a checkpoint").release(&here)?;
    assert!(!SockRef::from(&here).keepalive()?);
    Ok(())
}

/// An acknowledgement that would have waited for an answer to go with goes out before the state is taken.
#[test]
#[ignore = "needs root and a network namespace of its own"]
fn a_socket_in_repair_mode_sends_no_acknowledgement_later() -> io::Result<()> {
    let (mut here, mut there) = connected();
    // Who has answered waits with acknowledgements for the next answer.
    for _ in 0..3 {
        there.write_all(b"question")?;
        here.read_exact(&mut [0; 8])?;
        here.write_all(b"answer")?;
        there.read_exact(&mut [0; 6])?;
    }
    there.write_all(b"question")?;
    here.read_exact(&mut [0; 8])?;
    drop_all(&[here.as_fd()])?;
    checkpoint(&here).expect("a checkpoint");
    let delayed = counted("DelayedACKs");
    eventually(|| (unacknowledged(&there).ok()? == 0).then_some(()));
    // The longest that one may wait (TCP_DELACK_MAX in include/net/tcp.h), and half as much.
    sleep(Duration::from_millis(300));
    assert_eq!(counted("DelayedACKs"), delayed);
    Ok(())
}

/// What a checkpoint of it says, and that it goes on afterwards.
fn obstacle(socket: &TcpStream) -> NotQuiescent {
    drop_all(&[socket.as_fd()]).expect("a filter");
    let obstacle = checkpoint(socket).expect_err("not whole");
    release(socket).expect("goes on");
    obstacle
}

#[test]
#[ignore = "needs root and a network namespace of its own"]
fn what_is_not_acknowledged_is_an_obstacle_and_arrives_all_the_same() {
    let (mut here, mut there) = connected();
    drop_all(&[there.as_fd()]).expect("a filter");
    here.write_all(b"hello").expect("written");
    assert!(matches!(obstacle(&here), NotQuiescent::InFlight(5)));
    release(&there).expect("goes on");
    let mut got = [0; 5];
    there.read_exact(&mut got).expect("sent again");
    assert_eq!(&got, b"hello");
}

#[test]
#[ignore = "needs root and a network namespace of its own"]
fn what_is_not_read_is_an_obstacle() {
    let (here, mut there) = connected();
    there.write_all(b"hello").expect("written");
    eventually(|| (here.peek(&mut [0; 9]).expect("bytes") == 5).then_some(()));
    assert!(matches!(obstacle(&here), NotQuiescent::Unread(5)));
}

#[test]
#[ignore = "needs root and a network namespace of its own"]
fn bytes_behind_missing_ones_are_an_obstacle_and_arrive_all_the_same() {
    let (mut here, mut there) = connected();
    there.set_nodelay(true).expect("at once");
    let loss = Dropping::what("meta length 152"); // 52 of headers
    there.write_all(&[1; 100]).expect("written");
    there.write_all(&[2; 50]).expect("written");
    eventually(|| matches!(obstacle(&here), NotQuiescent::OutOfOrder).then_some(()));
    drop(loss);
    let mut got = [0; 150];
    here.read_exact(&mut got).expect("sent again");
    assert_eq!(got, *[[1; 50], [1; 50], [2; 50]].as_flattened());
}

#[test]
#[ignore = "needs root and a network namespace of its own"]
fn a_connection_whose_other_end_has_closed_is_an_obstacle() {
    const CLOSE_WAIT: u8 = 8;
    let (mut here, there) = connected();
    drop(there);
    assert_eq!(here.read(&mut [0]).expect("an end"), 0);
    assert!(matches!(obstacle(&here), NotQuiescent::State(CLOSE_WAIT)));
}

#[test]
#[ignore = "needs root and a network namespace of its own"]
fn multipath_tcp_and_addresses_of_one_link_are_obstacles() {
    let multipath = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP)).expect("a socket");
    assert!(matches!(checkpoint(&multipath), Err(NotQuiescent::NotTcp)));
    let status = Command::new("ip")
        .args("address add fe80::1/64 dev lo nodad".split(' '))
        .status();
    assert!(status.expect("ip").success());
    let listener = TcpListener::bind("[fe80::1%1]:0").expect("a listener");
    let address = listener.local_addr().expect("an address");
    // The kernel adds the route to the address a moment after the address.
    let stream = eventually(|| TcpStream::connect(address).ok());
    assert!(matches!(checkpoint(&stream), Err(NotQuiescent::LinkLocal)));
}

#[test]
#[ignore = "needs root and a network namespace of its own"]
fn congestion_notification_is_an_obstacle() {
    let setting = "/proc/sys/net/ipv4/tcp_ecn";
    let before = std::fs::read(setting).expect("a setting");
    std::fs::write(setting, "1").expect("written");
    let (here, _there) = connected();
    std::fs::write(setting, before).expect("written");
    assert!(matches!(obstacle(&here), NotQuiescent::Options(8)));
}

#[test]
#[ignore = "needs root and a network namespace of its own"]
fn a_checkpointed_connection_that_is_released_goes_on() -> io::Result<()> {
    let (mut here, mut there) = connected();
    drop_all(&[here.as_fd()])?;
    let state = checkpoint(&here).expect("a checkpoint");
    there.write_all(b"a")?;
    state.release(&here)?;
    here.write_all(b"b")?;
    let mut got = [0; 1];
    here.read_exact(&mut got)?;
    assert_eq!(&got, b"a");
    there.read_exact(&mut got)?;
    assert_eq!(&got, b"b");
    Ok(())
}

#[test]
#[ignore = "needs root and a network namespace of its own"]
fn a_connection_that_drops_data_takes_acknowledgements_but_neither_data_nor_an_end() -> io::Result<()> {
    let (mut here, mut there) = connected();
    drop_incoming_data(&[here.as_fd()])?;
    here.write_all(b"hello")?;
    eventually(|| check_quiescent(&here).ok());
    there.write_all(b"and back")?;
    there.shutdown(Shutdown::Write)?;
    sleep(Duration::from_millis(50));
    check_quiescent(&here).expect("nothing of it came");
    release(&here)?;
    let mut got = vec![];
    here.read_to_end(&mut got)?;
    assert_eq!(got, b"and back");
    Ok(())
}

#[test]
#[ignore = "needs root and a network namespace of its own"]
fn a_paused_end_stops_in_mid_transfer_and_goes_on_with_every_byte() -> io::Result<()> {
    let (mut here, mut there) = connected();
    // It does not grow, so no more than this is under way.
    SockRef::from(&here).set_recv_buffer_size(1 << 20)?;
    let sent = pattern(20_000_000);
    let expected = sent.clone();
    let far = thread::spawn(move || there.write_all(&sent));
    let mut got = vec![0; 3_000_001];
    here.read_exact(&mut got)?;
    let pause = Pause::begin(&here)?;
    eventually(|| {
        drain(&mut here, &mut got);
        pause.holds(&here).expect("an answer").then_some(())
    });
    let stopped = got.len();
    sleep(Duration::from_millis(100));
    drain(&mut here, &mut got);
    assert!(got.len() - stopped < 100_000, "it was offered next to nothing");
    assert!(got.len() < expected.len() / 2, "in mid-transfer");
    pause.end(&here)?;
    here.read_to_end(&mut got)?;
    far.join().expect("no panic")?;
    assert!(got == expected);
    Ok(())
}

#[test]
#[ignore = "needs root and a network namespace of its own"]
fn an_end_without_anything_to_send_pauses_at_once() -> io::Result<()> {
    let (here, _there) = connected();
    sleep(Duration::from_millis(100));
    assert!(Pause::begin(&here)?.holds(&here)?);
    Ok(())
}

#[test]
#[ignore = "needs root and a network namespace of its own"]
fn beside_a_released_connection_its_port_can_be_listened_at_again() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let _client = TcpStream::connect(address)?;
    let (server, _) = listener.accept()?;
    drop_all(&[server.as_fd()])?;
    checkpoint(&server).expect("a checkpoint").release(&server)?;
    drop(listener);
    TcpListener::bind(address)?;
    Ok(())
}

#[test]
#[ignore = "needs root and a network namespace of its own"]
fn with_an_obstacle_to_one_of_two_both_go_on() -> io::Result<()> {
    let ((first, mut its_end), (mut second, _end)) = (connected(), connected());
    its_end.write_all(b"hello")?;
    eventually(|| (first.peek(&mut [0; 9]).expect("bytes") == 5).then_some(()));
    let sockets = [second.as_fd(), first.as_fd()];
    drop_incoming_data(&sockets)?;
    let both = checkpoint_both(sockets);
    assert!(matches!(both, Err(NotQuiescent::Unread(5))), "{both:?}");
    second.write_all(b"a")?;
    eventually(|| check_quiescent(&second).ok());
    Ok(())
}
