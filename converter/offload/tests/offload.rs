//! A relay that leaves in mid-transfer. `tests/netns/test_offload.py` runs this, as root in a network namespace of its
//! own, which is the relay's:
//!
//! ```text
//!     client 10.1.0.2 ---- 10.1.0.1 relay 10.2.0.1 ---- 10.2.0.2 server
//!           fd00:1::2 ---- fd00:1::1     fd00:2::1 ---- fd00:2::2
//! ```

mod common;

use std::fs;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::process::Command;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use common::{eventually, pattern};
use nix::sched::{CloneFlags, unshare};
use socket2::SockRef;
use tributary_offload::{Checkpoint, Connection, Limits, Translator, check_quiescent, checkpoint, drop_all};
use tributary_sys::device_number;

const DOWN: usize = 24 << 20;
const UP: usize = 4 << 20;
const BEFORE: usize = 1 << 20;
const LIMITS: Limits = Limits {
    closed: Duration::from_millis(300),
    idle: Duration::from_secs(20),
};

/// Where the relay listens, and as what the client knows it, and the relay the server.
#[derive(Clone, Copy)]
struct Way {
    listens: &'static str,
    relay: &'static str,
    server: &'static str,
}

const IPV4: Way = Way {
    listens: "0.0.0.0:8080",
    relay: "10.1.0.1:8080",
    server: "10.2.0.2:80",
};
const IPV6: Way = Way {
    listens: "[::]:8080",
    relay: "[fd00:1::1]:8080",
    server: "[fd00:2::2]:80",
};
/// A client of IPv4 where clients of IPv6 could come as well.
const DUAL_STACK: Way = Way {
    listens: "[::]:8080",
    ..IPV4
};

/// The relay's receive buffers, and those of the ends: their windows have different scales.
const RELAYS_BUFFERS: &str = "4096 131072 6291456";
const ENDS_BUFFERS: &str = "4096 131072 30000000";

fn receive_buffers(sizes: &str) {
    fs::write("/proc/sys/net/ipv4/tcp_rmem", sizes).expect("a setting");
}

/// Runs a command in the network namespace of this thread.
fn run(command: &str) {
    let words: Vec<_> = command.split(' ').collect();
    let output = Command::new(words[0]).args(&words[1..]).output();
    let output = output.expect("a command");
    assert!(output.status.success(), "{command}: {output:?}");
}

/// The relay's end of a cable, for as long as this lives.
struct Cable(&'static str);

impl Cable {
    fn number(&self) -> u32 {
        device_number(self.0).expect("a device")
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        // The end of the other end's namespace takes it along, sooner or later.
        let _ = Command::new("ip").args(["link", "delete", self.0]).output();
    }
}

/// One of the ends: a thread in a network namespace of its own.
struct End<T> {
    thread: JoinHandle<T>,
    cable: Cable,
}

impl<T: Send + 'static> End<T> {
    /// Connects it with the relay by a cable that is called `device` there.
    fn start(device: &'static str, net: u8, offloads: bool, work: impl FnOnce() -> T + Send + 'static) -> Self {
        let (place, there): (Sender<String>, _) = mpsc::channel();
        let (cable, connected) = mpsc::channel();
        let thread = thread::spawn(move || {
            apart(&place, &connected);
            let peer = format!("{device}-end");
            bring_up(&peer, net, 2);
            if !offloads {
                run(&format!("ethtool -K {peer} tx off tso off gso off"));
            }
            receive_buffers(ENDS_BUFFERS);
            work()
        });
        let there = there.recv().expect("a namespace");
        run(&format!(
            "ip link add {device} type veth peer name {device}-end netns {there}"
        ));
        bring_up(device, net, 1);
        cable.send(()).expect("it waits");
        Self {
            thread,
            cable: Cable(device),
        }
    }

    fn result(self) -> T {
        self.thread.join().expect("no error")
    }
}

/// Gives a device its addresses, the `host`th ones of a network for each version; nobody else has them, so none is probed for
/// first.
fn bring_up(device: &str, net: u8, host: u8) {
    run(&format!("ip address add 10.{net}.0.{host}/24 dev {device}"));
    run(&format!("ip address add fd00:{net}::{host}/64 dev {device} nodad"));
    run(&format!("ip link set {device} up"));
}

/// Puts this thread into a new network namespace, and waits for its cable.
fn apart(place: &Sender<String>, connected: &Receiver<()>) {
    unshare(CloneFlags::CLONE_NEWNET).expect("root");
    let own = fs::read_link("/proc/thread-self").expect("proc(5)");
    place.send(format!("/proc/{}/ns/net", own.display())).expect("it waits");
    connected.recv().expect("a cable");
}

/// A socket at each end of the relay, and what came of the client's request.
fn relay(listener: &TcpListener, server: &str) -> [TcpStream; 2] {
    let (mut client, _) = listener.accept().expect("a client");
    let mut server = eventually(|| TcpStream::connect(server).ok());
    let mut buffer = vec![0; 4096];
    client.read_exact(&mut buffer[..7]).expect("a request");
    server.write_all(&buffer[..7]).expect("written");
    let mut passed = 0;
    while passed < BEFORE {
        let length = server.read(&mut buffer).expect("read");
        client.write_all(&buffer[..length]).expect("written");
        passed += length;
    }
    [client, server]
}

