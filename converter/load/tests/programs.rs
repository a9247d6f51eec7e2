//! The program as a user runs it, on loopback: what it moves arrives, and what is damaged on the way is told.

mod common;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Output, Stdio};
use std::thread;

use common::{Server, complaint, free_address, lines, next, program, run, serve, serving, serving_all, told};
use serde_json::Value;

/// Connections that are held open.
struct Held {
    child: Child,
    output: BufReader<ChildStdout>,
}

/// Holds so many connections to `origin`; returns once all of them are there.
fn hold(origin: &Server, connections: u32) -> Held {
    let to = &origin.address;
    let mut child = program(&format!("idle-connections --to {to} --connections {connections}"))
        .stdin(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut output = lines(&mut child);
    assert!(next(&mut output).contains(&format!("\"connections\":{connections}")));
    Held { child, output }
}

impl Held {
    /// What it says of them after a line on its standard input, and the code that it ends with.
    fn told(mut self) -> (String, Option<i32>) {
        let mut input = self.child.stdin.take().expect("its input is a pipe");
        input.write_all(b"\n").expect("it reads");
        let said = next(&mut self.output);
        (said, self.child.wait().expect("it ends").code())
    }
}

/// A relay to `to` that damages each 100,000th byte which comes back.
fn damaging(to: String) -> String {
    serving_all(move |client| {
        let server = TcpStream::connect(&to).expect("the server answers");
        let [from, to] = [&client, &server].map(|end| end.try_clone().expect("a socket"));
        thread::spawn(move || copy(from, to, usize::MAX));
        copy(server, client, 100_000);
    })
}

fn copy(mut from: TcpStream, mut to: TcpStream, damaged: usize) {
    let mut buffer = vec![0; 16 << 10];
    let mut passed = 0;
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        for (at, byte) in buffer[..count].iter_mut().enumerate() {
            *byte ^= u8::from((passed + at) % damaged == damaged - 1);
        }
        passed += count;
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    to.shutdown(Shutdown::Write).ok(); // the other end may be gone
}

#[test]
fn bulk_bytes_arrive_both_ways_through_a_relay() {
    let origin = serve("origin");
    let relay = serve(&format!("relay --to {}", origin.address));
    for direction in ["--verify", "--upload"] {
        let to = &relay.address;
        let output = run(&format!("bulk --to {to} --connections 3 --bytes 5000001 {direction}"));
        assert!(output.status.success(), "{output:?}");
        assert_eq!(told(&output)["bytes"], 15_000_003);
    }
}

#[test]
fn bulk_tells_of_every_damaged_byte() {
    let origin = serve("origin");
    let relay = damaging(origin.address.clone());
    let output = run(&format!("bulk --to {relay} --bytes 1000000 --verify"));
    assert_eq!(output.status.code(), Some(1));
    let complaint = complaint(&output);
    assert!(complaint.contains("10 bytes were wrong"), "{complaint}");
}

#[test]
fn an_upload_in_chunks_is_counted_and_compared() {
    let origin = serve("origin");
    let mut stream = TcpStream::connect(&origin.address).expect("the origin answers");
    let head = "PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
    let body = "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
    stream
        .write_all((head.to_owned() + body).as_bytes())
        .expect("it takes the request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    assert!(answer.ends_with("{\"bytes\":5,\"wrong\":5}"), "{answer}");
}

#[test]
fn small_requests_are_all_answered() {
    let origin = serve("origin --mptcp");
    let to = &origin.address;
    for (command, is_fresh) in [("connect", false), ("requests", false), ("requests --fresh", true)] {
        let output = run(&format!("{command} --to {to} --clients 4 --seconds 0.2 --mptcp"));
        assert!(output.status.success(), "{output:?}");
        assert!(told(&output)["requests"].as_u64() > Some(0), "{output:?}");
        // A kept connection that the origin closes is an error at the next request, and then opened again.
        assert_eq!(told(&output)["errors"] != 0, is_fresh, "{output:?}");
    }
}

#[test]
fn each_transfer_of_each_size_is_timed() {
    let origin = serve("origin");
    let output = run(&format!("transfers --to {} --count 2 0 300000", origin.address));
    assert!(output.status.success(), "{output:?}");
    let told = told(&output);
    assert_eq!(told.as_object().expect("an object").len(), 2);
    for size in ["0", "300000"] {
        let taken: Vec<(f64, f64)> = serde_json::from_value(told[size].clone()).expect("pairs of milliseconds");
        assert_eq!(taken.len(), 2);
        let in_order = |&(first, whole): &(f64, f64)| 0.0 < first && first <= whole;
        assert!(taken.iter().all(in_order), "{taken:?}");
    }
}

/// A converter on loopback that reads one message and request whole, and sends `answer` and closes.
fn converter(answer: &'static [u8]) -> (String, thread::JoinHandle<Vec<u8>>) {
    serving(move |mut client| {
        let mut asked = Vec::new();
        while !asked.ends_with(b"\r\n\r\n") {
            let mut piece = [0; 512];
            let count = client.read(&mut piece).expect("it can be read");
            assert!(count > 0, "the request ended early");
            asked.extend_from_slice(&piece[..count]);
        }
        client.write_all(answer).expect("it can be written to");
        asked
    })
}

fn five_bytes_by(converter: &str) -> Output {
    run(&format!("transfers --to 192.0.2.1:80 --via-convert {converter} 5"))
}

#[test]
fn a_transfer_by_convert_sends_the_message_before_its_request() {
    let answer = b"\x01\x01\x22\x63HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    let (converter, asked) = converter(answer);
    let output = five_bytes_by(&converter);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(told(&output)["5"].as_array().map(Vec::len), Some(1));
    let asked = asked.join().expect("a converter does not panic");
    // RFC 8803 sections 6.1 and 6.2.5: header, then Connect with port and IPv4-mapped address.
    let message = b"\x01\x06\x22\x63\x0a\x05\x00\x50\0\0\0\0\0\0\0\0\0\0\xff\xff\xc0\x00\x02\x01";
    assert!(asked.starts_with(message), "{asked:02x?}");
    assert!(asked[message.len()..].starts_with(b"GET /5?close HTTP/1.1\r\n"));
}

#[test]
fn a_transfer_that_does_not_come_whole_fails() {
    let faults: [&[u8]; 3] = [
        b"\x01\x01\x22\x63HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
        b"\x01\x01\x22\x63HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhell",
        b"\x01\x02\x22\x63\x1e\x01\x00\x00", // an Error TLV
    ];
    for answer in faults {
        let (converter, _asked) = converter(answer);
        let output = five_bytes_by(&converter);
        assert_eq!(output.status.code(), Some(69), "{output:?}");
    }
}

#[test]
fn held_connections_are_proven_alive_after_a_line_on_standard_input_and_dead_ones_are_told() {
    for (is_there, said, code) in [
        (true, "{\"alive\":10,\"dead\":0}", 0),
        (false, "{\"alive\":0,\"dead\":10}", 1),
    ] {
        let origin = serve("origin");
        let held = hold(&origin, 10);
        let _origin = is_there.then_some(origin);
        assert_eq!(held.told(), (said.to_owned(), Some(code)));
    }
}

#[test]
fn connections_at_once_and_beside_them_are_timed() {
    let origin = serve("origin");
    let to = &origin.address;
    let output = run(&format!("setup --to {to} --connections 50 --beside 5"));
    let told = told(&output);
    assert_eq!(told["connections"], 50, "{output:?}");
    for kind in ["at_once", "beside"] {
        let [connected, answered] = ["connected", "answered"].map(|what| told[kind][what]["p50_us"].as_u64());
        assert!(Some(0) < connected && connected < answered, "{output:?}");
    }
}

#[test]
fn a_soak_over_tcp_and_mptcp_has_every_byte_right_and_passes_resets() {
    let origin = serve("soak-origin --mptcp");
    for protocol in ["", "--mptcp"] {
        let to = &origin.address;
        let output = run(&format!("soak --to {to} --seconds 2 --connections 8 {protocol}"));
        assert!(output.status.success(), "{output:?}");
        for end in ["client", "origin"] {
            let counts = &told(&output)[end];
            assert!(
                counts["resets"].as_u64() > Some(0) && counts["half_closes"].as_u64() > Some(0),
                "{counts}"
            );
            let none = &Value::from(0);
            assert_eq!((&counts["resets_as_ends"], &counts["stuck"]), (none, none));
        }
    }
}

/// Without a proxy nobody resets those that rest for too long.
#[test]
fn a_soak_whose_resting_connections_outlive_their_limit_fails() {
    let origin = serve("soak-origin");
    let resting = "--connections 1 --resting 16 --idle 0.2 --half-closed 0.2";
    let output = run(&format!("soak --to {} --seconds 0.1 {resting}", origin.address));
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let counts = &told(&output)["client"];
    assert!(counts["outlived"].as_u64() > Some(0), "{counts}");
    assert!(counts["rests"].as_u64() > Some(0), "{counts}");
    assert_eq!(counts["broken"], 0, "{counts}");
}

#[test]
fn a_soak_through_something_that_damages_bytes_fails() {
    let origin = serve("soak-origin");
    let relay = damaging(origin.address.clone());
    let output = run(&format!("soak --to {relay} --seconds 1 --connections 4"));
    assert_eq!(output.status.code(), Some(1));
    let told = told(&output);
    assert!(told["client"]["wrong_bytes"].as_u64() > Some(0), "{told}");
    assert_eq!(told["origin"]["wrong_bytes"], 0);
}

/// Serves files and parts of them, by kept connections; with `swapped` each 50th answer has the bytes of another file.
fn serve_files(root: &Path, swapped: bool) -> String {
    let root = root.to_owned();
    serving_all(move |client| serve_client(&root, client, swapped))
}

fn serve_client(root: &Path, mut client: TcpStream, swapped: bool) {
    let mut input = BufReader::new(client.try_clone().expect("a socket"));
    for number in 1.. {
        let head: Vec<_> = input
            .by_ref()
            .lines()
            .map_while(Result::ok)
            .take_while(|line| !line.is_empty())
            .collect();
        let Some(path) = head.first().and_then(|line| line.split(' ').nth(1)) else {
            return;
        };
        let mut object = std::fs::read(root.join(&path[1..])).expect("it is there");
        if swapped && number % 50 == 0 {
            object.reverse();
        }
        let range = head.iter().find_map(|line| line.strip_prefix("Range: bytes="));
        let part = range.map(|range| {
            let (first, last) = range.split_once('-').expect("a range");
            let number = |text: &str| text.parse::<usize>().expect("a number");
            object[number(first)..=number(last)].to_vec()
        });
        let status = if part.is_some() { 206 } else { 200 };
        let body = part.unwrap_or(object);
        let length = body.len();
        let head = format!("HTTP/1.1 {status} OK\r\nContent-Length: {length}\r\n\r\n");
        let answer = [head.as_bytes(), &body].concat();
        if client.write_all(&answer).is_err() {
            return;
        }
    }
}

/// Objects in two folders below a new one, and 500 requests for them by clients that rest for so many seconds.
fn fetched(name: &str, swapped: bool, rest: &str) -> Output {
    let root = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
    let corpus = "--folders a,b --objects 20 --bits 14";
    let stocked = run(&format!("generate --below {} {corpus}", root.display()));
    assert!(stocked.status.success());
    let count = std::fs::read_dir(root.join("b")).expect("it is there").count();
    assert_eq!(count, 20);
    let to = serve_files(&root, swapped);
    let asking = format!("fetch --to {to} --requests 500 --clients 4 --rest {rest}");
    let output = run(&format!("{asking} {corpus}"));
    std::fs::remove_dir_all(root).expect("removed");
    output
}

#[test]
fn objects_and_their_parts_are_what_was_stocked() {
    let output = fetched("whole", false, "0");
    let told = told(&output);
    assert!(output.status.success(), "{told}");
    assert_eq!((&told["answers"], &told["wrong"]), (&500.into(), &0.into()));
    assert_eq!((&told["broken"], &told["rested"]), (&0.into(), &0.into()));
}

#[test]
fn every_client_rests_once_and_then_goes_on() {
    let output = fetched("rested", false, "0.5");
    let told = told(&output);
    assert!(output.status.success(), "{told}");
    // Each one asks once more for its rest.
    assert_eq!((&told["answers"], &told["rested"]), (&504.into(), &4.into()));
    assert_eq!((&told["broken"], &told["wrong"]), (&0.into(), &0.into()));
    let seconds = told["seconds"].as_f64().expect("a number");
    assert!((0.5..10.0).contains(&seconds), "{told}");
}

#[test]
fn an_answer_with_other_bytes_is_told() {
    let output = fetched("swapped", true, "0");
    assert_eq!(output.status.code(), Some(1));
    let told = told(&output);
    assert!(told["wrong"].as_u64() > Some(0), "{told}");
    let first = told["first_wrong"].as_str().expect("text");
    assert!(first.contains("bytes are wrong"), "{first}");
}

#[test]
fn the_time_until_a_server_listens_is_measured_each_time() {
    let address = free_address();
    let server = concat!(env!("CARGO_BIN_EXE_tributary-load"), " origin --listen");
    let measure = format!("start --listens {address} --times 3 --");
    let output = run(&format!("{measure} {server} {address}"));
    let told = told(&output);
    let times = told["milliseconds"].as_array().expect("a list");
    assert_eq!(times.len(), 3);
    assert!(times.iter().all(|time| time.as_f64() > Some(0.0)), "{times:?}");
    assert!(TcpStream::connect(address.parse::<SocketAddr>().expect("an address")).is_err());
}

#[test]
fn a_server_that_ends_instead_of_listening_is_told() {
    let output = run(&format!("start --listens {} -- false", free_address()));
    assert_eq!(output.status.code(), Some(69));
}

#[test]
fn wrong_arguments_are_refused_with_the_code_for_usage() {
    for wrong in ["bulk", "bulk --to x --bytes 1", "relay --buffer 256", "fly"] {
        assert_eq!(run(wrong).status.code(), Some(64), "{wrong}");
    }
    assert_eq!(run("--help").status.code(), Some(0));
}

#[test]
fn nobody_that_answers_is_something_missing() {
    for client in [
        "bulk --bytes 1",
        "connect --seconds 0.1",
        "idle-connections --connections 1",
        "soak --seconds 0.1 --connections 1",
        "transfers 1",
    ] {
        let output = run(&format!("{client} --to {}", free_address()));
        assert_eq!(output.status.code(), Some(69), "{client}");
    }
}
