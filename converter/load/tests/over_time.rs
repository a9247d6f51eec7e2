//! `flow`, `poll` and transfers that rest, on loopback: how much passes in a time, how it ends, how long each answer took.

mod common;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Output};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use common::{complaint, program, run, serve, serve_at, serving, told};
use serde_json::Value;

fn flow(to: &str, more: &str) -> Output {
    run(&format!("flow --to {to} --seconds 0.5 {more}"))
}

/// Ends a program by SIGTERM.
fn terminate(child: &Child) {
    let id = child.id().to_string();
    Command::new("kill").arg(id).status().expect("kill(1)");
}

fn number(told: &Value, name: &str) -> f64 {
    told[name].as_f64().unwrap_or_else(|| panic!("{name} of {told}"))
}

#[test]
fn a_flow_takes_its_time_and_what_it_is_allowed() {
    let origin = serve("origin");
    for direction in ["", "--upload"] {
        let free = told(&flow(&origin.address, direction));
        assert!((0.5..5.0).contains(&number(&free, "seconds")), "{free}");
        let paced = format!("{direction} --rate-limit 8000000");
        let paced = told(&flow(&origin.address, &paced));
        let [free, paced] = [free, paced].map(|told| number(&told, "bits_per_second"));
        assert!((1e6..9e6).contains(&paced), "{paced}");
        assert!(free > 2.0 * paced, "{free}, {paced}");
    }
}

#[test]
fn the_request_comes_in_two_parts_with_the_time_between_them_that_was_asked_for() {
    let (address, served) = serving(|mut stream| {
        let mut first = [0; 64];
        let count = stream.read(&mut first).expect("the first part");
        let (begun, mut rest) = (Instant::now(), [0; 512]);
        let more = stream.read(&mut rest).expect("the rest");
        let took = begun.elapsed();
        (first[..count].to_vec(), took, rest[..more].to_vec())
    });
    flow(&address, "--after 0.3 --rate-limit 800");
    let (first, between, rest) = served.join().expect("it serves");
    assert_eq!(first, b"GET ");
    assert!(between > Duration::from_millis(250), "{between:?}");
    assert!(rest.starts_with(b"/1125899906842624?rate-limit=800 HTTP/1.1\r\n"));
}

#[test]
fn a_flow_is_broken_off_at_its_end_and_when_it_is_terminated() {
    for terminated in [false, true] {
        let (address, served) = serving(|mut stream| {
            let mut buffer = vec![0; 1 << 16];
            loop {
                match stream.read(&mut buffer) {
                    Ok(0) => return "closed",
                    Ok(_) => {}
                    Err(_) => return "reset",
                }
            }
        });
        let seconds = if terminated { 60.0 } else { 0.2 };
        let words = format!("flow --to {address} --upload --seconds {seconds}");
        let mut child = program(&words).spawn().expect("it starts");
        if terminated {
            thread::sleep(Duration::from_millis(300));
            terminate(&child);
        }
        assert_eq!(served.join().expect("it serves"), "reset");
        assert!(child.wait().expect("it ends").success());
    }
}