/// Both connections while they rest. What the server has sent by then is with the client.
fn rest(client: &mut TcpStream, server: &mut TcpStream) -> [Checkpoint; 2] {
    drop_all(&[server.as_fd()]).expect("a filter");
    server.set_nonblocking(true).expect("non-blocking");
    let mut left = vec![];
    let error = server.read_to_end(&mut left).expect_err("it goes on");
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    assert!(left.len() < DOWN / 2, "in mid-transfer");
    client.write_all(&left).expect("written");
    eventually(|| check_quiescent(&*client).ok());
    drop_all(&[client.as_fd()]).expect("a filter");
    [&*client, &*server].map(|leg| checkpoint(leg).expect("a checkpoint"))
}

/// Leaves the path: from here on the kernel has the connection.
fn leave(translator: &Translator, [mut client, mut server]: [TcpStream; 2], devices: [u32; 2]) -> Connection {
    let state = rest(&mut client, &mut server);
    assert_ne!(state[0].scales.map(|s| s.snd), state[0].scales.map(|s| s.rcv));
    let sockets = [client.as_fd(), server.as_fd()];
    Connection::take_over(translator, sockets, &state, devices).expect("it begins")
}

/// A relay between a client and a server that do this, which has left after the first megabyte.
fn left<C: Send + 'static, S: Send + 'static>(
    way: Way,
    offloads: bool,
    client: impl FnOnce(TcpStream) -> C + Send + 'static,
    server: impl FnOnce(TcpStream) -> S + Send + 'static,
) -> (Translator, Connection, End<C>, End<S>) {
    receive_buffers(RELAYS_BUFFERS);
    let mut translator = Translator::load().expect("loaded");
    let server = End::start("to-server", 2, offloads, || {
        let (mut stream, _) = TcpListener::bind("[::]:80")
            .expect("a listener")
            .accept()
            .expect("a relay");
        stream.read_exact(&mut [0; 7]).expect("a request");
        server(stream)
    });
    let listener = TcpListener::bind(way.listens).expect("a listener");
    let client = End::start("to-client", 1, offloads, move || {
        let mut stream = TcpStream::connect(way.relay).expect("a relay");
        stream.write_all(b"request").expect("written");
        client(stream)
    });
    let sockets = relay(&listener, way.server);
    let devices = [client.cable.number(), server.cable.number()];
    translator.attach(client.cable.0).expect("attached");
    translator.attach(server.cable.0).expect("attached");
    let connection = leave(&translator, sockets, devices);
    (translator, connection, client, server)
}

/// Downloads and then uploads through a relay that leaves, to orderly ends on both sides.
fn transfer(way: Way, offloads: bool) {
    let (_translator, connection, client, server) = left(
        way,
        offloads,
        |mut stream| {
            let mut got = vec![0; DOWN];
            stream.read_exact(&mut got).expect("all of it");
            stream.write_all(&pattern(UP)).expect("written");
            stream.shutdown(Shutdown::Write).expect("the end");
            assert_eq!(stream.read(&mut [0]).expect("an end"), 0);
            got
        },
        |mut stream| {
            stream.write_all(&pattern(DOWN)).expect("written");
            let mut got = vec![];
            stream.read_to_end(&mut got).expect("all of it");
            got
        },
    );
    eventually(|| {
        let [up, down] = connection.seen().expect("asked");
        (up.fin && down.fin).then_some(())
    });
    let seen = connection.seen().expect("asked");
    assert_eq!(seen.map(|direction| direction.refused), [0, 0]);
    assert!(!seen.iter().any(|direction| direction.reset));
    let [up, down] = seen.map(|direction| usize::try_from(direction.bytes).expect("a number"));
    assert!(up >= UP && down > 0, "{up} and {down}");
    eventually(|| connection.over(&LIMITS).expect("asked").map(|_| ()));
    assert!(server.result() == pattern(UP), "the upload is whole");
    assert!(client.result() == pattern(DOWN), "the download is whole");
}

#[test]
#[ignore = "needs root and a network namespace of its own"]
fn every_byte_arrives_when_the_relay_leaves_in_mid_transfer() {
    for way in [IPV4, IPV6, DUAL_STACK] {
        transfer(way, true);
    }
}

#[test]
#[ignore = "needs root and a network namespace of its own"]
fn every_byte_arrives_where_checksums_are_computed_before_segments_are_sent() {
    for way in [IPV4, IPV6] {
        transfer(way, false);
    }
}

#[test]
#[ignore = "needs root and a network namespace of its own"]
fn a_reset_reaches_the_other_end_and_ends_the_translation() {
    let (_translator, connection, client, server) = left(
        IPV6,
        true,
        |mut stream| {
            stream
                .read_exact(&mut vec![0; DOWN - BEFORE])
                .expect("more than the relay has room for");
            SockRef::from(&stream).set_linger(Some(Duration::ZERO)).expect("set");
        },
        |mut stream| -> io::Error {
            let block = pattern(BEFORE);
            loop {
                if let Err(error) = stream.write_all(&block) {
                    return error;
                }
            }
        },
    );
    eventually(|| connection.over(&LIMITS).expect("asked").map(|_| ()));
    client.result();
    assert_eq!(server.result().kind(), ErrorKind::ConnectionReset);
}

#[test]
#[ignore = "needs root and a network namespace of its own"]
fn silence_ends_the_translation() {
    let (end, ended) = mpsc::channel::<()>();
    let (_translator, connection, client, server) = left(
        IPV4,
        true,
        |mut stream| {
            stream
                .read_exact(&mut vec![0; 2 * BEFORE])
                .expect("more than the relay passed");
            stream
        },
        move |mut stream| {
            stream.write_all(&pattern(2 * BEFORE)).expect("written");
            let _ = ended.recv();
        },
    );
    let limits = Limits {
        idle: Duration::from_millis(500),
        ..LIMITS
    };
    eventually(|| connection.over(&limits).expect("asked").map(|_| ()));
    drop(client.result());
    drop(end);
    server.result();
}