/// A server that answers one request by these parts of a body, with so much time before the second.
fn answering(parts: [&'static [u8]; 2], between: Duration) -> (String, JoinHandle<()>) {
    serving(move |mut stream| {
        assert!(stream.read(&mut [0; 512]).expect("a request") > 0);
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n";
        stream.write_all(head).expect("a head");
        stream.write_all(parts[0]).expect("a part");
        thread::sleep(between);
        stream.write_all(parts[1]).expect("another part");
        let end = stream.read_to_end(&mut Vec::new());
        assert!(end.is_err(), "it is broken off: {end:?}");
    })
}

#[test]
fn the_longest_pause_of_a_flow_is_told() {
    let (address, served) = answering([b"abc", b"def"], Duration::from_millis(300));
    let told = told(&flow(&address, ""));
    served.join().expect("it serves");
    assert_eq!(told["bytes"], 6);
    assert!((0.25..0.5).contains(&number(&told, "longest_pause")), "{told}");
}

#[test]
fn what_moves_in_the_warm_up_is_left_out_of_the_rate() {
    let (address, served) = answering([b"abc", b"def"], Duration::from_millis(300));
    let told = told(&flow(&address, "--warm-up 0.1"));
    served.join().expect("it serves");
    assert_eq!(told["bytes"], 6);
    assert_eq!(told["bits_per_second"], 0.0, "the last came as it ended");
}

#[test]
fn bytes_that_are_wrong_are_an_error_if_they_are_compared() {
    let origin = serve("origin");
    let right = flow(&origin.address, "--verify --rate-limit 8000000");
    assert!(right.status.success(), "{right:?}");
    let (address, served) = answering([b"abc", b"def"], Duration::ZERO);
    let wrong = flow(&address, "--verify");
    served.join().expect("it serves");
    assert_eq!(wrong.status.code(), Some(1));
    assert_eq!(told(&wrong)["bytes"], 6);
    assert!(complaint(&wrong).contains("bytes were wrong"));
}

/// A server that answers one request by this.
fn saying(answer: &'static [u8]) -> (String, JoinHandle<()>) {
    serving(|mut stream| {
        assert!(stream.read(&mut [0; 512]).expect("a request") > 0);
        stream.write_all(answer).expect("an answer");
    })
}

#[test]
fn a_flow_that_ends_too_early_fails() {
    let (address, served) = saying(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc");
    let output = flow(&address, "");
    served.join().expect("it serves");
    assert_eq!(output.status.code(), Some(69));
    let complaint = complaint(&output);
    assert!(complaint.contains("the flow: "), "{complaint}");
}

#[test]
fn a_flow_that_still_connects_ends_when_it_is_terminated() {
    // A queue of one place, which two connections fill: no further one is answered.
    let listener = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
    let listener = listener.expect("a socket");
    let any: std::net::SocketAddr = "127.2.0.3:0".parse().expect("an address");
    listener.bind(&any.into()).expect("a port is free");
    listener.listen(0).expect("it listens");
    let address = listener.local_addr().expect("it is bound").as_socket();
    let address = address.expect("an IP address");
    let _filling = TcpStream::connect(address).expect("the one place");
    let mut child = program(&format!("flow --to {address} --seconds 60"))
        .spawn()
        .expect("it starts");
    thread::sleep(Duration::from_millis(500));
    terminate(&child);
    let asked = Instant::now();
    assert!(child.wait().expect("it ends").success());
    assert!(asked.elapsed() < Duration::from_secs(5));
}

/// Moves `bytes` in pieces by `each`; gives the longest that one took, and how many had been moved before it.
fn longest(bytes: usize, mut each: impl FnMut() -> usize) -> (Duration, usize) {
    let (mut moved, mut longest) = (0, (Duration::ZERO, 0));
    while moved < bytes {
        let start = Instant::now();
        let count = each();
        longest = longest.max((start.elapsed(), moved));
        moved += count;
    }
    longest
}

#[test]
fn a_transfer_rests_in_its_middle_and_a_window_closes_meanwhile() {
    const BYTES: usize = 128 << 14;
    for upload in [false, true] {
        let (address, served) = serving(move |mut stream| {
            let socket = socket2::SockRef::from(&stream);
            socket.set_send_buffer_size(1 << 16).expect("a buffer");
            let mut piece = [0; 1 << 14];
            if !upload {
                assert!(stream.read(&mut piece).expect("a request") > 0);
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {BYTES}\r\n\r\n");
                stream.write_all(head.as_bytes()).expect("a head");
                return longest(BYTES, || stream.write(&piece).expect("it takes it"));
            }
            let paused = longest(BYTES, || stream.read(&mut piece).expect("a piece"));
            let taken = format!("{{\"bytes\":{BYTES},\"wrong\":0}}");
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", taken.len());
            let answer = head + &taken;
            stream.write_all(answer.as_bytes()).expect("an answer");
            let rest = stream.read_to_end(&mut Vec::new());
            rest.expect("the rest of the body");
            paused
        });
        let direction = if upload { "--upload" } else { "" };
        let bulk = format!("bulk --to {address} --bytes {BYTES} --rest 0.5 {direction}");
        let output = run(&bulk);
        assert!(output.status.success(), "{output:?}");
        let (took, at) = served.join().expect("it serves");
        assert!((0.4..5.0).contains(&took.as_secs_f64()), "{took:?}");
        // Behind the middle are the request's head, or what both buffers take.
        assert!((BYTES / 2..BYTES * 3 / 4).contains(&at), "{at}");
    }
}

#[test]
fn times_that_cannot_go_by_are_refused() {
    for times in [
        "--seconds=nan --after=0",
        "--seconds=-1 --after=0",
        "--seconds=1 --after=inf",
    ] {
        let output = run(&format!("flow --to 127.0.0.1:1 {times}"));
        assert_eq!(output.status.code(), Some(64), "{times}");
        let complaint = complaint(&output);
        assert!(complaint.contains("from 0 to 86400"), "{complaint}");
    }
}

fn poll(to: &str, more: &str) -> Output {
    run(&format!("poll --to {to} --seconds 0.3 --every 0.1 {more}"))
}

#[test]
fn the_time_of_each_answer_is_told() {
    let origin = serve("origin");
    for path in ["", "--path /5?close"] {
        let output = told(&poll(&origin.address, path));
        let times = output["ms"].as_array().expect("a list");
        assert!((1..=4).contains(&times.len()), "{output}");
        assert_eq!(output["at"].as_array().expect("a list").len(), times.len());
        assert!(times.iter().all(|each| each.as_f64() > Some(0.0)), "{output}");
    }
}

#[test]
fn an_answer_other_than_200_ends_it() {
    let (address, served) = saying(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n");
    let output = poll(&address, "--path /file");
    served.join().expect("it serves");
    assert_eq!(output.status.code(), Some(69));
    let complaint = complaint(&output);
    assert!(
        complaint.contains("/file: ") && complaint.contains("503 Busy"),
        "{complaint}"
    );
}

#[test]
fn a_poll_that_goes_on_tells_its_failures_and_takes_the_next_answers() {
    // One request waits and is reset, as are the next ones; then they are refused; then the origin comes.
    let (address, served) = serving(|stream| {
        thread::sleep(Duration::from_millis(300));
        drop(stream);
    });
    let origin = address.clone();
    let coming = thread::spawn(move || {
        served.join().expect("it serves");
        thread::sleep(Duration::from_millis(300));
        serve_at(origin, "origin")
    });
    let output = run(&format!("poll --to {address} --seconds 1.5 --every 0.1 --go-on"));
    let output = told(&output);
    drop(coming.join().expect("the origin comes"));
    let (answered, failed) = (&output["ms"], output["failed"].as_array().expect("a list"));
    assert!(!answered.as_array().expect("a list").is_empty(), "{output}");
    assert!(failed.len() >= 2, "{output}");
    let at: Vec<f64> = failed.iter().map(|each| number(each, "at")).collect();
    assert!(at[0] > 1.7e9 && at.is_sorted(), "{output}");
    let whys = [&failed[0]["why"], &failed[failed.len() - 1]["why"]].map(|why| why.as_str());
    assert!(whys[0].unwrap().contains("reset"), "{output}");
    assert!(whys[1].unwrap().contains("refused"), "{output}");
}
